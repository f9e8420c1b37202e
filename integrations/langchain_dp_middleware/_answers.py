"""Answers of a remote model: noted, and sent again as it said them."""

from __future__ import annotations

import json
from typing import Any

from langchain_core.messages import AIMessage

import dp_middleware as dp
from dp_middleware.conversation.exchange import Exchange
from dp_middleware.conversation.messages import Message, ToolCall
from dp_middleware.errors import ParameterError
from langchain_dp_middleware._calls import METADATA, restored

_REPEATED = ("tool_calls", "function_call")  # what a provider says of calls is said in them


def answer_of(message: AIMessage) -> Message:
    """Returns all that the remote model is told again of its answer."""
    calls = tuple(
        ToolCall(call["id"] or "", call["name"], json.dumps(call["args"]))
        for call in message.tool_calls
    )
    texts, extra = tuple[str, ...](), dict[str, Any]()
    if isinstance(message.content, str):
        texts = (message.content,)
    else:
        extra["content"] = _json_of(message.content)
    if message.invalid_tool_calls:
        extra["invalid_tool_calls"] = _json_of(message.invalid_tool_calls)
    kwargs = {k: v for k, v in message.additional_kwargs.items() if k not in _REPEATED or not calls}
    if (calls or extra) and kwargs:
        extra["additional_kwargs"] = _json_of(kwargs)
    return Message(role="assistant", texts=texts, calls=calls, extra=extra, id=message.id)


def message_again(sent: Message) -> AIMessage:
    """Makes an answer again, from what :func:`answer_of` gave for it and nothing else."""
    fields = dict(sent.extra)
    calls = [
        {"name": call.name, "args": json.loads(call.arguments), "id": call.id or None}
        for call in sent.calls
    ]
    content = fields.pop("content", sent.text)
    return AIMessage(content=content, tool_calls=calls, id=sent.id, **fields)


def _json_of(value: Any) -> Any:
    return json.loads(json.dumps(value, default=str))


def note_answer(
    session: dp.Session,
    remote: AIMessage,
    *,
    event_id: str | None = None,
    conversation: str = "",
) -> None:
    """Tells the session what the remote model answered: its words and its calls of tools.

    Args:
        session: Lets the answer out again in a later transcript.
        remote: The message as the **remote** model wrote it, never one that a local model
            extracted.
        event_id: Id of the message that stands for it in the transcript; default its own. One
            that has none is known by its words.
        conversation: Thread or session id of the call; default: any call without one.

    Raises:
        EventRefused: A message with this id was released as a private one.
        ParameterError: What an adapter has shown under pseudonyms, with the originals.
    """
    if session.restores and METADATA in remote.response_metadata:
        raise ParameterError(
            "expected the remote model's own words, got a shown answer, with originals; "
            'let the adapter note it, as PrivateHead(..., answers="note") does, or set ai="pass", '
            "which gives it pseudonyms again"
        )
    name = remote.id if event_id is None else event_id
    session.note_remote(name, answer_of(remote).words(), conversation=conversation)


def note(exchange: Exchange, remote: AIMessage) -> None:
    """Notes what a remote model answered: by its words, by those shown of it, and by its id."""
    exchange.note(answer_of(remote), answer_of(restored(exchange, remote)))
