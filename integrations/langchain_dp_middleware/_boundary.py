"""Where private text becomes released text: one plain function call, in no run of LangChain."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.prompt_values import ChatPromptValue, StringPromptValue
from langchain_core.runnables import RunnableConfig, ensure_config

import dp_middleware as dp
from dp_middleware.errors import ParameterError, UnknownAnswer
from dp_middleware.sessions.boundary import guarded
from langchain_dp_middleware._messages import Plan, Rules, fresh_text, message_list


@dataclass(frozen=True)
class Input:
    """The transcripts in an input, each of its own, and how its copy is made."""

    transcripts: list[Plan]
    build: Callable[[list[Any]], Any]


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


def read(value: object, keys: tuple[str, ...] | None, rules: Rules) -> Input:
    """What is private in an input, which is never changed.

    Args:
        value: Text, a prompt value, a list of messages, or a dict. Private.
        keys: Keys of a dict whose values are private, the others being public; None: every value
            is private and must be text.
        rules: For messages.

    Raises:
        ParameterError: Something in ``value`` cannot be released. Names its place, never itself.
    """
    if isinstance(value, dict):
        return _all_texts(value) if keys is None else _chosen(value, keys, rules)
    if keys is not None:
        raise ParameterError(f"expected a dict with the keys {keys}, got {type(value).__name__}")
    return _single(value, rules, "the input")


def read_messages(value: object, rules: Rules) -> Input:
    """As :func:`read`, for a chat model: a text stands for a message, a prompt value for a list.

    Raises:
        ParameterError: As :func:`read`.
    """
    return Input([message_list(listed(value), rules)], _first)


def listed(value: object) -> list[Any]:
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
    raise ParameterError(
        "expected text, a string or chat prompt value, or a list of messages, "
        f"got {type(value).__name__}"
    )


def _all_texts(values: dict[Any, Any]) -> Input:
    for key, value in values.items():
        if not isinstance(value, str):
            raise ParameterError(
                f"expected text under key {key!r}, got {type(value).__name__}; name the private "
                "keys with keys=, which declares the others public"
            )
    return Input(
        [fresh_text(value) for value in values.values()],
        lambda texts: dict(zip(values, texts, strict=True)),
    )


def _chosen(values: dict[Any, Any], keys: tuple[str, ...], rules: Rules) -> Input:
    for key in keys:
        if key not in values:
            raise ParameterError(f"expected a dict with the keys {keys}, key {key!r} is missing")
    private = [key for key in values if key in keys]
    inputs = [_single(values[key], rules, f"key {key!r}") for key in private]

    def build(found: list[Any]) -> dict[Any, Any]:
        copies = [each.build([one]) for each, one in zip(inputs, found, strict=True)]
        return {**values, **dict(zip(private, copies, strict=True))}

    return Input([plan for each in inputs for plan in each.transcripts], build)


def _single(value: object, rules: Rules, where: str) -> Input:
    if isinstance(value, str):
        return Input([fresh_text(value)], _first)
    if isinstance(value, StringPromptValue):
        return Input([fresh_text(value.text)], lambda found: StringPromptValue(text=found[0]))
    if isinstance(value, ChatPromptValue):
        plan = message_list(value.messages, rules, where)
        return Input([plan], lambda found: ChatPromptValue(messages=found[0]))
    if isinstance(value, list):
        return Input([message_list(value, rules, where)], _first)
    raise ParameterError(
        f"{where}: expected text, a string or chat prompt value, or a list of messages, "
        f"got {type(value).__name__}"
    )


def _first(found: list[Any]) -> Any:
    return found[0]


NOTE_OR_DECLARE = (
    "tell the session with note_answer(session, message), or declare all AI messages public with "
    'ai="pass"'
)
USAGE = "the head goes first: PrivateHead(...) | prompt | model"


def cross(
    session: dp.Session,
    read: Callable[[], Input],
    rules: Rules,
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
        given = read()
        events = [plan.events for plan in given.transcripts]
        unknown: Any = "pass" if rules.ai == "pass" else "refuse"
        try:
            released = session.release_all(events, conversation=conversation, unknown=unknown)
        except UnknownAnswer:
            raise UnknownAnswer(
                "expected AI messages that the session knows as remote answers, got another, "
                f"which may hold private text; {remedy}"
            ) from None
        pairs = zip(given.transcripts, released, strict=True)
        return given.build([plan.build(release.text for release in all_) for plan, all_ in pairs])

    return guarded(work)


def release_messages(
    session: dp.Session,
    messages: Sequence[Any],
    rules: Rules | None = None,
    *,
    conversation: str = "",
    remedy: str = NOTE_OR_DECLARE,
) -> list[BaseMessage]:
    """Released copies of a transcript, one for each message, in its order.

    Raises:
        DPMiddlewareError: As :func:`cross`.
    """
    rules = rules or Rules()
    found: list[BaseMessage] = cross(
        session,
        lambda: Input([message_list(list(messages), rules)], lambda lists: lists[0]),
        rules,
        conversation,
        remedy=remedy,
    )
    return found


def refuse_outer_run(config: RunnableConfig | None, name: str, remedy: str = USAGE) -> None:
    """Raise inside a sequence, graph node, tool or ``@traceable``: these recorded the input.

    Raises:
        ParameterError: There is an outer run, in ``config`` or around the call.
    """
    from langsmith.run_helpers import get_current_run_tree

    managers = (ensure_config(each).get("callbacks") for each in (config, None))
    inside = any(getattr(manager, "parent_run_id", None) is not None for manager in managers)
    if inside or get_current_run_tree() is not None:
        raise ParameterError(f"{name} runs inside another run, which has its input; {remedy}")
