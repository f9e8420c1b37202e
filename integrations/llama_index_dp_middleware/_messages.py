"""Chat messages as messages of a transcript, and back; prompts that were declared public."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from llama_index.core.base.llms.types import (
    ChatMessage,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.prompts import ChatPromptTemplate, PromptTemplate, SelectorPromptTemplate

from dp_middleware.conversation.messages import Message, Role, ToolCall
from dp_middleware.conversation.names import checked
from dp_middleware.conversation.templates import Parts, Template, parts_of
from dp_middleware.errors import ParameterError

_ROLES: dict[MessageRole, Role] = {
    MessageRole.SYSTEM: "system",
    MessageRole.DEVELOPER: "system",
    MessageRole.USER: "user",
    MessageRole.TOOL: "tool",
    MessageRole.FUNCTION: "tool",
    MessageRole.ASSISTANT: "assistant",
    MessageRole.CHATBOT: "assistant",
    MessageRole.MODEL: "assistant",
}
_VALUE = re.compile(r"\{[a-zA-Z_][a-zA-Z0-9_]*(?:\.[a-zA-Z_][a-zA-Z0-9_]*)*\}")  # as LlamaIndex's


@dataclass(frozen=True)
class Slots:
    """A message of the transcript, and how its copy is made.

    Attributes:
        message: What the session is told.
        build: Makes the copy of what goes out for it.
    """

    message: Message
    build: Callable[[Message], ChatMessage]


def slots_of(message: Any, where: str, templates: Collection[Template] = ()) -> Slots:
    """Reads the texts of a message, block by block; of its metadata a tool call's id is kept.

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
    kind, role = message.role, _ROLES.get(message.role)
    if role == "assistant":
        return Slots(answer_of(message), lambda sent: _said_again(sent, kind))
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
    calls, thoughts = list[ToolCall](), list[Any]()
    for block in message.blocks:
        if isinstance(block, ToolCallBlock):
            arguments = _spelled(block.tool_kwargs)
            calls.append(ToolCall(block.tool_call_id or "", block.tool_name, arguments))
        elif isinstance(block, ThinkingBlock):
            thoughts.append(block.model_dump(mode="json"))
        elif not isinstance(block, TextBlock):
            raise ParameterError("only text, thinking and tool calls of an answer can go again")
    extra = {"thoughts": thoughts} if calls and thoughts else {}
    text = message.content or ""
    return Message(role="assistant", texts=(text,), calls=tuple(calls), extra=extra)


def _said_again(sent: Message, role: MessageRole) -> ChatMessage:
    """Makes an answer again, from what goes out for it and nothing else."""
    if not sent.calls:
        return ChatMessage(role=role, content=sent.text)
    blocks: list[Any] = [
        ThinkingBlock.model_validate(thought) for thought in sent.extra.get("thoughts", ())
    ]
    blocks += [TextBlock(text=sent.text)] if sent.text else []
    for call in sent.calls:
        arguments = json.loads(call.arguments)
        blocks.append(
            ToolCallBlock(tool_call_id=call.id, tool_name=call.name, tool_kwargs=arguments)
        )
    return ChatMessage(role=role, blocks=blocks)


def _spelled(arguments: Any) -> str:
    """Spells arguments as JSON; text that is none becomes a text of JSON."""
    if not isinstance(arguments, str):
        return json.dumps(arguments, default=str)
    try:
        json.loads(arguments)
    except ValueError:
        return json.dumps(arguments)
    return arguments


def templates_of(prompts: Iterable[Any]) -> tuple[Template, ...]:
    """Returns the fixed parts of texts with ``{values}`` and of LlamaIndex's prompt templates.

    What a chat prompt says without values in the name of others than the system stays private, as
    does a message that is a value and nothing else.

    Raises:
        ParameterError: Something else.
    """
    if isinstance(prompts, str):
        raise ParameterError("expected public_templates=['...'], a collection of templates")
    return tuple(template for prompt in prompts for template in _templates(prompt))


def _templates(x: Any) -> Iterator[Template]:
    if isinstance(x, Template):
        yield x
    elif isinstance(x, str) or type(x) is PromptTemplate:
        yield Template(fixed=tuple(_VALUE.split(x if isinstance(x, str) else x.template)))
    elif isinstance(x, ChatPromptTemplate):
        for message in x.message_templates:
            role = _ROLES.get(message.role)
            for block in message.blocks:
                fixed = _VALUE.split(block.text) if isinstance(block, TextBlock) else []
                if any(fixed) and (len(fixed) > 1 or role == "system"):
                    yield Template(fixed=tuple(fixed), role=role)
    elif isinstance(x, SelectorPromptTemplate):
        for prompt in (x.default_template, *(prompt for _, prompt in x.conditionals or ())):
            yield from _templates(prompt)
    else:
        raise ParameterError(f"expected a prompt template, got {type(x).__name__}")
