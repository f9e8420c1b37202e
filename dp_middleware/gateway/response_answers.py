"""Answers of the Responses API, whole or in pieces, as the client is shown them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dp_middleware.gateway.answers import garbage, reading, restored_json
from dp_middleware.gateway.failures import Failure
from dp_middleware.gateway.pieces import Growing
from dp_middleware.gateway.response_items import thought_words
from dp_middleware.gateway.streaming import sse
from dp_middleware.gateway.turns import Turn
from dp_middleware.gateway.words import Said, ToolCall

_PIECES = {  # event -> which field of its end has the whole
    "response.output_text": "text",
    "response.refusal": "refusal",
    "response.function_call_arguments": "arguments",
}
_ENDS = ("response.completed", "response.incomplete", "response.failed")
_WITHHELD = {"code": "server_error", "message": "the upstream's words are withheld"}


@dataclass
class ResponseShower:
    """How an upstream's response is shown.

    Attributes:
        turn: What was asked.
        name: Makes the id that the client is given, of the upstream's.
        previous: The id that the client gave.
    """

    turn: Turn
    name: Callable[[str], str]
    previous: str | None

    def response(self, response: dict[str, Any]) -> dict[str, Any]:
        """A response object.

        Raises:
            Failure: It is none.
        """
        output, upstream_id = response.get("output"), response.get("id")
        if not isinstance(output, list) or not isinstance(upstream_id, str):
            raise garbage()
        shown = {**response, "id": self.name(upstream_id)}
        with reading():
            shown["output"] = [self.item(item) for item in output]
        if "previous_response_id" in response:
            shown["previous_response_id"] = self.previous
        if response.get("error"):
            shown["error"] = _WITHHELD
        return shown

    def item(self, item: Any) -> Any:
        """An item of its output."""
        if not isinstance(item, dict) or not self.turn.restores:
            return item
        if item.get("type") == "message":
            return {**item, "content": [self.part(part) for part in item["content"]]}
        if item.get("type") == "function_call":
            return {**item, "arguments": restored_json(self.turn, item["arguments"])}
        return item

    def part(self, part: dict[str, Any]) -> dict[str, Any]:
        """A part of a message."""
        if not self.turn.restores:
            return part
        names = [name for name in ("text", "refusal") if isinstance(part.get(name), str)]
        return {**part, **{name: self.turn.restore(part[name]) for name in names}}

    def note(self, response: dict[str, Any]) -> None:
        """Tell the session what was said; calls also by their ids, which results refer to.

        Raises:
            Failure: It is no response object.
        """
        with reading():
            said = [
                (words, _words(self.item(item)))
                for item in response["output"]
                if (words := _words(item)) is not None
            ]
        self.turn.note([(words, shown or words) for words, shown in said])
        session, name = self.turn.call.session, self.turn.plan.conversation or ""
        for item in response["output"]:
            if isinstance(item, dict) and item.get("type") == "function_call":
                call = str(item["call_id"])
                session.note_remote(call_event(call), call, conversation=name)


def call_event(call_id: str) -> str:
    """The event by which a session knows the id of a call."""
    return f"\x1fcall\x1f{call_id}"


def _words(item: Any) -> str | None:
    if not isinstance(item, dict):
        return None
    kind = item.get("type")
    if kind == "message":
        parts = [part for part in item["content"] if isinstance(part, dict)]
        return Said(
            text="".join(part.get("text") or "" for part in parts),
            refusal="".join(part.get("refusal") or "" for part in parts),
        ).words()
    if kind == "function_call":
        call = ToolCall(id=item["call_id"], name=item["name"], arguments=item["arguments"])
        return Said(calls=[call]).words()
    return thought_words(item) if kind == "reasoning" else None


@dataclass
class ResponseStream:
    """The events of a streamed response as the client is shown them.

    Attributes:
        shower: Shows what they hold.
    """

    shower: ResponseShower
    _growing: dict[tuple[Any, ...], Growing] = field(default_factory=dict)
    _whole: dict[str, Any] | None = None
    _number: int = 0

    def feed(self, event: dict[str, Any]) -> list[str]:
        """What is sent for one of the upstream's events.

        Raises:
            Failure: It is none of this protocol.
        """
        with reading():
            events = self._fed(event)
        return [self._numbered(each) for each in events]

    def _fed(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        kind = str(event["type"])
        stem, _, last = kind.rpartition(".")
        if stem in _PIECES and last == "delta":
            return [{**event, "delta": self._text(event, stem).feed(event["delta"])}]
        if stem in _PIECES and last == "done":
            return self._done(event, stem)
        if isinstance(event.get("response"), dict):
            if kind in _ENDS:
                self._whole = event["response"]
            return [{**event, "response": self.shower.response(event["response"])}]
        if "item" in event:
            return [{**event, "item": self.shower.item(event["item"])}]
        if isinstance(event.get("part"), dict):
            return [{**event, "part": self.shower.part(event["part"])}]
        if kind == "error":
            raise garbage()
        return [event]

    def _done(self, event: dict[str, Any], stem: str) -> list[dict[str, Any]]:
        """The end of a text: before it, what was held back."""
        growing, whole = self._text(event, stem), _PIECES[stem]
        rest = growing.close()
        place = ("item_id", "output_index", "content_index", "sequence_number")
        held = {name: event[name] for name in place if name in event}
        held |= {"type": f"{stem}.delta", "delta": rest, "logprobs": []}
        ended = {**event, whole: growing.shown or event[whole]}
        return [held, ended] if rest else [ended]

    def _text(self, event: dict[str, Any], stem: str) -> Growing:
        key = (stem, event.get("item_id"), event.get("output_index"), event.get("content_index"))
        if key not in self._growing:
            turn, is_json = self.shower.turn, stem == "response.function_call_arguments"
            self._growing[key] = Growing(turn.restorer(json=is_json))
        return self._growing[key]

    def _numbered(self, event: dict[str, Any]) -> str:
        """Numbers go on where an event was put in."""
        if "sequence_number" in event:
            event = {**event, "sequence_number": self._number}
        self._number += 1
        return sse(event, str(event["type"]))

    def complete(self) -> bool:
        """Whether the response has ended."""
        return self._whole is not None

    def broken(self, failure: Failure) -> str:
        """Its event as documented, with the object beside it that clients look for."""
        error = failure.body()["error"]
        told = {name: error[name] for name in ("code", "message", "param")}
        event = {"type": "error", **told, "sequence_number": self._number, "error": error}
        return self._numbered(event)

    def note(self, *, left: bool = False) -> None:
        """Tell the session what was said; of a response that was left, nothing is kept."""
        if self._whole is not None and not left:
            self.shower.note(self._whole)
