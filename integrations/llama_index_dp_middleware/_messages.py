"""Chat messages as messages of a transcript, and back; prompts that were declared public."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from llama_index.core.base.llms import types as llms
from llama_index.core.prompts import ChatPromptTemplate, PromptTemplate, SelectorPromptTemplate

from dp_middleware.conversation.messages import Message, Reading, Role, ToolCall
from dp_middleware.conversation.templates import Parts, Template, parts_of
from dp_middleware.errors import ParameterError

_ROLES: dict[llms.MessageRole, Role] = {
    llms.MessageRole.SYSTEM: "system",
    llms.MessageRole.DEVELOPER: "system",
    llms.MessageRole.USER: "user",
    llms.MessageRole.TOOL: "tool",
    llms.MessageRole.FUNCTION: "tool",
    llms.MessageRole.ASSISTANT: "assistant",
    llms.MessageRole.CHATBOT: "assistant",
    llms.MessageRole.MODEL: "assistant",
}
_VALUE = re.compile(r"\{[a-zA-Z_][a-zA-Z0-9_]*(?:\.[a-zA-Z_][a-zA-Z0-9_]*)*\}")  # as LlamaIndex's


def read_message(message: Any, where: str, templates: Collection[Template] = ()) -> Reading:
    """Reads a message's texts, of templates the values."""
    if not isinstance(message, llms.ChatMessage):
        raise ParameterError(f"{where}: expected a ChatMessage, got {type(message).__name__}")
    kind, role = message.role, _ROLES.get(message.role)
    if role == "assistant":
        return Reading(answer_of(message), lambda sent: _said_again(sent, kind))
    if role is None:
        raise ParameterError(f"{where}: the role {kind} cannot be released")
    blocks: list[Parts] = []
    for block in message.blocks:
        if not isinstance(block, llms.TextBlock):
            raise ParameterError(f"{where}: only text blocks can be released, got others")
        blocks.append(parts_of(templates, role, block.text))
    call = message.additional_kwargs.get("tool_call_id")
    kept = {"tool_call_id": call} if role == "tool" and isinstance(call, str) else {}

    def build(sent: Message) -> llms.ChatMessage:
        texts = iter(sent.texts)
        copies = [llms.TextBlock(text=block.joined(texts)) for block in blocks]
        return llms.ChatMessage(role=kind, blocks=copies, additional_kwargs=kept)

    texts = tuple(value for block in blocks for value in block.values)
    return Reading(Message(role=role, texts=texts, public=not texts), build)


def answer_of(message: llms.ChatMessage) -> Message:
    """Returns all that a remote model is told again of its answer, or raises."""
    calls, thoughts = list[ToolCall](), list[Any]()
    for block in message.blocks:
        if isinstance(block, llms.ToolCallBlock):
            arguments = _spelled(block.tool_kwargs)
            calls.append(ToolCall(block.tool_call_id or "", block.tool_name, arguments))
        elif isinstance(block, llms.ThinkingBlock):
            thoughts.append(block.model_dump(mode="json"))
        elif not isinstance(block, llms.TextBlock):
            raise ParameterError("only text, thinking and tool calls of an answer can go again")
    extra = {"thoughts": thoughts} if calls and thoughts else {}
    text = message.content or ""
    return Message(role="assistant", texts=(text,), calls=tuple(calls), extra=extra)


def _said_again(sent: Message, role: llms.MessageRole) -> llms.ChatMessage:
    """Makes an answer again, from what goes out for it and nothing else."""
    if not sent.calls:
        return llms.ChatMessage(role=role, content=sent.text)
    blocks: list[Any] = [
        llms.ThinkingBlock.model_validate(thought) for thought in sent.extra.get("thoughts", ())
    ]
    blocks += [llms.TextBlock(text=sent.text)] if sent.text else []
    for call in sent.calls:
        arguments = json.loads(call.arguments)
        blocks.append(
            llms.ToolCallBlock(tool_call_id=call.id, tool_name=call.name, tool_kwargs=arguments)
        )
    return llms.ChatMessage(role=role, blocks=blocks)


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
    """Returns the fixed parts of prompts; of chats what has values or is the system's."""
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
                fixed = _VALUE.split(block.text) if isinstance(block, llms.TextBlock) else []
                if any(fixed) and (len(fixed) > 1 or role == "system"):
                    yield Template(fixed=tuple(fixed), role=role)
    elif isinstance(x, SelectorPromptTemplate):
        for prompt in (x.default_template, *(prompt for _, prompt in x.conditionals or ())):
            yield from _templates(prompt)
    else:
        raise ParameterError(f"expected a prompt template, got {type(x).__name__}")
