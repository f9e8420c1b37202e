"""Answers to chats and completions, whole or in pieces, as the client is shown them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dp_middleware.conversation.exchange import Exchange, Reply
from dp_middleware.conversation.messages import Message, ToolCall
from dp_middleware.errors import DPMiddlewareError
from dp_middleware.gateway.failures import LACKING, Failure, garbage, read


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
    said = read(_said, answer)
    shown = []
    for choice, remote in zip(answer["choices"], said, strict=True):
        if fit is None:
            visible = exchange.answer(remote)
        else:
            visible = fit(exchange.shown(remote))
            exchange.note_extracted((remote, visible))
        message = choice["message"]
        shown.append({**choice, "message": {**message, **_changed(message, visible)}})
    return {**answer, "choices": shown}


def _said(answer: dict[str, Any]) -> list[Message]:
    """The messages of an upstream's answer."""
    choices = answer["choices"]
    if not isinstance(choices, list) or not choices:
        raise garbage()
    return [_message(choice["message"]) for choice in choices]


def _message(message: dict[str, Any]) -> Message:
    texts = [message.get(name) or "" for name in ("content", "refusal")]
    calls = tuple(
        ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls") or ()
    )
    if not all(isinstance(text, str) for text in [*texts, *(part for c in calls for part in c)]):
        raise garbage()
    extra = {"refusal": texts[1]} if texts[1] else {}
    return Message(role="assistant", texts=(texts[0],), calls=calls, extra=extra)


def _changed(message: dict[str, Any], visible: Message) -> dict[str, Any]:
    """The fields of a message that are shown in another form."""
    shown: dict[str, Any] = {"content": visible.text, "refusal": visible.extra.get("refusal", "")}
    changed = {name: text for name, text in shown.items() if isinstance(message.get(name), str)}
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
    if not isinstance(choices, list) or not all(
        isinstance(c, dict) and isinstance(c.get("text"), str) for c in choices
    ):
        raise garbage()
    return {**answer, "choices": [{**c, "text": exchange.restore(c["text"])} for c in choices]}


class ChatStream:
    """The events of a streamed chat."""

    named = False

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._replies: dict[int, Reply] = {}  # by the places of their choices
        self._open: set[int] = set()

    def feed(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        """Returns what is sent for one of the upstream's events; see :class:`Events`."""
        before, choices = list[dict[str, Any]](), []
        try:
            for choice in event.get("choices") or ():
                place = int(choice.get("index", 0))
                if place not in self._replies:
                    self._replies[place] = Reply(self._exchange)
                    self._open.add(place)
                if choice.get("finish_reason"):
                    self._open.discard(place)
                choices.append(self._shown(choice, place, before))
        except DPMiddlewareError:
            raise
        except LACKING:
            raise garbage() from None
        head = {name: value for name, value in event.items() if name != "usage"}
        return [*({**head, "choices": [own]} for own in before), {**event, "choices": choices}]

    def _shown(
        self, choice: dict[str, Any], place: int, before: list[dict[str, Any]]
    ) -> dict[str, Any]:
        """One choice of an event; what was held back stands before its end."""
        reply, delta = self._replies[place], dict(choice.get("delta") or {})
        for name in ("content", "refusal"):
            if isinstance(piece := delta.get(name), str):
                delta[name] = reply.text(piece, name)
        if calls := delta.get("tool_calls"):
            delta["tool_calls"] = [_fed(reply, call) for call in calls]
        if place not in self._open and (rest := _rest(reply)):
            held = {"index": place, "delta": delta, "finish_reason": None}
            before += [held, {**held, "delta": rest}]
            delta = {}
        return {**choice, "delta": delta}

    def complete(self) -> bool:
        """Tells whether all answers that began have ended."""
        return bool(self._replies) and not self._open

    def broken(self, failure: Failure) -> dict[str, Any]:
        """Returns the event that OpenAI's clients expect."""
        return failure.body()

    def note(self, *, left: bool = False) -> None:
        """Tells the session what was said."""
        for reply in self._replies.values():
            reply.end(left=left)


def _fed(reply: Reply, call: dict[str, Any]) -> dict[str, Any]:
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


class TextStream(ChatStream):
    """The events of streamed completions of prompts, which are no messages."""

    def _shown(
        self, choice: dict[str, Any], place: int, before: list[dict[str, Any]]
    ) -> dict[str, Any]:
        reply = self._replies[place]
        text = reply.text(choice.get("text") or "")
        rest = "" if place in self._open else reply.close("text")
        return {**choice, "text": text + rest}

    def note(self, *, left: bool = False) -> None:
        """Notes nothing."""
