"""Answers of the remote model: known by what it said, sent back as it said it."""

from __future__ import annotations

import json
from typing import Any

from langchain_core.messages import AIMessage

import dp_middleware as dp

_FIELDS = ("content", "tool_calls", "invalid_tool_calls", "additional_kwargs")
_MARK = "langchain_dp_middleware answer"


def note_answer(
    session: dp.Session,
    remote: AIMessage,
    *,
    event_id: str | None = None,
    conversation: str = "",
) -> None:
    """Tell the session what the remote model answered: its words and its calls of tools.

    Args:
        session: Lets the answer out again in a later transcript.
        remote: The message as the **remote** model wrote it, never one that a local model
            extracted.
        event_id: Id of the message that stands for it in the transcript; default its own. One
            that has none is known by its words; see :meth:`dp.Session.note_remote`.
        conversation: Thread or session id of the call.

    Raises:
        EventRefused: A message with this id was released as a private one.
    """
    name = remote.id if event_id is None else event_id
    session.note_remote(name, words_of(remote), conversation=conversation)


def words_of(message: AIMessage) -> str:
    """All that the remote model is told of its answer: its text, or JSON if there is more.

    A text in which our mark occurs is JSON too, or it would be taken for such an answer.
    """
    content = message.content
    if isinstance(content, str) and not (message.tool_calls or message.invalid_tool_calls):
        if _MARK not in content:
            return content
        message = AIMessage(content=content)
    said = {name: getattr(message, name) for name in _FIELDS}
    said["additional_kwargs"] = _plain(message.additional_kwargs)
    return json.dumps({_MARK: said}, default=str)


def answer_of(words: str, shown: AIMessage) -> AIMessage:
    """The message again, from what :func:`words_of` gave for it and nothing else but its id."""
    if _MARK not in words:  # nor may it be written with escapes
        return AIMessage(content=words, id=shown.id)
    try:
        said = json.loads(words)[_MARK]
        return AIMessage(**{name: said[name] for name in _FIELDS}, id=shown.id)
    except (ValueError, TypeError, KeyError):
        return AIMessage(content=words, id=shown.id)


def _plain(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Without what is not JSON."""
    found = {}
    for name, value in kwargs.items():
        try:
            found[name] = json.loads(json.dumps(value))
        except (TypeError, ValueError):
            continue
    return found
