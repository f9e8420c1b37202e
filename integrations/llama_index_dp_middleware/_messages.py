"""Released copies of chat messages; the remote model's own are known by what they say."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from llama_index.core.base.llms.types import (
    ChatMessage,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)

from dp_middleware.errors import ParameterError

ReleaseText = Callable[[str, str], str]

_SYSTEM = (MessageRole.SYSTEM, MessageRole.DEVELOPER)
_REMOTE = (MessageRole.ASSISTANT, MessageRole.CHATBOT, MessageRole.MODEL)
_PRIVATE = {MessageRole.USER: "user", MessageRole.TOOL: "tool", MessageRole.FUNCTION: "tool"}
_ANSWER: dict[str, type[TextBlock | ThinkingBlock | ToolCallBlock]] = {
    "text": TextBlock,
    "thinking": ThinkingBlock,
    "tool_call": ToolCallBlock,
}
_MARK = "llama_index_dp_middleware answer"


def rebuilt(messages: Sequence[Any], release: ReleaseText) -> list[ChatMessage]:
    """New messages, block by block, whose texts went through ``release``.

    Of ``additional_kwargs`` only the id of a tool's call is kept.

    Args:
        messages: Private; never changed.
        release: From a role of a session and a text to the text that may be sent.

    Raises:
        ParameterError: Something cannot be released. Names its place, never itself.
    """
    return [_message(each, release, f"message {k}") for k, each in enumerate(messages)]


def words_of(message: ChatMessage) -> str:
    """All that a remote model is told of its answer: its text, or JSON if it calls tools.

    A text in which our mark occurs is JSON too, or it would be taken for such an answer.

    Raises:
        ParameterError: There are blocks other than text, thinking and calls.
    """
    if not all(isinstance(block, tuple(_ANSWER.values())) for block in message.blocks):
        raise ParameterError("only text, thinking and tool calls of an answer can be sent again")
    blocks, text = message.blocks, message.content or ""
    if not any(isinstance(block, ToolCallBlock) for block in blocks):
        if _MARK not in text:
            return text
        blocks = [TextBlock(text=text)]
    said = [block.model_dump(mode="json") for block in blocks]
    return json.dumps({_MARK: said}, sort_keys=True, default=str)


def _answer(words: str, role: MessageRole) -> ChatMessage:
    """The message again, from what :func:`words_of` gave for it and nothing else."""
    if _MARK not in words:
        return ChatMessage(role=role, content=words)
    blocks = [_ANSWER[each["block_type"]].model_validate(each) for each in json.loads(words)[_MARK]]
    return ChatMessage(role=role, blocks=blocks)


def _message(message: Any, release: ReleaseText, where: str) -> ChatMessage:
    if not isinstance(message, ChatMessage):
        raise ParameterError(f"{where}: expected a ChatMessage, got {type(message).__name__}")
    if message.role in _REMOTE:
        return _answer(release("assistant", words_of(message)), message.role)
    role = "system" if message.role in _SYSTEM else _PRIVATE.get(message.role)
    if role is None:
        raise ParameterError(f"{where}: the role {message.role} cannot be released")
    blocks = [_text(block, role, release, where) for block in message.blocks]
    call = message.additional_kwargs.get("tool_call_id")
    kept = {"tool_call_id": call} if role == "tool" and isinstance(call, str) else {}
    return ChatMessage(role=message.role, blocks=blocks, additional_kwargs=kept)


def _text(block: Any, role: str, release: ReleaseText, where: str) -> TextBlock:
    if not isinstance(block, TextBlock):
        raise ParameterError(f"{where}: only text blocks can be released; take other blocks out")
    return TextBlock(text=release(role, block.text))
