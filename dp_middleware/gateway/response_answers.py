"""Answers of the Responses API, whole or in pieces, as the client is shown them."""
# ruff: noqa: D102 - the calls are documented in Shown

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dp_middleware.conversation.exchange import Exchange, Reply
from dp_middleware.conversation.messages import answer_of
from dp_middleware.gateway.failures import Failure, garbage
from dp_middleware.gateway.turns import Shown

_ARGUMENTS = "response.function_call_arguments"
_PIECES = {  # event -> which field of its end has the whole
    "response.output_text": "text",
    "response.refusal": "refusal",
    _ARGUMENTS: "arguments",
}
_ENDS = ("response.completed", "response.incomplete", "response.failed")
_WITHHELD = {"code": "server_error", "message": "the upstream's words are withheld"}
_PLACE = ("item_id", "output_index", "content_index", "sequence_number")


def call_event(response: str, call_id: str) -> str:
    """The reference of a call in a response."""
    return f"{response}\x1fcall\x1f{call_id}"


class ShownResponse(Shown):
    """Responses; ``name`` makes the client's id of the upstream's, who gave ``previous``."""

    is_named = True

    def __init__(
        self, exchange: Exchange, name: Callable[[str], str], previous: str | None
    ) -> None:
        super().__init__(exchange)
        self._name, self._previous = name, previous
        self._growing: dict[tuple[Any, ...], Reply] = {}
        self._tools: dict[Any, str] = {}  # by the places of their calls
        self._said: dict[str, Any] | None = None
        self._number = 0

    def whole(self, answer: dict[str, Any]) -> dict[str, Any]:
        shown, self._said = self._response(answer), answer
        self.note()
        return shown

    def note(self, *, left: bool = False) -> bool:
        if self._said is None or left:  # later requests would go on from it by its id
            return False
        name, output = self._said["id"], self._said["output"]
        items = [{"role": "assistant", **item} for item in output if isinstance(item, dict)]
        answers = [answer for item in items if (answer := answer_of(item)) is not None]
        for answer in answers:
            answer.words()  # of what is no answer there are none
        for answer in answers:
            self.exchange.answer(answer)
            for call in answer.calls:
                self.exchange.keep(call_event(name, call.id))
        self.exchange.keep(name)
        return True

    def _response(self, response: dict[str, Any]) -> dict[str, Any]:
        output, name = response["output"], response["id"]
        if not isinstance(output, list) or not isinstance(name, str):
            raise garbage()
        shown = {**response, "id": self._name(name), "output": [*map(self._item, output)]}
        if "previous_response_id" in response:
            shown["previous_response_id"] = self._previous
        if response.get("error"):
            shown["error"] = _WITHHELD
        return shown

    def _item(self, item: Any) -> Any:
        kind = item.get("type") if isinstance(item, dict) else None
        if kind == "message":
            return {**item, "content": [*map(self._part, item["content"])]}
        if kind == "function_call":
            arguments = self.exchange.arguments(item["name"], item["arguments"])
            return {**item, "arguments": arguments}
        return item

    def _part(self, part: dict[str, Any]) -> dict[str, Any]:
        names = [name for name in ("text", "refusal") if isinstance(part.get(name), str)]
        return {**part, **{name: self.exchange.restore(part[name]) for name in names}}

    def feed(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        return [self._numbered(shown) for shown in self._fed(event)]

    def _fed(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        kind = str(event["type"])
        stem, _, last = kind.rpartition(".")
        if stem in _PIECES and last == "delta":
            return [{**event, "delta": self._piece(event, stem)}]
        if stem in _PIECES and last == "done":
            return self._done(event, stem)
        if isinstance(event.get("response"), dict):
            if kind in _ENDS:
                self._said = event["response"]
            return [{**event, "response": self._response(event["response"])}]
        if "item" in event:
            self._tools[event.get("output_index")] = event["item"].get("name", "")
            return [{**event, "item": self._item(event["item"])}]
        if isinstance(event.get("part"), dict):
            return [{**event, "part": self._part(event["part"])}]
        if kind == "error":
            raise garbage()
        return [event]

    def _piece(self, event: dict[str, Any], stem: str) -> str:
        place, is_call = _place(event, stem), stem == _ARGUMENTS
        if place not in self._growing:
            self._growing[place] = Reply(self.exchange)
            if is_call:
                self._growing[place].call(0, "", self._tool(event))
        reply = self._growing[place]
        return reply.arguments(event["delta"], 0) if is_call else reply.text(event["delta"], 0)

    def _done(self, event: dict[str, Any], stem: str) -> list[dict[str, Any]]:
        field, reply = _PIECES[stem], self._growing.pop(_place(event, stem), None)
        if stem == _ARGUMENTS:
            shown = self.exchange.arguments(self._tool(event), event[field])
        else:
            shown = self.exchange.restore(event[field])
        ended = {**event, field: shown}
        if reply is None or not (rest := reply.close(0)):
            return [ended]
        held = {name: event[name] for name in _PLACE if name in event}
        return [{**held, "type": f"{stem}.delta", "delta": rest, "logprobs": []}, ended]

    def _tool(self, event: dict[str, Any]) -> str:
        return str(event.get("name") or self._tools.get(event.get("output_index"), ""))

    def _numbered(self, event: dict[str, Any]) -> dict[str, Any]:
        """Numbers go on where an event was put in."""
        if "sequence_number" in event:
            event = {**event, "sequence_number": self._number}
        self._number += 1
        return event

    def broken(self, failure: Failure) -> dict[str, Any]:
        error = failure.body()["error"]
        told = {name: error[name] for name in ("code", "message", "param")}
        return {"type": "error", **told, "sequence_number": self._number, "error": error}


def _place(event: dict[str, Any], stem: str) -> tuple[Any, ...]:
    return stem, *(event.get(name) for name in _PLACE[:3])
