"""Answers to chats and completions, whole or in pieces, as the client is shown them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dp_middleware.conversation.exchange import Exchange
from dp_middleware.conversation.messages import Message, ToolCall
from dp_middleware.conversation.reply import Reply
from dp_middleware.gateway.failures import Failure, garbage, reading
from dp_middleware.gateway.turns import sse


def shown_chat(
    exchange: Exchange, answer: dict[str, Any], fit: Callable[[Message], Message] | None = None
) -> dict[str, Any]:
    """Notes a whole answer, and returns what the client is shown.

    Args:
        exchange: Of the request.
        answer: Of the upstream.
        fit: A local model that changes what the client is shown further.

    Raises:
        Failure: It is none.
    """
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices:
        raise garbage()
    shown = []
    for choice in choices:
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(message, dict):
            raise garbage()
        remote = said_in(message)
        if fit is None:
            visible = exchange.answer(remote)
        else:
            visible = fit(exchange.shown(remote))
            exchange.note_extracted((remote, visible))
        shown.append({**choice, "message": {**message, **_changed(message, visible)}})
    return {**answer, "choices": shown}


def said_in(message: dict[str, Any]) -> Message:
    """Reads an upstream's message.

    Raises:
        Failure: It is none.
    """
    texts = [message.get(name) or "" for name in ("content", "refusal")]
    with reading():
        calls = tuple(
            ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
            for call in message.get("tool_calls") or ()
        )
    if not all(isinstance(each, str) for each in [*texts, *(part for c in calls for part in c)]):
        raise garbage()
    extra = {"refusal": texts[1]} if texts[1] else {}
    return Message(role="assistant", texts=(texts[0],), calls=calls, extra=extra)


def _changed(message: dict[str, Any], visible: Message) -> dict[str, Any]:
    """The fields of a message that are shown in another form."""
    changed: dict[str, Any] = {}
    if isinstance(message.get("content"), str):
        changed["content"] = visible.text
    if isinstance(message.get("refusal"), str):
        changed["refusal"] = visible.extra.get("refusal", "")
    if message.get("tool_calls"):
        changed["tool_calls"] = [
            {**call, "function": {**call["function"], "arguments": own.arguments}}
            for call, own in zip(message["tool_calls"], visible.calls, strict=True)
        ]
    return changed


def shown_texts(exchange: Exchange, answer: dict[str, Any]) -> dict[str, Any]:
    """Returns whole completions of prompts as the client is shown them; an echo of a prompt too.

    Raises:
        Failure: It is none.
    """
    choices = answer.get("choices")
    if not isinstance(choices, list):
        raise garbage()
    if not all(isinstance(c, dict) and isinstance(c.get("text"), str) for c in choices):
        raise garbage()
    return {**answer, "choices": [{**c, "text": exchange.restore(c["text"])} for c in choices]}


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
