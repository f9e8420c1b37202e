"""Released copies of what enters a chain: text, prompt values, messages and dicts of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.prompt_values import ChatPromptValue, StringPromptValue

from dp_middleware.errors import ParameterError

ReleaseText = Callable[[str], str]


def released(value: object, keys: tuple[str, ...] | None, release: ReleaseText) -> Any:
    """A copy of ``value`` whose private texts went through ``release``, in reading order.

    Args:
        value: Text, a prompt value, a list of messages, or a dict. Private; never changed.
        keys: Keys of a dict whose values are private, the others being public; None: every value
            is private and must be text.
        release: From a private text to the text that may be sent.

    Raises:
        ParameterError: Something in ``value`` cannot be released. Names its place, never itself.
    """
    if isinstance(value, dict):
        return _all_texts(value, release) if keys is None else _chosen(value, keys, release)
    if keys is not None:
        raise ParameterError(f"expected a dict with the keys {keys}, got {type(value).__name__}")
    return _value(value, release, "the input")


def _all_texts(values: dict[Any, Any], release: ReleaseText) -> dict[Any, Any]:
    for key, value in values.items():
        if not isinstance(value, str):
            raise ParameterError(
                f"expected text under key {key!r}, got {type(value).__name__}; name the private "
                "keys with keys=, which declares the others public"
            )
    return {key: release(value) for key, value in values.items()}


def _chosen(values: dict[Any, Any], keys: tuple[str, ...], release: ReleaseText) -> dict[Any, Any]:
    for key in keys:
        if key not in values:
            raise ParameterError(f"expected a dict with the keys {keys}, key {key!r} is missing")
    return {
        key: _value(value, release, f"key {key!r}") if key in keys else value
        for key, value in values.items()
    }


def _value(value: object, release: ReleaseText, where: str) -> Any:
    if isinstance(value, str):
        return release(value)
    if isinstance(value, StringPromptValue):
        return StringPromptValue(text=release(value.text))
    if isinstance(value, ChatPromptValue):
        return ChatPromptValue(messages=_items(list(value.messages), release, where))
    if isinstance(value, list):
        return _items(value, release, where)
    raise ParameterError(
        f"{where}: expected text, a string or chat prompt value, or a list of messages, "
        f"got {type(value).__name__}"
    )


def _items(items: list[Any], release: ReleaseText, where: str) -> list[Any]:
    """Messages, or texts (retrieved passages), which stay texts."""
    return [
        release(each) if isinstance(each, str) else _message(each, release, f"{where}, message {i}")
        for i, each in enumerate(items)
    ]


def _message(each: object, release: ReleaseText, where: str) -> BaseMessage:
    """Human and tool messages are built anew: ids and the name of a tool are copied."""
    message = _converted(each, where)
    if isinstance(message, SystemMessage | AIMessage):
        return message
    if isinstance(message, HumanMessage):
        return HumanMessage(content=_content(message, release, where), id=message.id)
    if isinstance(message, ToolMessage):
        return ToolMessage(
            content=_content(message, release, where),
            tool_call_id=message.tool_call_id,
            name=message.name,
            id=message.id,
        )
    raise ParameterError(
        f"{where}: expected a human, tool, system or ai message, got {type(message).__name__}"
    )


def _converted(each: object, where: str) -> BaseMessage:
    if isinstance(each, BaseMessage):
        return each
    if isinstance(each, tuple | dict):
        with contextlib.suppress(Exception):  # LangChain's message quotes the content
            return convert_to_messages([each])[0]
    raise ParameterError(
        f"{where}: expected a message, (role, content) or a dict with role and content"
    )


def _content(message: BaseMessage, release: ReleaseText, where: str) -> Any:
    if isinstance(message.content, str):
        return release(message.content)
    return [
        _block(block, release, f"{where}, block {i}") for i, block in enumerate(message.content)
    ]


def _block(block: object, release: ReleaseText, where: str) -> str | dict[str, str]:
    if isinstance(block, str):
        return release(block)
    if isinstance(block, dict) and block.get("type") == "text":
        text = block.get("text")
        if isinstance(text, str):
            return {"type": "text", "text": release(text)}
    raise ParameterError(f"{where}: only text blocks can be released; take other blocks out")
