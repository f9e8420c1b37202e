"""Released copies of chat messages; the remote model's own are known by what they say."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from llama_index.core.base.llms.types import (
    ChatMessage,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)

from dp_middleware.conversation.names import checked
from dp_middleware.conversation.templates import Parts, Template, parts_of
from dp_middleware.errors import ParameterError

_SYSTEM = (MessageRole.SYSTEM, MessageRole.DEVELOPER)
_REMOTE = (MessageRole.ASSISTANT, MessageRole.CHATBOT, MessageRole.MODEL)
_PRIVATE = {MessageRole.USER: "user", MessageRole.TOOL: "tool", MessageRole.FUNCTION: "tool"}
_ANSWER: dict[str, type[TextBlock | ThinkingBlock | ToolCallBlock]] = {
    "text": TextBlock,
    "thinking": ThinkingBlock,
    "tool_call": ToolCallBlock,
}
_MARK = "llama_index_dp_middleware answer"


@dataclass(frozen=True)
class Slots:
    """The texts in a message, and how its copy is made.

    Attributes:
        texts: With the role in which a session is told of each.
        build: From what goes out for the texts, in their order, to the copy.
    """

    texts: list[tuple[str, str]]
    build: Callable[[Iterator[str]], ChatMessage]


def session_role(role: MessageRole) -> str | None:
    """What a session calls a role; ``None`` for one that cannot be released."""
    if role in _REMOTE:
        return "assistant"
    return "system" if role in _SYSTEM else _PRIVATE.get(role)


def slots_of(message: Any, where: str, templates: Collection[Template] = ()) -> Slots:
    """The texts of a message, block by block; of ``additional_kwargs`` a tool call's id is kept.

    Args:
        message: Private; never changed.
        where: Names it in errors.
        templates: Of a block that one of them made only the values are texts.

    Raises:
        ParameterError: Something cannot be released. Names its place, never itself.
    """
    if isinstance(message, Mapping):  # as chat clients keep it
        _, said, text, _ = checked(message)
        message = ChatMessage(role=MessageRole(said), content=text)
    if not isinstance(message, ChatMessage):
        raise ParameterError(f"{where}: expected a ChatMessage, got {type(message).__name__}")
    kind = message.role
    role = session_role(kind)
    if role == "assistant":
        answer = [("assistant", words_of(message))]
        return Slots(answer, lambda sent: _answer(next(sent), kind))
    if role is None:
        raise ParameterError(f"{where}: the role {kind} cannot be released")
    blocks: list[Parts] = []
    for block in message.blocks:
        if not isinstance(block, TextBlock):
            raise ParameterError(
                f"{where}: only text blocks can be released; take other blocks out"
            )
        blocks.append(parts_of(templates, role, block.text))
    call = message.additional_kwargs.get("tool_call_id")
    kept = {"tool_call_id": call} if role == "tool" and isinstance(call, str) else {}

    def build(sent: Iterator[str]) -> ChatMessage:
        copies = [TextBlock(text=block.joined(sent)) for block in blocks]
        return ChatMessage(role=kind, blocks=copies, additional_kwargs=kept)

    return Slots([(role, value) for block in blocks for value in block.values], build)


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
    blocks = [
        _ANSWER[block["block_type"]].model_validate(block) for block in json.loads(words)[_MARK]
    ]
    return ChatMessage(role=role, blocks=blocks)
