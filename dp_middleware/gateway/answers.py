"""Answers of a chat model, whole or in pieces: what it said, and what the client is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dp_middleware.errors import DPMiddlewareError
from dp_middleware.gateway.failures import Failure
from dp_middleware.gateway.turns import Turn
from dp_middleware.gateway.words import Said, ToolCall


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
    turn: Turn, answer: dict[str, Any], fit: Callable[[Said], Said] | None = None
) -> dict[str, Any]:
    """A whole answer as the client is shown it; what was said in it is noted.

    Args:
        turn: What was asked.
        answer: Of the upstream.
        fit: Changes what the client is shown further.

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
        said = said_in(message)
        visible = restored(turn, said)
        if fit is not None:
            visible = fit(visible)
        turn.note([(said.words(), visible.words())])
        shown.append({**choice, "message": {**message, **_changed(message, visible)}})
    return {**answer, "choices": shown}


def said_in(message: dict[str, Any]) -> Said:
    """What an upstream's message says.

    Raises:
        Failure: It is none.
    """
    texts = [message.get(name) or "" for name in ("content", "refusal")]
    calls = message.get("tool_calls") or []
    with reading():
        made = [
            ToolCall(
                id=call["id"],
                name=call["function"]["name"],
                arguments=call["function"]["arguments"],
            )
            for call in calls
        ]
    spelled = [*texts, *(part for call in made for part in vars(call).values())]
    if not all(isinstance(each, str) for each in spelled):
        raise garbage()
    return Said(text=texts[0], refusal=texts[1], calls=made)


def restored(turn: Turn, said: Said) -> Said:
    """As the client is shown it."""
    if not turn.restores:
        return said
    calls = [
        ToolCall(id=call.id, name=call.name, arguments=restored_json(turn, call.arguments))
        for call in said.calls
    ]
    return Said(text=turn.restore(said.text), refusal=turn.restore(said.refusal), calls=calls)


def restored_json(turn: Turn, text: str) -> str:
    """JSON stays JSON, whatever the originals hold."""
    restorer = turn.restorer(json=True)
    return str(restorer.feed(text) + restorer.close())


def _changed(message: dict[str, Any], visible: Said) -> dict[str, Any]:
    """The fields of a message that are shown in another form."""
    changed: dict[str, Any] = {}
    if isinstance(message.get("content"), str):
        changed["content"] = visible.text
    if isinstance(message.get("refusal"), str):
        changed["refusal"] = visible.refusal
    if message.get("tool_calls"):
        changed["tool_calls"] = [
            {**call, "function": {**call["function"], "arguments": own.arguments}}
            for call, own in zip(message["tool_calls"], visible.calls, strict=True)
        ]
    return changed


def shown_texts(turn: Turn, answer: dict[str, Any]) -> dict[str, Any]:
    """Whole completions of prompts as the client is shown them; an echo of a prompt too.

    Raises:
        Failure: It is none.
    """
    choices = answer.get("choices")
    if not isinstance(choices, list):
        raise garbage()
    if not all(isinstance(c, dict) and isinstance(c.get("text"), str) for c in choices):
        raise garbage()
    return {**answer, "choices": [{**c, "text": turn.restore(c["text"])} for c in choices]}
