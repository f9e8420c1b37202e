"""Where private text becomes released text: one plain function call, in no run of LangChain."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, cast

from langchain_core.messages import BaseMessage
from langchain_core.prompt_values import ChatPromptValue, StringPromptValue
from langchain_core.runnables import RunnableConfig, ensure_config

import dp_middleware as dp
from dp_middleware.conversation.boundary import guarded
from dp_middleware.conversation.session import ONCE
from dp_middleware.errors import ParameterError, UnknownAnswer
from langchain_dp_middleware._messages import MessageRules, Slots, slots_of_messages, slots_of_text

_EXPECTED = "expected text, a string or chat prompt value, or a list of messages"
NOTE_OR_DECLARE = (
    "tell the session with note_answer(session, message), or declare all AI messages public with "
    'ai="pass"'
)
_only = itemgetter(0)  # of the copies of an input that is one transcript
USAGE = "the head goes first: PrivateHead(...) | prompt | model"


@dataclass(frozen=True)
class Input:
    """The transcripts in an input, apart from each other, and how its copy is made of theirs."""

    transcripts: list[Slots]
    build: Callable[[list[Any]], Any]


def cross(
    session: dp.Session,
    read: Callable[[], Input],
    rules: MessageRules,
    conversation: str = "",
    *,
    remedy: str = NOTE_OR_DECLARE,
) -> Any:
    """Charge and draw for every private text of one input.

    Args:
        session: Releases.
        read: Reads the input; see :func:`read`.
        rules: For messages.
        conversation: Public name of the conversation.
        remedy: What to do about an AI message that the session does not know.

    Raises:
        ParameterError: Something in the input cannot be released; nothing was charged.
        EventRefused: An AI message that the session does not know; nothing was charged.
        DPMiddlewareError: The release failed. Has no cause and no context: these may quote.
    """

    def work() -> Any:
        private = read()
        transcripts = [slots.events for slots in private.transcripts]
        unknown: Any = "pass" if rules.ai == "pass" else "refuse"
        try:
            releases = session.release_all(transcripts, conversation=conversation, unknown=unknown)
        except UnknownAnswer:
            raise UnknownAnswer(
                "expected AI messages that the session knows as remote answers, got another, "
                f"which may hold private text; {remedy}"
            ) from None
        copies = [
            slots.build(release.text for release in row)
            for slots, row in zip(private.transcripts, releases, strict=True)
        ]
        return private.build(copies)

    return guarded(work)


def release_messages(
    session: dp.Session,
    messages: Sequence[Any],
    rules: MessageRules | None = None,
    *,
    conversation: str = "",
    remedy: str = NOTE_OR_DECLARE,
) -> list[BaseMessage]:
    """Released copies of a transcript, one for each message, in its order.

    Raises:
        DPMiddlewareError: As :func:`cross`.
    """
    rules = rules or MessageRules()

    def read() -> Input:
        return Input([slots_of_messages(messages, rules)], _only)

    return cast("list[BaseMessage]", cross(session, read, rules, conversation, remedy=remedy))


def read(value: object, keys: tuple[str, ...] | None, rules: MessageRules) -> Input:
    """What is private in an input, which is never changed.

    Args:
        value: Text, a prompt value, a list of messages, or a dict. Private.
        keys: Keys of a dict whose values are private, the others being public; None: every value
            is private and must be text.
        rules: For messages.

    Raises:
        ParameterError: Something in ``value`` cannot be released. Names its place, never itself.
    """
    if not isinstance(value, dict):
        if keys is None:
            return _read_value(value, rules, "the input")
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
    inputs = [_read_value(value[key], rules, f"key {key!r}") for key in private]

    def build(copies: list[Any]) -> dict[Any, Any]:
        parts = zip(private, inputs, copies, strict=True)
        return {**value, **{key: one.build([copy]) for key, one, copy in parts}}

    return Input([slots for one in inputs for slots in one.transcripts], build)


def _read_value(value: object, rules: MessageRules, where: str) -> Input:
    """One transcript, or one text."""
    if isinstance(value, str):
        return Input([slots_of_text(value, ONCE, "user", rules)], _only)
    if isinstance(value, StringPromptValue):
        text = slots_of_text(value.text, ONCE, "user", rules)
        return Input([text], lambda copies: StringPromptValue(text=_only(copies)))
    if isinstance(value, ChatPromptValue):
        messages = slots_of_messages(value.messages, rules, where)
        return Input([messages], lambda copies: ChatPromptValue(messages=_only(copies)))
    if isinstance(value, list):
        return Input([slots_of_messages(value, rules, where)], _only)
    raise ParameterError(f"{where}: {_EXPECTED}, got {type(value).__name__}")


def messages_in(value: object) -> list[Any]:
    """The messages, or texts that stand for one, in what chat models take.

    Raises:
        ParameterError: They take no such thing.
    """
    if isinstance(value, ChatPromptValue):
        return list(value.messages)
    if isinstance(value, StringPromptValue):
        return [value.text]
    if isinstance(value, str):
        return [value]
    if isinstance(value, list | tuple):
        return list(value)
    raise ParameterError(f"{_EXPECTED}, got {type(value).__name__}")


def names_of(keys: Collection[str] | None) -> tuple[str, ...] | None:
    """The private keys of a dict.

    Raises:
        ParameterError: A single str, or none at all.
    """
    if keys is None:
        return None
    if isinstance(keys, str) or not keys:
        raise ParameterError(f"expected keys=['question', ...], got keys={keys!r}")
    return tuple(keys)


def refuse_outer_run(config: RunnableConfig | None, name: str, remedy: str = USAGE) -> None:
    """Raise inside a sequence, graph node, tool or ``@traceable``: these recorded the input.

    Raises:
        ParameterError: There is an outer run, in ``config`` or around the call.
    """
    from langsmith.run_helpers import get_current_run_tree

    managers = [ensure_config(place).get("callbacks") for place in (config, None)]
    inside = any(getattr(manager, "parent_run_id", None) is not None for manager in managers)
    if inside or get_current_run_tree() is not None:
        raise ParameterError(f"{name} runs inside another run, which has its input; {remedy}")
