"""Where private text becomes released text: one plain function call, in no run of LangChain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig, ensure_config

import dp_middleware as dp
from dp_middleware.boundary import guarded
from dp_middleware.errors import EventRefused, ParameterError
from langchain_dp_middleware._messages import Plan, Rules, message_list
from langchain_dp_middleware._values import Input

USAGE = "the head goes first: PrivateHead(...) | prompt | model"


def cross(
    session: dp.Session, read: Callable[[], Input], rules: Rules, conversation: str = ""
) -> Any:
    """Charge and draw for every private text of one input.

    Args:
        session: Releases.
        read: Reads the input; see :func:`read`.
        rules: For messages.
        conversation: Public name of the conversation.

    Raises:
        ParameterError: Something in the input cannot be released; nothing was charged.
        EventRefused: An AI message that the session does not know; nothing was charged.
        DPMiddlewareError: The release failed. Has no cause and no context: these may quote.
    """

    def work() -> Any:
        given = read()
        known = [_answers(session, plan, rules, conversation) for plan in given.transcripts]
        pairs = zip(given.transcripts, known, strict=True)
        return given.build([_released(session, *pair, conversation) for pair in pairs])

    return guarded(work)


def release_messages(
    session: dp.Session,
    messages: Sequence[Any],
    rules: Rules | None = None,
    *,
    conversation: str = "",
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


def _answers(
    session: dp.Session, plan: Plan, rules: Rules, conversation: str
) -> dict[int, tuple[str, bool]]:
    """What goes out for the AI messages of a transcript, and whether the session knows them.

    Looked up before anything is charged.
    """
    found = {}
    for i, event in enumerate(plan.events):
        if event[1] != "assistant":
            continue
        try:
            [release] = session.release_many([event], conversation=conversation)
            found[i] = (release.text, True)
        except EventRefused:
            if rules.ai != "pass":
                raise EventRefused(
                    "expected AI messages that the session knows as remote answers, got another, "
                    "which may hold private text; tell the session with note_answer(session, "
                    'message), or declare all AI messages public with ai="pass"'
                ) from None
            found[i] = (event[2], False)
    return found


def _released(
    session: dp.Session, plan: Plan, answers: dict[int, tuple[str, bool]], conversation: str
) -> Any:
    unknown = {i for i, (_, known) in answers.items() if not known}
    events = [event for i, event in enumerate(plan.events) if i not in unknown]
    released = iter(session.release_many(events, conversation=conversation))
    texts = [
        answers[i][0] if i in unknown else next(released).text for i in range(len(plan.events))
    ]
    return plan.build(iter(texts))
