"""Answers in pieces, as the client is shown them."""

from __future__ import annotations

from typing import Any

from dp_middleware.conversation.exchange import Exchange
from dp_middleware.conversation.reply import Reply
from dp_middleware.gateway.answers import reading
from dp_middleware.gateway.failures import Failure
from dp_middleware.gateway.streaming import sse


class _Choices:
    """The answers of one response, by their places.

    Args:
        exchange: Of the request.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._replies: dict[int, Reply] = {}
        self._open: set[int] = set()

    def complete(self) -> bool:
        """Whether all answers that began have ended."""
        return bool(self._replies) and not self._open

    def broken(self, failure: Failure) -> str:
        """As OpenAI's clients expect it."""
        return sse(failure.body())

    def _reply(self, place: int) -> Reply:
        if place not in self._replies:
            self._replies[place] = Reply(self._exchange)
            self._open.add(place)
        return self._replies[place]


class ChatStream(_Choices):
    """The events of a streamed chat."""

    def feed(self, event: dict[str, Any]) -> list[str]:
        """Returns what is sent for one of the upstream's events.

        Raises:
            Failure: It is none of this protocol.
        """
        with reading():
            return self._fed(event)

    def _fed(self, event: dict[str, Any]) -> list[str]:
        before, choices = [], []
        for choice in event.get("choices") or ():
            place = int(choice.get("index", 0))
            reply = self._reply(place)
            delta = _fed(reply, choice.get("delta") or {})
            if choice.get("finish_reason"):
                self._open.discard(place)
                if rest := _rest(reply):
                    held = {"index": place, "delta": {**delta}, "finish_reason": None}
                    before += [held, {**held, "delta": rest}]
                    delta = {}
            choices.append({**choice, "delta": delta})
        head = {name: value for name, value in event.items() if name != "usage"}
        events = [{**head, "choices": [each]} for each in before]
        return [sse(each) for each in (*events, {**event, "choices": choices})]

    def note(self, *, left: bool = False) -> None:
        """Tells the session what was said."""
        for reply in self._replies.values():
            reply.end(left=left)


def _fed(reply: Reply, delta: dict[str, Any]) -> dict[str, Any]:
    changed = dict(delta)
    for name in ("content", "refusal"):
        if isinstance(piece := delta.get(name), str):
            changed[name] = reply.text(piece, name)
    if calls := delta.get("tool_calls"):
        changed["tool_calls"] = [_fed_call(reply, call) for call in calls]
    return changed


def _fed_call(reply: Reply, call: dict[str, Any]) -> dict[str, Any]:
    function, place = call.get("function") or {}, int(call.get("index", 0))
    if not reply.has_call(place):
        reply.call(place, str(call["id"]), str(function["name"]))
    piece = function.get("arguments")
    if not isinstance(piece, str):
        return call
    return {**call, "function": {**function, "arguments": reply.arguments(piece, place)}}


def _rest(reply: Reply) -> dict[str, Any]:
    """A delta with what was held back."""
    rests = reply.close_all()
    delta: dict[str, Any] = {name: rest for name, rest in rests.items() if isinstance(name, str)}
    calls = [
        {"index": place, "function": {"arguments": rest}}
        for place, rest in rests.items()
        if isinstance(place, int)
    ]
    return {**delta, "tool_calls": calls} if calls else delta


class TextStream(_Choices):
    """The events of streamed completions of prompts."""

    def feed(self, event: dict[str, Any]) -> list[str]:
        """Returns what is sent for one of the upstream's events.

        Raises:
            Failure: It is none of this protocol.
        """
        with reading():
            choices = [self._choice(choice) for choice in event.get("choices") or ()]
        return [sse({**event, "choices": choices})]

    def _choice(self, choice: dict[str, Any]) -> dict[str, Any]:
        place = int(choice.get("index", 0))
        reply = self._reply(place)
        text = reply.text(choice.get("text") or "")
        if choice.get("finish_reason"):
            self._open.discard(place)
            text += reply.close("text")
        return {**choice, "text": text}

    def note(self, *, left: bool = False) -> None:
        """Notes nothing: a completion is no message."""
