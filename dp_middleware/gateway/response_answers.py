"""Answers of the Responses API, whole or in pieces, as the client is shown them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dp_middleware.conversation.exchange import Exchange, Reply
from dp_middleware.conversation.messages import Message
from dp_middleware.conversation.response_items import answer_of
from dp_middleware.gateway.failures import Failure, garbage, read

_PIECES = {  # event -> which field of its end has the whole
    "response.output_text": "text",
    "response.refusal": "refusal",
    "response.function_call_arguments": "arguments",
}
_ARGUMENTS = "response.function_call_arguments"
_ENDS = ("response.completed", "response.incomplete", "response.failed")
_WITHHELD = {"code": "server_error", "message": "the upstream's words are withheld"}


@dataclass
class ResponseShower:
    """How an upstream's response is shown.

    Attributes:
        exchange: Of the request.
        name: Makes the id that the client is given, of the upstream's.
        previous: The id that the client gave.
    """

    exchange: Exchange
    name: Callable[[str], str]
    previous: str | None

    def response(self, response: dict[str, Any]) -> dict[str, Any]:
        """Returns a response object as it is shown."""
        output, upstream_id = response.get("output"), response.get("id")
        if not isinstance(output, list) or not isinstance(upstream_id, str):
            raise garbage()
        shown = {**response, "id": self.name(upstream_id)}
        shown["output"] = [read(self.item, item) for item in output]
        if "previous_response_id" in response:
            shown["previous_response_id"] = self.previous
        if response.get("error"):
            shown["error"] = _WITHHELD
        return shown

    def item(self, item: Any) -> Any:
        """Returns an item of its output as it is shown."""
        if not isinstance(item, dict):
            return item
        if item.get("type") == "message":
            return {**item, "content": [self.part(part) for part in item["content"]]}
        if item.get("type") == "function_call":
            arguments = self.exchange.arguments(item["name"], item["arguments"])
            return {**item, "arguments": arguments}
        return item

    def part(self, part: dict[str, Any]) -> dict[str, Any]:
        """Returns a part of a message as it is shown."""
        names = [name for name in ("text", "refusal") if isinstance(part.get(name), str)]
        return {**part, **{name: self.exchange.restore(part[name]) for name in names}}

    def note(self, response: dict[str, Any]) -> None:
        """Tells the session what was said; later requests go on from the response by its id."""
        for remote in read(_said, response):
            self.exchange.answer(remote)
            for call in remote.calls:
                self.exchange.keep(call_event(response["id"], call.id))
        self.exchange.keep(response["id"])


def _said(response: dict[str, Any]) -> list[Message]:
    said = [
        answer
        for item in response["output"]
        if isinstance(item, dict)
        and (answer := answer_of({"role": "assistant", **item})) is not None
    ]
    for remote in said:
        remote.words()  # of what is no answer there are none
    return said


def call_event(response: str, call_id: str) -> str:
    """The reference of a call in a response."""
    return f"{response}\x1fcall\x1f{call_id}"


@dataclass
class ResponseStream:
    """The events of a streamed response as the client is shown them.

    Attributes:
        shower: Shows what they hold.
    """

    shower: ResponseShower
    _growing: dict[tuple[Any, ...], Reply] = field(default_factory=dict)
    _tools: dict[Any, str] = field(default_factory=dict)  # by the places of their calls
    _whole: dict[str, Any] | None = None
    _number: int = 0

    named = True

    def feed(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        """Returns what is sent for one of the upstream's events; see :class:`Events`."""
        return [self._numbered(shown) for shown in read(self._fed, event)]

    def _fed(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        kind = str(event["type"])
        stem, _, last = kind.rpartition(".")
        if stem in _PIECES and last == "delta":
            return [{**event, "delta": self._piece(event, stem)}]
        if stem in _PIECES and last == "done":
            return self._done(event, stem)
        if isinstance(event.get("response"), dict):
            if kind in _ENDS:
                self._whole = event["response"]
            return [{**event, "response": self.shower.response(event["response"])}]
        if "item" in event:
            self._tools[event.get("output_index")] = event["item"].get("name", "")
            return [{**event, "item": self.shower.item(event["item"])}]
        if isinstance(event.get("part"), dict):
            return [{**event, "part": self.shower.part(event["part"])}]
        if kind == "error":
            raise garbage()
        return [event]

    def _done(self, event: dict[str, Any], stem: str) -> list[dict[str, Any]]:
        """The end of a text: before it, what was held back."""
        whole, reply = _PIECES[stem], self._growing.pop(_place(event, stem), None)
        rest = "" if reply is None else reply.close(0)
        place = ("item_id", "output_index", "content_index", "sequence_number")
        held = {name: event[name] for name in place if name in event}
        held |= {"type": f"{stem}.delta", "delta": rest, "logprobs": []}
        if stem == _ARGUMENTS:
            shown = self.shower.exchange.arguments(self._tool(event), event[whole])
        else:
            shown = self.shower.exchange.restore(event[whole])
        ended = {**event, whole: shown}
        return [held, ended] if rest else [ended]

    def _piece(self, event: dict[str, Any], stem: str) -> str:
        place = _place(event, stem)
        if place not in self._growing:
            self._growing[place] = Reply(self.shower.exchange)
            if stem == _ARGUMENTS:
                self._growing[place].call(0, "", self._tool(event))
        reply = self._growing[place]
        is_call = stem == _ARGUMENTS
        return reply.arguments(event["delta"], 0) if is_call else reply.text(event["delta"], 0)

    def _tool(self, event: dict[str, Any]) -> str:
        return str(event.get("name") or self._tools.get(event.get("output_index"), ""))

    def _numbered(self, event: dict[str, Any]) -> dict[str, Any]:
        """Numbers go on where an event was put in."""
        if "sequence_number" in event:
            event = {**event, "sequence_number": self._number}
        self._number += 1
        return event

    def complete(self) -> bool:
        """Tells whether the response has ended."""
        return self._whole is not None

    def broken(self, failure: Failure) -> dict[str, Any]:
        """Returns its event as documented, with the object beside it that clients look for."""
        error = failure.body()["error"]
        told = {name: error[name] for name in ("code", "message", "param")}
        event = {"type": "error", **told, "sequence_number": self._number, "error": error}
        return self._numbered(event)

    def note(self, *, left: bool = False) -> None:
        """Tells the session what was said; of a response that was left, nothing is kept."""
        if self._whole is not None and not left:
            self.shower.note(self._whole)


def _place(event: dict[str, Any], stem: str) -> tuple[Any, ...]:
    return stem, event.get("item_id"), event.get("output_index"), event.get("content_index")
