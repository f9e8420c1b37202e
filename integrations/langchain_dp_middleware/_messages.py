"""Messages of LangChain as messages of a transcript, and the copies that go out for them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.prompt_values import ChatPromptValue, StringPromptValue

from dp_middleware.conversation.messages import ONCE, Message, Reading, ToolCall, copies_of
from dp_middleware.errors import ParameterError

_EXPECTED = "expected text, a string or chat prompt value, or a list of messages"
_PUBLIC_OF_TOOLS = ("tool_call_id", "name", "status")
_REPEATED = ("tool_calls", "function_call")  # what a provider says of calls is said in them


class Input(NamedTuple):
    """What is private in an input, as one transcript; ``build`` makes its copy of their copies."""

    readings: list[Reading]
    build: Callable[[list[Any]], Any] = list

    @property
    def transcript(self) -> list[Message]:
        return [reading.message for reading in self.readings]

    def copy(self, sent: Sequence[Message]) -> Any:
        return self.build(copies_of(self.readings, sent))


def read_transcript(value: object, system: str) -> Input:
    return Input(_read_all(messages_in(value), system, "the input"))


def read_input(keys: Collection[str] | None, value: object, system: str) -> Input:
    """Reads what is private in an input, messages first; of a dict, with ``keys``, their values."""
    if not isinstance(value, dict):
        if keys is None:
            return _read_value(value, system, "the input")
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
    inputs = {key: _read_value(value[key], system, f"key {key!r}") for key in private}
    order = sorted(inputs, key=lambda key: isinstance(value[key], str | StringPromptValue))

    def build(copies: list[Any]) -> dict[Any, Any]:
        rest = iter(copies)
        sizes = {key: len(inputs[key].readings) for key in order}
        built = {key: inputs[key].build(list(islice(rest, sizes[key]))) for key in order}
        return {**value, **built}

    return Input([r for key in order for r in inputs[key].readings], build=build)


def _read_value(value: object, system: str, where: str) -> Input:
    if not isinstance(value, str | list | StringPromptValue | ChatPromptValue):
        raise ParameterError(f"{where}: {_EXPECTED}, got {type(value).__name__}")
    readings = _read_all(messages_in(value), system, where)
    if isinstance(value, str):
        return Input(readings, build=lambda copies: copies[0])
    if isinstance(value, StringPromptValue):
        return Input(readings, build=lambda copies: StringPromptValue(text=copies[0]))
    if isinstance(value, ChatPromptValue):
        return Input(readings, build=lambda copies: ChatPromptValue(messages=copies))
    return Input(readings)


def messages_in(value: object) -> list[Any]:
    """Returns the messages, or texts that stand for one, in what chat models take."""
    if isinstance(value, ChatPromptValue | list | tuple):
        return list(value.messages if isinstance(value, ChatPromptValue) else value)
    if isinstance(value, StringPromptValue | str):
        return [value if isinstance(value, str) else value.text]
    raise ParameterError(f"{_EXPECTED}, got {type(value).__name__}")


# messages ----------------------------------------------------------------------------------------


def _read_all(messages: Sequence[Any], system: str, where: str) -> list[Reading]:
    """Reads a transcript; a str stays one and never comes again."""
    once = Message(role="user", id=ONCE)
    return [
        _reading(once, message, lambda copy: copy, where)
        if isinstance(message, str)
        else read_message(message, system, f"{where}, message {i}")
        for i, message in enumerate(messages)
    ]


def read_message(x: object, system: str, where: str) -> Reading:
    """Reads a message; its copy is built anew: metadata, artifact and author are cut."""
    message, public = message_of(x, where), dict[str, Any]()
    if isinstance(message, AIMessage):
        return Reading(message=answer_of(message), build=message_again)
    role = next((role for role, kind in _ROLES.items() if isinstance(message, kind)), None)
    if role is None:
        kind = type(message).__name__
        raise ParameterError(f"{where}: expected a human, tool, system or ai message, got {kind}")
    if isinstance(message, ToolMessage):
        public = {name: getattr(message, name) for name in _PUBLIC_OF_TOOLS}
    if isinstance(message, SystemMessage):
        kept = {k: v for k, v in message.additional_kwargs.items() if k == "__openai_role__"}
        public = {"additional_kwargs": kept}

    def build(content: Any) -> BaseMessage:
        return _ROLES[role](content=content, id=message.id, **public)

    if role == "system" and system == "pass":
        return public_reading(build(message.content))
    return _reading(Message(role=role, id=message.id), message.content, build, where)


_ROLES: dict[Any, type[BaseMessage]] = {
    "user": HumanMessage,
    "tool": ToolMessage,
    "system": SystemMessage,
}


def public_reading(copy: BaseMessage) -> Reading:
    """Makes a message of which nothing is private go out as this copy."""
    return Reading(message=Message(role="system", public=True), build=lambda _: copy)


def message_of(x: object, where: str) -> BaseMessage:
    """Makes a message of (role, content), or a dict of both; an error quotes nothing of it."""
    if isinstance(x, BaseMessage):
        return x
    if isinstance(x, tuple | dict):
        with contextlib.suppress(Exception):  # LangChain's message quotes the content
            return convert_to_messages([x])[0]
    raise ParameterError(f"{where}: expected a message, (role, content) or a dict of both")


def _reading(event: Message, content: Any, build: Callable[[Any], Any], where: str) -> Reading:
    """The blocks of a message are the parts of one event: their number and order are public."""
    whole = isinstance(content, str)
    blocks = [
        (_text_of(block, f"{where}, block {i}"), isinstance(block, dict))
        for i, block in enumerate([content] if whole else content)
    ]
    texts = tuple(text for text, _ in blocks)

    def again(sent: Message) -> Any:
        copies = [
            {"type": "text", "text": text} if is_block else text
            for text, (_, is_block) in zip(sent.texts, blocks, strict=True)
        ]
        return build(copies[0] if whole else copies)

    return Reading(message=replace(event, texts=texts, public=not texts), build=again)


def _text_of(block: Any, where: str) -> str:
    text = block.get("text") if isinstance(block, dict) and block.get("type") == "text" else block
    if not isinstance(text, str):
        raise ParameterError(f"{where}: only text blocks can be released; take other blocks out")
    return text


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
