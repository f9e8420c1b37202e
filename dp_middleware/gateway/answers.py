"""Whole answers to chats, as the client is shown them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from starlette.responses import JSONResponse, Response

from dp_middleware.conversation.exchange import Exchange
from dp_middleware.conversation.messages import Message, ToolCall
from dp_middleware.gateway.extraction import Extraction
from dp_middleware.gateway.failures import garbage, read
from dp_middleware.gateway.turns import DONE, Turn, in_thread
from dp_middleware.gateway.upstream import sse


def shown_chat(
    exchange: Exchange, answer: dict[str, Any], fit: Callable[[Message], Message] | None = None
) -> dict[str, Any]:
    """Notes a whole answer, and returns what the client is shown.

    Args:
        exchange: Of the request.
        answer: Of the upstream.
        fit: A local model that changes what the client is shown further.
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
    choices = answer["choices"]
    if not isinstance(choices, list) or not choices:
        raise garbage()
    return [_message(choice["message"]) for choice in choices]


def _message(message: dict[str, Any]) -> Message:
    texts = [message.get(name) or "" for name in ("content", "refusal")]
    calls = tuple(map(ToolCall.of_openai, message.get("tool_calls") or ()))
    if not all(isinstance(text, str) for text in [*texts, *(part for c in calls for part in c)]):
        raise garbage()
    extra = {"refusal": texts[1]} if texts[1] else {}
    return Message(role="assistant", texts=(texts[0],), calls=calls, extra=extra)


def _changed(message: dict[str, Any], visible: Message) -> dict[str, Any]:
    shown: dict[str, Any] = {"content": visible.text, "refusal": visible.extra.get("refusal", "")}
    changed = {name: text for name, text in shown.items() if isinstance(message.get(name), str)}
    if message.get("tool_calls"):
        changed["tool_calls"] = [
            {**call, "function": {**call["function"], "arguments": own.arguments}}
            for call, own in zip(message["tool_calls"], visible.calls, strict=True)
        ]
    return changed


async def extracted(turn: Turn, path: str, extraction: Extraction) -> Response:
    """Returns the answer that a local model made of the upstream's, which is waited for whole."""
    whole = {k: value for k, value in turn.body.items() if k not in ("stream", "stream_options")}
    answer = await turn.call.gateway.upstream.ask(path, whole)
    transcript = turn.plan.transcript
    shown = await in_thread(
        lambda: shown_chat(turn.exchange, answer, lambda said: extraction.fitted(said, transcript)),
        extraction.threads,
    )
    if not turn.body.get("stream"):
        return JSONResponse(shown, headers=turn.headers)
    events = b"".join(map(sse, _chunks(shown))) + DONE
    return Response(events, media_type="text/event-stream", headers=turn.headers)


def _chunks(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A whole answer as the events of a stream: one for each choice, and one for its end."""
    head = {k: value for k, value in answer.items() if k not in ("choices", "usage")}
    head["object"] = "chat.completion.chunk"
    for choice in answer["choices"]:
        delta = dict(choice["message"])
        if calls := delta.get("tool_calls"):
            delta["tool_calls"] = [{"index": k, **call} for k, call in enumerate(calls)]
        end = {"index": choice.get("index", 0), "delta": {}, "finish_reason": None}
        yield {**head, "choices": [{**end, "delta": delta}]}
        yield {**head, "choices": [{**end, "finish_reason": choice.get("finish_reason")}]}
