"""Where private text becomes released text, and what the config of a call asks of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from langchain_core.runnables import RunnableConfig, ensure_config
from langsmith.run_helpers import get_current_run_tree
from pydantic import ConfigDict

import dp_middleware as dp
from dp_middleware.conversation.events import checked_epsilon
from dp_middleware.conversation.exchange import Exchange, Tools
from dp_middleware.errors import ParameterError, UnknownAnswer, without_text
from langchain_dp_middleware._messages import Input

EPSILON, SUBJECT = OWN = ("dp_epsilon", "dp_subject")
# of the adapters that are pydantic models
MODEL_CONFIG = ConfigDict(arbitrary_types_allowed=True, extra="forbid", hide_input_in_errors=True)
# system messages are public and sent as they are, or private
System = Literal["pass", "release"]
# AI messages are sent if the session knows them as remote answers, or are declared public
Answers = Literal["noted", "pass"]
NOTE_OR_DECLARE = (
    "tell the session with note_answer(session, message), or declare all AI messages public with "
    'ai="pass"'
)
USAGE = "the head goes first: PrivateHead(...) | prompt | model"


def cross(
    adapter: Any,
    values: Sequence[Any],
    read: Callable[[Any, System], Input],
    config: RunnableConfig | None,
    *,
    tools: Tools = (),
    remedy: str = NOTE_OR_DECLARE,
) -> list[tuple[Any, Exchange]]:
    """Charges and draws for the private texts of some inputs: copies to send, and exchanges."""
    try:
        session = session_for(adapter.session, config)
        inputs = [read(value, adapter.system) for value in values]
        name = conversation_of(config)
        return release(session, inputs, name, adapter.ai, tools=tools, remedy=remedy)
    except Exception as error:
        failure = without_text(error)
    raise failure.with_traceback(None)


def release(
    session: dp.Session,
    inputs: Sequence[Input],
    conversation: str | None,
    ai: Answers,
    *,
    tools: Tools = (),
    remedy: str = NOTE_OR_DECLARE,
) -> list[tuple[Any, Exchange]]:
    """Does as :func:`cross`, in a session and conversation; what it raises may quote."""
    options: Any = {"unknown": "pass" if ai == "pass" else "refuse", "tools": tools}
    transcripts = [private.transcript for private in inputs]
    try:
        exchanges = session.exchanges(transcripts, conversation=conversation, **options)
    except UnknownAnswer:
        raise UnknownAnswer(
            "expected AI messages that the session knows as remote answers, got another, "
            f"which may hold private text; {remedy}"
        ) from None
    pairs = zip(inputs, exchanges, strict=True)
    return [(private.copy(exchange.sent), exchange) for private, exchange in pairs]


def refuse_outer_run(config: RunnableConfig | None, name: str, remedy: str = USAGE) -> None:
    """Raises inside a sequence, graph node, tool or ``@traceable``: these recorded the input."""
    managers = [ensure_config(place).get("callbacks") for place in (config, None)]
    inside = any(getattr(manager, "parent_run_id", None) is not None for manager in managers)
    if inside or get_current_run_tree() is not None:
        raise ParameterError(f"{name} runs inside another run, which has its input; {remedy}")


# what a config asks for --------------------------------------------------------------------------


def conversation_of(config: RunnableConfig | None) -> str | None:
    """Returns the public name of a call's conversation, its thread or session id, if any."""
    own = asked_of(config)
    name = own.get("thread_id") or own.get("session_id")
    return str(name) if name else None


def session_for(session: dp.Session, config: RunnableConfig | None) -> dp.Session:
    """Returns the session at the epsilon, at most its own, and for the subject of a call."""
    asked, own = asked_of(config).get(EPSILON), session.sanitizer.certificate.epsilon
    allowed = own if asked is None else min(checked_epsilon(asked, EPSILON), own)
    return for_subject(session if allowed == own else session.prepared_at(allowed), config)


def for_subject(session: dp.Session, config: RunnableConfig | None) -> dp.Session:
    """Returns the session in the name of the subject that a call names, or as it is."""
    subject = asked_of(config).get(SUBJECT)
    if subject is None:
        return session
    if session.subjects != "many":
        raise ParameterError(
            f"expected no {SUBJECT} in the config of a call: it says who pays, and may come from a "
            'client; where your server sets it, make the session with subjects="many"'
        )
    return session.for_subject(subject)


def asked_of(config: RunnableConfig | None) -> Mapping[str, Any]:
    """Returns what is configured in a call, also of the run around it: an agent's thread."""
    own: Mapping[str, Any] = ensure_config(config).get("configurable") or {}
    if unknown := sorted({k for k in own if k.startswith("dp_")} - {*OWN}):
        raise ParameterError(f"expected {' or '.join(OWN)} in the config, got {', '.join(unknown)}")
    return own
