"""Chat messages as messages of a transcript, and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from llama_index.core.base.llms.types import (
    ChatMessage,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)

from dp_middleware.conversation.messages import Message, Role, ToolCall
from dp_middleware.conversation.names import checked
from dp_middleware.conversation.templates import Parts, Template, parts_of
from dp_middleware.errors import ParameterError

_SYSTEM = (MessageRole.SYSTEM, MessageRole.DEVELOPER)
_REMOTE = (MessageRole.ASSISTANT, MessageRole.CHATBOT, MessageRole.MODEL)
_PRIVATE: dict[MessageRole, Role] = {
    MessageRole.USER: "user",
    MessageRole.TOOL: "tool",
    MessageRole.FUNCTION: "tool",
}
_ANSWER = (TextBlock, ThinkingBlock, ToolCallBlock)


@dataclass(frozen=True)
class Slots:
    """A message of the transcript, and how its copy is made.

    Attributes:
        message: What the session is told.
        build: From what goes out for it to the copy.
    """

    message: Message
    build: Callable[[Message], ChatMessage]


def session_role(role: MessageRole) -> Role | None:
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
        return Slots(answer_of(message), lambda sent: said_again(sent, kind))
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

    def build(sent: Message) -> ChatMessage:
        texts = iter(sent.texts)
        copies = [TextBlock(text=block.joined(texts)) for block in blocks]
        return ChatMessage(role=kind, blocks=copies, additional_kwargs=kept)

    texts = tuple(value for block in blocks for value in block.values)
    return Slots(Message(role=role, texts=texts, public=not texts), build)


def answer_of(message: ChatMessage) -> Message:
    """Returns all that a remote model is told again of its answer.

    Raises:
        ParameterError: There are blocks other than text, thinking and calls.
    """
    if not all(isinstance(block, _ANSWER) for block in message.blocks):
        raise ParameterError("only text, thinking and tool calls of an answer can be sent again")
    calls = tuple(
        ToolCall(block.tool_call_id or "", block.tool_name, _spelled(block.tool_kwargs))
        for block in message.blocks
        if isinstance(block, ToolCallBlock)
    )
    thoughts = [
        block.model_dump(mode="json")
        for block in message.blocks
        if isinstance(block, ThinkingBlock)
    ]
    extra = {"thoughts": thoughts} if calls and thoughts else {}
    return Message(role="assistant", texts=(message.content or "",), calls=calls, extra=extra)


def said_again(sent: Message, role: MessageRole) -> ChatMessage:
    """Makes an answer again, from what goes out for it and nothing else."""
    if not sent.calls:
        return ChatMessage(role=role, content=sent.text)
    blocks: list[Any] = [
        ThinkingBlock.model_validate(each) for each in sent.extra.get("thoughts", ())
    ]
    blocks += [TextBlock(text=sent.text)] if sent.text else []
    blocks += [
        ToolCallBlock(
            tool_call_id=call.id, tool_name=call.name, tool_kwargs=json.loads(call.arguments)
        )
        for call in sent.calls
    ]
    return ChatMessage(role=role, blocks=blocks)


def _spelled(arguments: Any) -> str:
    """Arguments as JSON; text that is none becomes a text of JSON."""
    if isinstance(arguments, str):
        try:
            json.loads(arguments)
        except ValueError:
            return json.dumps(arguments)
        return arguments
    return json.dumps(arguments, default=str)
