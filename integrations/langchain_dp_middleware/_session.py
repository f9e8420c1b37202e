"""What every adapter asks of its session: which one, which conversation, which epsilon."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig, ensure_config
from langchain_core.runnables.utils import ConfigurableFieldSpec
from pydantic import BaseModel, ConfigDict

import dp_middleware as dp
from dp_middleware.conversation.session import session_of
from dp_middleware.errors import ParameterError

EPSILON = "dp_epsilon"
SUBJECT = "dp_subject"

EPSILON_SPEC = ConfigurableFieldSpec(
    id=EPSILON,
    annotation=float,
    name="Epsilon",
    description="Nats per token occurrence of this call's releases; at most max_epsilon.",
    default=None,
)


MODEL_CONFIG = ConfigDict(arbitrary_types_allowed=True, extra="forbid", hide_input_in_errors=True)
"""Of the adapters that are pydantic models."""


def fields_of(
    kind: type[BaseModel], session: object, options: Mapping[str, Any], **parts: Any
) -> dict[str, Any]:
    """The fields of such an adapter: the session, its other parts and the options of a caller.

    Raises:
        ParameterError: An option that it does not have: named, without its value. Or no session,
            or a ceiling that is no epsilon.
    """
    if unknown := sorted(set(options) - set(kind.model_fields)):
        raise ParameterError(
            f"{kind.__name__} has no {', '.join(unknown)}; expected some of "
            f"{', '.join(sorted(kind.model_fields))}"
        )
    require_epsilon(max_epsilon=options.get("max_epsilon"))
    return {"session": session_of(session), **options, **parts}


def conversation_of(config: RunnableConfig | None) -> str | None:
    """The public name of a call's conversation, its thread or session id, if it has one."""
    own = _configurable(config)
    name = own.get("thread_id") or own.get("session_id")
    return str(name) if name else None


def session_for(
    session: dp.Session,
    config: RunnableConfig | None,
    ceiling: Any,
    *,
    default: float | None = None,
) -> dp.Session:
    """The session at the epsilon and for the subject that a call asks for.

    The epsilon may come from a client. The subject must not: a session takes one only where it was
    made with ``subjects="many"``. It is not among the ``config_specs``, which clients are shown.

    Args:
        session: The adapter's.
        config: ``{"configurable": {"dp_epsilon": 0.5}}`` asks for another epsilon,
            ``{"configurable": {"dp_subject": "ann"}}`` for another subject.
        ceiling: Nats per token occurrence, the most that a call gets; ``None``: the sanitizer's
            own certified epsilon.
        default: Nats per token occurrence, what a call gets that asks for nothing; ``None``: the
            sanitizer's own.

    Raises:
        ParameterError: What was asked for is not a positive number, or no subject that a call may
            name.
        NotPrepared: What was asked for takes a search, for which no call waits.
    """
    asked = _configurable(config).get(EPSILON)
    if asked is None:
        return for_subject(_at_epsilon(session, default, ceiling), config)
    if not _is_epsilon(asked):
        shown = asked if isinstance(asked, float | bool) else type(asked).__name__
        raise ParameterError(f"expected {EPSILON} > 0 and finite in the config, got {shown}")
    return for_subject(_at_epsilon(session, float(asked), ceiling), config)


def for_subject(session: dp.Session, config: RunnableConfig | None) -> dp.Session:
    """The session in the name of the subject that a call names, or as it is.

    Raises:
        ParameterError: The session takes no subject from a call.
    """
    subject = _configurable(config).get(SUBJECT)
    if subject is None:
        return session
    if session.subjects != "many":
        raise ParameterError(
            f"expected no {SUBJECT} in the config of a call: it says who pays, and may come from a "
            'client; where your server sets it, make the session with subjects="many"'
        )
    return session.for_subject(subject)


def _at_epsilon(session: dp.Session, epsilon: float | None, ceiling: float | None) -> dp.Session:
    """The session at the smaller of two epsilons, nats per token occurrence, if it is prepared.

    Args:
        session: The adapter's.
        epsilon: What is asked for; ``None``: the sanitizer's own.
        ceiling: The most; ``None``: the sanitizer's own.
    """
    own = session.sanitizer.certificate.epsilon
    asked = own if epsilon is None else epsilon
    allowed = min(asked, own if ceiling is None else float(ceiling))
    return session if allowed == own else session.prepared_at(allowed)


def refuse_epsilon(config: RunnableConfig | None, name: str, remedy: str) -> None:
    """Raise ParameterError if a call asks for an epsilon or a subject where it has no choice."""
    for asked in (EPSILON, SUBJECT):
        if _configurable(config).get(asked) is not None:
            raise ParameterError(f"{name} takes no {asked} in the config; {remedy}")


def _configurable(config: RunnableConfig | None) -> Mapping[str, Any]:
    """Also of the run around the call: an agent's thread.

    Raises:
        ParameterError: A name that looks like ours and is not, perhaps a misspelled one.
    """
    own: Mapping[str, Any] = ensure_config(config).get("configurable") or {}
    if unknown := sorted({k for k in own if k.startswith("dp_")} - {EPSILON, SUBJECT}):
        raise ParameterError(
            f"expected {EPSILON} or {SUBJECT} in the config, got {', '.join(map(repr, unknown))}"
        )
    return own


def at_most(session: dp.Session, epsilon: float | None) -> dp.Session:
    """The session calibrated to an epsilon, at most its own; for adapters, when they are made.

    Args:
        session: The adapter's.
        epsilon: Nats per token occurrence; ``None``: the sanitizer's own.
    """
    if epsilon is None or epsilon >= session.sanitizer.certificate.epsilon:
        return session
    return session.at(epsilon)


def require_epsilon(**parameters: object) -> None:
    """Refuse a parameter that is no epsilon; ``None`` is the sanitizer's own."""
    for name, value in parameters.items():
        if value is not None and not _is_epsilon(value):
            raise ParameterError(f"expected {name} > 0 and finite, got {value!r}")


def _is_epsilon(x: object) -> bool:
    """An int may be too large for a float."""
    if not isinstance(x, int | float) or isinstance(x, bool):
        return False
    return 0 < x <= sys.float_info.max
