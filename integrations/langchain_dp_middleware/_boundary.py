"""Where private text becomes released text: one plain function call, in no run of LangChain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig, ensure_config

import dp_middleware as dp
from dp_middleware.boundary import guarded
from dp_middleware.errors import ParameterError, UnknownAnswer
from langchain_dp_middleware._messages import Rules, message_list
from langchain_dp_middleware._values import Input

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
