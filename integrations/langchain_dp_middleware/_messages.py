"""Copies of LangChain's messages, in which all that is private crosses as messages of ours."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from langchain_core import messages as lc
from langchain_core.prompt_values import ChatPromptValue, StringPromptValue

from dp_middleware.conversation.messages import ONCE, Cross, Message, ToolCall
from dp_middleware.errors import ParameterError

_EXPECTED = "expected text, a string or chat prompt value, or a list of messages"
_ROLES: dict[Any, type[lc.BaseMessage]] = {
    "user": lc.HumanMessage,
    "tool": lc.ToolMessage,
    "system": lc.SystemMessage,
}
_REPEATED = ("tool_calls", "function_call")  # what a provider says of calls is said in them


def copy_input(keys: Collection[str] | None, system: str, value: Any, cross: Cross) -> Any:
    """Copies an input, messages first; of a dict all values, or those of the ``keys``, cross."""
    if not isinstance(value, dict):
        if keys is None:
            return _copy_value(value, system, "the input", cross)
        raise ParameterError(f"expected a dict with the keys {keys}, got {type(value).__name__}")
    for key in keys or ():
        if key not in value:
            raise ParameterError(f"expected a dict with the keys {keys}, key {key!r} is missing")
    for key, part in value.items() if keys is None else ():
        if not isinstance(part, str):
            raise ParameterError(
                f"expected text under key {key!r}, got {type(part).__name__}; name the private "
                "keys with keys=, which declares the others public"
            )
    private = [key for key in value if keys is None or key in keys]
    copies = dict(value)
    for key in sorted(private, key=lambda key: isinstance(value[key], str | StringPromptValue)):
        copies[key] = _copy_value(value[key], system, f"key {key!r}", cross)
    return copies


def _copy_value(value: Any, system: str, where: str, cross: Cross) -> Any:
    if not isinstance(value, str | list | StringPromptValue | ChatPromptValue):
        raise ParameterError(f"{where}: {_EXPECTED}, got {type(value).__name__}")
    copies = copy_transcript(system, value, cross, where)
    if isinstance(value, ChatPromptValue):
        return ChatPromptValue(messages=copies)
    if isinstance(value, StringPromptValue):
        return StringPromptValue(text=copies[0])
    return copies[0] if isinstance(value, str) else copies


def messages_in(value: object) -> list[Any]:
    """Returns the messages, or texts that stand for one, in what chat models take."""
    if isinstance(value, ChatPromptValue | list | tuple):
        return list(value.messages if isinstance(value, ChatPromptValue) else value)
    if isinstance(value, StringPromptValue | str):
        return [value if isinstance(value, str) else value.text]
    raise ParameterError(f"{_EXPECTED}, got {type(value).__name__}")


def copy_transcript(system: str, value: Any, cross: Cross, where: str = "the input") -> list[Any]:
    """Copies messages; a str stays one and never comes again."""
    once = Message(role="user", id=ONCE)
    return [
        _copy_content(message, once, where, cross)
        if isinstance(message, str)
        else copy_message(message, system, f"{where}, message {i}", cross)
        for i, message in enumerate(messages_in(value))
    ]


def copy_message(x: object, system: str, where: str, cross: Cross) -> lc.BaseMessage:
    """Builds a message anew: metadata, artifact and author are cut."""
    message, public = message_of(x, where), dict[str, Any]()
    if isinstance(message, lc.AIMessage):
        return message_again(cross(answer_of(message)))
    role = next((role for role, kind in _ROLES.items() if isinstance(message, kind)), None)
    if role is None:
        kind = type(message).__name__
        raise ParameterError(f"{where}: expected a human, tool, system or ai message, got {kind}")
    if isinstance(message, lc.ToolMessage):
        public = {name: getattr(message, name) for name in ("tool_call_id", "name", "status")}
    if isinstance(message, lc.SystemMessage):
        kept = {k: v for k, v in message.additional_kwargs.items() if k == "__openai_role__"}
        public = {"additional_kwargs": kept}
    content: Any = message.content
    if role != "system" or system != "pass":
        content = _copy_content(content, Message(role=role, id=message.id), where, cross)
    return _ROLES[role](content=content, id=message.id, **public)


def message_of(x: object, where: str) -> lc.BaseMessage:
    """Makes a message of (role, content), or a dict of both; an error quotes nothing of it."""
    if isinstance(x, lc.BaseMessage):
        return x
    if isinstance(x, tuple | dict):
        with contextlib.suppress(Exception):  # LangChain's message quotes the content
            return lc.convert_to_messages([x])[0]
    raise ParameterError(f"{where}: expected a message, (role, content) or a dict of both")


def _copy_content(content: Any, event: Message, where: str, cross: Cross) -> Any:
    """The blocks of a message are the parts of one event: their number and order are public."""
    if isinstance(content, str):
        return cross(replace(event, texts=(content,))).text
    texts = [_text_of(block, f"{where}, block {i}") for i, block in enumerate(content)]
    sent = cross(replace(event, texts=tuple(texts))).texts if texts else ()
    return [
        {"type": "text", "text": text} if isinstance(block, dict) else text
        for text, block in zip(sent, content, strict=True)
    ]


def _text_of(block: Any, where: str) -> str:
    text = block.get("text") if isinstance(block, dict) and block.get("type") == "text" else block
    if not isinstance(text, str):
        raise ParameterError(f"{where}: only text blocks can be released; take other blocks out")
    return text


def answer_of(message: lc.AIMessage) -> Message:
    """Returns all that the remote model is told again of its answer."""
    calls = tuple(
        ToolCall(call["id"] or "", call["name"], json.dumps(call["args"]))
        for call in message.tool_calls
    )
    texts, extra = tuple[str, ...](), dict[str, Any]()
    if isinstance(message.content, str):
        texts = (message.content,)
    else:
        extra["content"] = message.content
    if message.invalid_tool_calls:
        extra["invalid_tool_calls"] = message.invalid_tool_calls
    kwargs = {k: v for k, v in message.additional_kwargs.items() if k not in _REPEATED or not calls}
    if (calls or extra) and kwargs:
        extra["additional_kwargs"] = kwargs
    extra = json.loads(json.dumps(extra, default=str))
    return Message(role="assistant", texts=texts, calls=calls, extra=extra, id=message.id)


def message_again(sent: Message) -> lc.AIMessage:
    """Makes an answer again, from what :func:`answer_of` gave for it and nothing else."""
    fields = dict(sent.extra)
    calls = [
        {"name": call.name, "args": json.loads(call.arguments), "id": call.id or None}
        for call in sent.calls
    ]
    content = fields.pop("content", sent.text)
    return lc.AIMessage(content=content, tool_calls=calls, id=sent.id, **fields)
