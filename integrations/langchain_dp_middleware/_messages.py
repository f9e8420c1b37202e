"""Messages: which texts in them are private, the copy made of releases, and remote answers."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
)

import dp_middleware as dp
from dp_middleware.conversation.session import ONCE, Item
from dp_middleware.conversation.templates import Template, parts_of
from dp_middleware.errors import ParameterError

_FIELDS = ("content", "tool_calls", "invalid_tool_calls", "additional_kwargs")
_MARK = "langchain_dp_middleware answer"


@dataclass(frozen=True, kw_only=True)
class MessageRules:
    """What happens to what is not the text of a human or of a tool.

    Attributes:
        system: ``"pass"``: public, sent as it is; ``"release"``: private.
        ai: ``"noted"``: sent if the session knows it as a remote answer, refused otherwise;
            ``"pass"``: one that is not known is declared public and sent.
        on_other: A block that is not text (image, audio, file): ``"raise"``; ``"drop"``: not
            sent; ``"pass"``: declared public.
        templates: Public prompts: of a private text that one of them made only the values are
            released, the others whole.
    """

    system: Literal["pass", "release"] = "pass"
    ai: Literal["noted", "pass"] = "noted"
    on_other: Literal["raise", "drop", "pass"] = "raise"
    templates: tuple[Template, ...] = ()

    def __post_init__(self) -> None:
        one_of(("pass", "release"), "system", self.system)
        one_of(("noted", "pass"), "ai", self.ai)
        one_of(("raise", "drop", "pass"), "on_other", self.on_other)


@dataclass(frozen=True)
class Slots:
    """The texts to release in a message, or in a list of them, and how its copy is made.

    Attributes:
        events: One for each text.
        build: From what goes out for the events, in their order, to the copy.
    """

    events: list[Item]
    build: Callable[[Iterator[str]], Any]


def slots_of_messages(
    messages: Sequence[Any], rules: MessageRules, where: str = "the input"
) -> Slots:
    """The texts of a transcript; a str stays one and is an event of its own.

    Raises:
        ParameterError: Something in it cannot be released. Names its place, never itself.
    """
    return _join(
        [
            slots_of_text(message, ONCE, "user", rules)
            if isinstance(message, str)
            else _slots_of_message(message, rules, f"{where}, message {i}")
            for i, message in enumerate(messages)
        ]
    )


def slots_of_text(text: str, event_id: Any, role: str, rules: MessageRules) -> Slots:
    """The private values in a text, each an event of its own; mostly it is one itself."""
    parts = parts_of(rules.templates, role, text)
    if len(parts.values) == 1 and not any(parts.fixed):
        return Slots([(event_id, role, text)], next)
    named = isinstance(event_id, str)
    events: list[Item] = [
        (f"{event_id}\x1f={k}" if named else event_id, role, value)
        for k, value in enumerate(parts.values)
    ]
    return Slots(events, parts.joined)


def _join(parts: Sequence[Slots]) -> Slots:
    """Several parts as one, whose copy is the list of theirs."""
    events = [event for part in parts for event in part.events]
    return Slots(events, lambda texts: [part.build(texts) for part in parts])


def _slots_of_message(x: object, rules: MessageRules, where: str) -> Slots:
    """Every message is built anew from its content: metadata, artifact and author are cut."""
    message = message_of(x, where)
    if isinstance(message, AIMessage):
        said: Item = (message.id, "assistant", words_of(message))
        return Slots([said], lambda texts: answer_of(next(texts), message))
    if isinstance(message, HumanMessage):
        return _slots_of_content(message, "user", rules, where)
    if isinstance(message, ToolMessage):
        public = {name: getattr(message, name) for name in ("tool_call_id", "name", "status")}
        return _slots_of_content(message, "tool", rules, where, **public)
    if isinstance(message, SystemMessage):
        kwargs = message.additional_kwargs
        kept = {name: kwargs[name] for name in kwargs if name == "__openai_role__"}
        if rules.system == "release":
            return _slots_of_content(message, "system", rules, where, additional_kwargs=kept)
        copy = SystemMessage(content=message.content, id=message.id, additional_kwargs=kept)
        return Slots([], lambda _: copy)
    raise ParameterError(
        f"{where}: expected a human, tool, system or ai message, got {type(message).__name__}"
    )


def _slots_of_content(
    message: HumanMessage | ToolMessage | SystemMessage,
    role: str,
    rules: MessageRules,
    where: str,
    **public: Any,
) -> Slots:
    """One event, or with blocks one for each: their number and order are public."""
    name, content = message.id, message.content
    if isinstance(content, str):
        slots = slots_of_text(content, name, role, rules)
    else:
        ids = [None if name is None else f"{name}\x1f{i}" for i in range(len(content))]
        blocks = [
            _slots_of_block(block, event_id, role, rules, f"{where}, block {i}")
            for i, (block, event_id) in enumerate(zip(content, ids, strict=True))
        ]
        slots = _join([block for block in blocks if block is not None])
    kinds: dict[str, Any] = {"user": HumanMessage, "tool": ToolMessage, "system": SystemMessage}
    make = kinds[role]
    return Slots(slots.events, lambda texts: make(content=slots.build(texts), id=name, **public))


def _slots_of_block(
    block: Any, event_id: str | None, role: str, rules: MessageRules, where: str
) -> Slots | None:
    """None: the block is dropped."""
    if isinstance(block, str):
        return slots_of_text(block, event_id, role, rules)
    is_text = isinstance(block, dict) and block.get("type") == "text"
    if is_text and isinstance(text := block.get("text"), str):
        slots = slots_of_text(text, event_id, role, rules)
        return Slots(slots.events, lambda texts: {"type": "text", "text": slots.build(texts)})
    if rules.on_other == "drop":
        return None
    if rules.on_other == "pass":
        return Slots([], lambda _: block)
    raise ParameterError(
        f"{where}: only text blocks can be released; take other blocks out, or set on_other="
    )


def message_of(x: object, where: str) -> BaseMessage:
    """A message from what LangChain takes for one: (role, content), or a dict of both.

    Raises:
        ParameterError: It is none; quotes nothing of it.
    """
    if isinstance(x, BaseMessage):
        return x
    if isinstance(x, tuple | dict):
        with contextlib.suppress(Exception):  # LangChain's message quotes the content
            return convert_to_messages([x])[0]
    raise ParameterError(
        f"{where}: expected a message, (role, content) or a dict with role and content"
    )


def one_of(allowed: tuple[str, ...], name: str, value: object) -> None:
    """Refuse a value that is not allowed."""
    if value not in allowed:
        raise ParameterError(f"expected {name} in {allowed}, got {value!r}")


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
    said["additional_kwargs"] = {}
    for name, value in message.additional_kwargs.items():
        with contextlib.suppress(TypeError, ValueError):  # what is not JSON is left out
            said["additional_kwargs"][name] = json.loads(json.dumps(value))
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
