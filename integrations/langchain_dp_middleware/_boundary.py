"""Where private text becomes released text, and what the config of a call asks of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from langchain_core.runnables import RunnableConfig, ensure_config
from langchain_core.runnables.utils import ConfigurableFieldSpec
from langsmith.run_helpers import get_current_run_tree
from pydantic import BaseModel, ConfigDict

import dp_middleware as dp
from dp_middleware.conversation.events import checked_epsilon
from dp_middleware.conversation.exchange import Exchange, Tools
from dp_middleware.conversation.session import session_of
from dp_middleware.errors import ParameterError, UnknownAnswer, without_text
from langchain_dp_middleware._messages import Input, MessageRules

EPSILON = "dp_epsilon"
SUBJECT = "dp_subject"
EPSILON_SPEC = ConfigurableFieldSpec(
    id=EPSILON,
    annotation=float,
    name="Epsilon",
    description="Nats per token occurrence of this call's releases; at most max_epsilon.",
    default=None,
)
SPECS: Any = property(
    lambda adapter: [EPSILON_SPEC, *getattr(getattr(adapter, "_rest", None), "config_specs", ())],
    doc="The epsilon of a call, and what can be configured in the rest.",
)
MODEL_CONFIG = ConfigDict(arbitrary_types_allowed=True, extra="forbid", hide_input_in_errors=True)
"""Of the adapters that are pydantic models."""

NOTE_OR_DECLARE = (
    "tell the session with note_answer(session, message), or declare all AI messages public with "
    'ai="pass"'
)
USAGE = "the head goes first: PrivateHead(...) | prompt | model"


def cross(
    adapter: Any,
    values: Sequence[Any],
    read: Callable[[Any, MessageRules], Input],
    config: RunnableConfig | None,
    *,
    tools: Tools = (),
    remedy: str = NOTE_OR_DECLARE,
) -> list[tuple[Any, Exchange]]:
    """Charges and draws for the private texts of some inputs: copies to send, and exchanges."""
    rules = MessageRules.of(adapter)
    options: Any = {"unknown": rules.passes, "tools": tools}
    try:
        session = session_for(adapter.session, config, adapter.max_epsilon)
        inputs = [read(value, rules) for value in values]
        transcripts = [private.transcript for private in inputs]
        name = conversation_of(config)
        with remedied(remedy):
            exchanges = session.exchanges(transcripts, conversation=name, **options)
        pairs = zip(inputs, exchanges, strict=True)
        return [(private.copy(exchange.sent), exchange) for private, exchange in pairs]
    except Exception as error:
        failure = without_text(error)
    raise failure.with_traceback(None)


@contextmanager
def remedied(remedy: str = NOTE_OR_DECLARE) -> Iterator[None]:
    """Says of an AI message that the session does not know what to do about it."""
    try:
        yield
    except UnknownAnswer:
        raise UnknownAnswer(
            "expected AI messages that the session knows as remote answers, got another, "
            f"which may hold private text; {remedy}"
        ) from None


def refuse_outer_run(config: RunnableConfig | None, name: str, remedy: str = USAGE) -> None:
    """Raises inside a sequence, graph node, tool or ``@traceable``: these recorded the input."""
    managers = [ensure_config(place).get("callbacks") for place in (config, None)]
    inside = any(getattr(manager, "parent_run_id", None) is not None for manager in managers)
    if inside or get_current_run_tree() is not None:
        raise ParameterError(f"{name} runs inside another run, which has its input; {remedy}")


# what a config asks for --------------------------------------------------------------------------


def conversation_of(config: RunnableConfig | None) -> str | None:
    """Returns the public name of a call's conversation, its thread or session id, if any."""
    own = _configurable(config)
    name = own.get("thread_id") or own.get("session_id")
    return str(name) if name else None


def session_for(
    session: dp.Session, config: RunnableConfig | None, ceiling: float | None
) -> dp.Session:
    """Returns the session at the epsilon, under a ceiling, and for the subject of a call."""
    asked, own = _configurable(config).get(EPSILON), session.sanitizer.certificate.epsilon
    wanted = own if asked is None else checked_epsilon(asked, EPSILON)
    allowed = min(wanted, own if ceiling is None else float(ceiling))
    return for_subject(session if allowed == own else session.prepared_at(allowed), config)


def for_subject(session: dp.Session, config: RunnableConfig | None) -> dp.Session:
    """Returns the session in the name of the subject that a call names, or as it is."""
    subject = _configurable(config).get(SUBJECT)
    if subject is None:
        return session
    if session.subjects != "many":
        raise ParameterError(
            f"expected no {SUBJECT} in the config of a call: it says who pays, and may come from a "
            'client; where your server sets it, make the session with subjects="many"'
        )
    return session.for_subject(subject)


def refuse_epsilon(config: RunnableConfig | None, name: str, remedy: str) -> None:
    """Raises ParameterError if a call asks for an epsilon or a subject where it has no choice."""
    for asked in (EPSILON, SUBJECT):
        if _configurable(config).get(asked) is not None:
            raise ParameterError(f"{name} takes no {asked} in the config; {remedy}")


def _configurable(config: RunnableConfig | None) -> Mapping[str, Any]:
    """Also of the run around the call: an agent's thread."""
    own: Mapping[str, Any] = ensure_config(config).get("configurable") or {}
    if unknown := sorted({k for k in own if k.startswith("dp_")} - {EPSILON, SUBJECT}):
        raise ParameterError(
            f"expected {EPSILON} or {SUBJECT} in the config, got {', '.join(map(repr, unknown))}"
        )
    return own


# what an adapter is made with --------------------------------------------------------------------


def fields_of(
    kind: type[BaseModel], session: object, options: Mapping[str, Any], **parts: Any
) -> dict[str, Any]:
    """Returns the fields of a pydantic adapter; an unknown option is named without its value."""
    if unknown := sorted(set(options) - set(kind.model_fields)):
        raise ParameterError(
            f"{kind.__name__} has no {', '.join(unknown)}; expected some of "
            f"{', '.join(sorted(kind.model_fields))}"
        )
    require_epsilon(max_epsilon=options.get("max_epsilon"))
    return {"session": session_of(session), **options, **parts}


def check_fields(adapter: Any) -> None:
    """Checks the fields that a head and a sanitizer have in common; sets session and keys."""
    keys = adapter.keys
    if keys is not None and (isinstance(keys, str) or not keys):
        raise ParameterError(f"expected keys=['question', ...], got keys={keys!r}")
    object.__setattr__(adapter, "session", session_of(adapter.session))
    object.__setattr__(adapter, "keys", None if keys is None else tuple(keys))
    require_epsilon(max_epsilon=adapter.max_epsilon)
    MessageRules.of(adapter)  # refuses what is none


def at_most(session: dp.Session, epsilon: float | None) -> dp.Session:
    """Returns the session calibrated to an epsilon, nats per token occurrence, at most its own."""
    require_epsilon(epsilon=epsilon)
    if epsilon is None or epsilon >= session.sanitizer.certificate.epsilon:
        return session
    return session.at(epsilon)


def require_epsilon(**parameters: object) -> None:
    """Refuses a parameter that is no epsilon; ``None`` is the sanitizer's own."""
    for name, value in parameters.items():
        if value is not None:
            checked_epsilon(value, name)
