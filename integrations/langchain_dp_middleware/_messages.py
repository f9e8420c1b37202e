"""One walker for every shape of message: which texts are private, and the copy made of releases."""

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
from dp_middleware.errors import ParameterError
from dp_middleware.sessions.session import ONCE, Item

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


Build = Callable[[Iterator[str]], Any]
"""From what goes out for the events, in their order, to a copy of what held them."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What happens to what is not the text of a human or of a tool.

    Attributes:
        system: ``"pass"``: public, sent as it is; ``"release"``: private.
        ai: ``"noted"``: sent if the session knows it as a remote answer, refused otherwise;
            ``"pass"``: one that is not known is declared public and sent.
        on_other: A block that is not text (image, audio, file): ``"raise"``; ``"drop"``: not
            sent; ``"pass"``: declared public.
    """

    system: Literal["pass", "release"] = "pass"
    ai: Literal["noted", "pass"] = "noted"
    on_other: Literal["raise", "drop", "pass"] = "raise"

    def __post_init__(self) -> None:
        one_of(("pass", "release"), "system", self.system)
        one_of(("noted", "pass"), "ai", self.ai)
        one_of(("raise", "drop", "pass"), "on_other", self.on_other)


@dataclass(frozen=True)
class Plan:
    """Private events of one message, or of a list of them, and how its copy is made."""

    events: list[Item]
    build: Build


def message_list(items: Sequence[Any], rules: Rules, where: str = "the input") -> Plan:
    """The plan of a transcript; a str stays one and is an event of its own.

    Raises:
        ParameterError: Something in it cannot be released. Names its place, never itself.
    """
    plans = [
        fresh_text(each)
        if isinstance(each, str)
        else _message(each, rules, f"{where}, message {i}")
        for i, each in enumerate(items)
    ]
    return joined(plans, list)


def fresh_text(text: str) -> Plan:
    """A text that is no message: new at every call, as equal texts must not look equal."""
    return Plan([(ONCE, "user", text)], next)


def joined(plans: Sequence[Plan], make: Callable[[list[Any]], Any]) -> Plan:
    """Several plans as one, in their order."""
    events = [event for plan in plans for event in plan.events]
    return Plan(events, lambda texts: make([plan.build(texts) for plan in plans]))


def _message(each: object, rules: Rules, where: str) -> Plan:
    """Every message is built anew from its content: metadata, artifact and author are cut."""
    message = converted(each, where)
    if isinstance(message, SystemMessage):
        return _system(message, rules, where)
    if isinstance(message, AIMessage):
        words = words_of(message)
        return Plan(
            [(message.id, "assistant", words)], lambda texts: answer_of(next(texts), message)
        )
    if isinstance(message, HumanMessage):
        return _with_content(message, "user", rules, where, HumanMessage)
    if isinstance(message, ToolMessage):
        public = {name: getattr(message, name) for name in ("tool_call_id", "name", "status")}
        return _with_content(message, "tool", rules, where, ToolMessage, **public)
    raise ParameterError(
        f"{where}: expected a human, tool, system or ai message, got {type(message).__name__}"
    )


def _system(message: SystemMessage, rules: Rules, where: str) -> Plan:
    kept = {k: v for k, v in message.additional_kwargs.items() if k == "__openai_role__"}
    if rules.system == "release":
        return _with_content(message, "system", rules, where, SystemMessage, additional_kwargs=kept)
    copy = SystemMessage(content=message.content, id=message.id, additional_kwargs=kept)
    return Plan([], lambda _: copy)


def _with_content(
    message: BaseMessage, role: str, rules: Rules, where: str, kind: Any, **public: Any
) -> Plan:
    """One event, or with blocks one for each: their number and order are public."""
    if isinstance(message.content, str):
        event: Item = (message.id, role, message.content)
        return Plan([event], lambda t: kind(content=next(t), id=message.id, **public))
    blocks = [
        _block(block, None if message.id is None else f"{message.id}\x1f{i}", role, rules, place)
        for i, block in enumerate(message.content)
        for place in [f"{where}, block {i}"]
    ]
    plan = joined([block for block in blocks if block is not None], list)
    return Plan(plan.events, lambda t: kind(content=plan.build(t), id=message.id, **public))


def _block(block: Any, event_id: str | None, role: str, rules: Rules, where: str) -> Plan | None:
    if isinstance(block, str):
        return Plan([(event_id, role, block)], next)
    if (
        isinstance(block, dict)
        and block.get("type") == "text"
        and isinstance(block.get("text"), str)
    ):
        event = (event_id, role, block["text"])
        return Plan([event], lambda texts: {"type": "text", "text": next(texts)})
    if rules.on_other == "drop":
        return None
    if rules.on_other == "pass":
        return Plan([], lambda _: block)
    raise ParameterError(
        f"{where}: only text blocks can be released; take other blocks out, or set on_other="
    )


def converted(each: object, where: str) -> BaseMessage:
    """A message from what LangChain takes for one: (role, content), or a dict of both.

    Raises:
        ParameterError: It is none; quotes nothing of it.
    """
    if isinstance(each, BaseMessage):
        return each
    if isinstance(each, tuple | dict):
        with contextlib.suppress(Exception):  # LangChain's message quotes the content
            return convert_to_messages([each])[0]
    raise ParameterError(
        f"{where}: expected a message, (role, content) or a dict with role and content"
    )


def one_of(allowed: tuple[str, ...], name: str, value: object) -> None:
    """Refuse a value that is not allowed."""
    if value not in allowed:
        raise ParameterError(f"expected {name} in {allowed}, got {value!r}")
