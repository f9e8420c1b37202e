"""Whole answers: what a remote model said, and what the client is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dp_middleware.conversation.exchange import Exchange
from dp_middleware.conversation.messages import Message, ToolCall
from dp_middleware.errors import DPMiddlewareError
from dp_middleware.gateway.failures import Failure


def garbage() -> Failure:
    """Of an upstream that speaks another protocol."""
    message = "the upstream answered with something else than this protocol"
    return Failure(502, message, "upstream_garbage", kind="server_error")


@contextmanager
def reading() -> Iterator[None]:
    """In this block, what an upstream's answer lacks is a failure of the upstream, not of ours.

    Raises:
        Failure: It is of another protocol.
    """
    try:
        yield
    except DPMiddlewareError:
        raise
    except (TypeError, KeyError, AttributeError, ValueError, OverflowError):
        raise garbage() from None


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
