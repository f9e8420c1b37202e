"""Where private text becomes released text, and where answers of a remote model are noted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

from langchain_core import prompts, runnables as lcr
from langchain_core.callbacks import BaseCallbackHandler, CallbackManager
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, SystemMessage
from langchain_core.outputs import LLMResult
from langchain_core.runnables.base import RunnableBindingBase
from langsmith.run_helpers import get_current_run_tree
from pydantic import ConfigDict

import dp_middleware as dp
from dp_middleware.conversation.events import checked_epsilon
from dp_middleware.conversation.exchange import Exchange, Tools
from dp_middleware.conversation.messages import Cross, copy_of, transcript_of
from dp_middleware.errors import ParameterError, UnknownAnswer, without_text
from langchain_dp_middleware._calls import METADATA, restored
from langchain_dp_middleware._messages import answer_of

EPSILON, SUBJECT = OWN = ("dp_epsilon", "dp_subject")
# of the adapters that are pydantic models
MODEL_CONFIG = ConfigDict(arbitrary_types_allowed=True, extra="forbid", hide_input_in_errors=True)
# system messages are public and sent as they are, or private
System = Literal["pass", "release"]
# AI messages are sent if the session knows them as remote answers, or are declared public
Answers = Literal["noted", "pass"]
USAGE = "the head goes first: PrivateHead(...) | prompt | model"


def cross(
    adapter: Any,
    value: Any,
    copy: Callable[[System, Any, Cross], Any],
    config: lcr.RunnableConfig | None,
    *,
    tools: Tools = (),
) -> tuple[Any, Exchange]:
    """Charges and draws for the private texts of an input: its copy to send, and the exchange."""
    try:  # as `guarded` does, in fewer files
        session, copied = session_for(adapter.session, config), partial(copy, adapter.system, value)
        name = conversation_of(config)
        return release(session, copied, name, adapter.ai, tools=tools)
    except Exception as error:
        failure = without_text(error)
    raise failure.with_traceback(None)


def release(
    session: dp.Session,
    copy: Callable[[Cross], Any],
    conversation: str | None,
    ai: Answers,
    *,
    tools: Tools = (),
) -> tuple[Any, Exchange]:
    """Does as :func:`cross`, in a session and conversation; what it raises may quote."""
    options: Any = {"unknown": "pass" if ai == "pass" else "refuse", "tools": tools}
    try:
        exchange = session.exchange(transcript_of(copy), conversation=conversation, **options)
    except UnknownAnswer:
        raise UnknownAnswer(
            "expected AI messages that the session knows as remote answers, got another, which may "
            "hold private text; keep the ids of answers, call note_answer(session, message), or "
            'declare all of them public with ai="pass"'
        ) from None
    return copy_of(copy, exchange.sent), exchange


def refuse_outer_run(config: lcr.RunnableConfig | None, name: str, remedy: str = USAGE) -> None:
    """Raises inside a sequence, graph node, tool or ``@traceable``: these recorded the input."""
    managers = [lcr.ensure_config(place).get("callbacks") for place in (config, None)]
    inside = any(getattr(manager, "parent_run_id", None) is not None for manager in managers)
    if inside or get_current_run_tree() is not None:
        raise ParameterError(f"{name} runs inside another run, which has its input; {remedy}")


def conversation_of(config: lcr.RunnableConfig | None) -> str | None:
    """Returns the public name of a call's conversation, its thread or session id, if any."""
    own = asked_of(config)
    name = own.get("thread_id") or own.get("session_id")
    return str(name) if name else None


def session_for(session: dp.Session, config: lcr.RunnableConfig | None) -> dp.Session:
    """Returns the session at the epsilon, at most its own, and for the subject of a call."""
    asked, own = asked_of(config).get(EPSILON), session.sanitizer.certificate.epsilon
    allowed = own if asked is None else min(checked_epsilon(asked, EPSILON), own)
    return for_subject(session if allowed == own else session.prepared_at(allowed), config)


def for_subject(session: dp.Session, config: lcr.RunnableConfig | None) -> dp.Session:
    """Returns the session in the name of the subject that a call names, or as it is."""
    subject = asked_of(config).get(SUBJECT)
    if subject is None:
        return session
    if session.subjects != "many":
        raise ParameterError(
            f"expected no {SUBJECT} in the config of a call, which may come from a client; where "
            'your server sets it, make the session with subjects="many"'
        )
    return session.for_subject(subject)


def asked_of(config: lcr.RunnableConfig | None) -> Mapping[str, Any]:
    """Returns what is configured in a call, also of the run around it: an agent's thread."""
    own: Mapping[str, Any] = lcr.ensure_config(config).get("configurable") or {}
    if unknown := sorted({k for k in own if k.startswith("dp_")} - {*OWN}):
        raise ParameterError(f"expected {' or '.join(OWN)} in the config, got {', '.join(unknown)}")
    return own


def note_answer(
    session: dp.Session, remote: AIMessage, *, event_id: str | None = None, conversation: str = ""
) -> None:
    """Tells the session what the remote model answered: its words and its calls of tools.

    Args:
        session: Lets the answer out again in a later transcript.
        remote: The message as the **remote** model wrote it, never one that was extracted locally.
        event_id: Of the message that stands for it in the transcript; default its own id, or words.
        conversation: Thread or session id of the call; default: any call without one.

    Raises:
        EventRefused: A message with this id was released as a private one.
        ParameterError: What an adapter has shown under pseudonyms, with the originals.
    """
    if session.restores and METADATA in remote.response_metadata:
        raise ParameterError(
            "expected the remote model's own words, got a shown answer, with originals; let the "
            'adapter note it, as PrivateHead(..., answers="note") does, or set ai="pass"'
        )
    name = remote.id if event_id is None else event_id
    session.note_remote(name, answer_of(remote).words(), conversation=conversation)


class Noting(BaseCallbackHandler):
    """Notes in an exchange what one call of a chat model answered, not of calls inside of it."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def __deepcopy__(self, memo: dict[int, Any]) -> Noting:
        return self

    def on_llm_end(self, response: LLMResult, **_: Any) -> None:
        note_all(self._exchange, response.generations)


def note_all(exchange: Exchange, generations: Any) -> None:
    """Notes the messages of some generations, nested in lists."""
    for generation in generations:
        if isinstance(generation, list):
            note_all(exchange, generation)
        elif isinstance(message := getattr(generation, "message", None), AIMessage):
            exchange.note(answer_of(message), answer_of(restored(exchange, message)))


def with_notes(runnable: lcr.Runnable[Any, Any], exchange: Exchange) -> lcr.Runnable[Any, Any]:
    """Adds notes to the chat models that get a runnable's input or messages, and to no others."""
    if isinstance(runnable, BaseChatModel):
        own = lcr.RunnableConfig(callbacks=CallbackManager([Noting(exchange)]))
        return lcr.RunnableBinding(bound=runnable, config_factories=[lambda _: own])
    if isinstance(runnable, RunnableBindingBase):
        return runnable.model_copy(update={"bound": with_notes(runnable.bound, exchange)})
    if isinstance(runnable, lcr.RunnableWithFallbacks):
        others = [with_notes(fallback, exchange) for fallback in runnable.fallbacks]
        first = with_notes(runnable.runnable, exchange)
        return runnable.model_copy(update={"runnable": first, "fallbacks": others})
    if isinstance(runnable, lcr.RunnableParallel):
        steps = {name: with_notes(step, exchange) for name, step in runnable.steps__.items()}
        return runnable.model_copy(update={"steps__": steps})
    if isinstance(runnable, lcr.RunnableSequence):
        parts = list(runnable.steps)
        place = next((i for i, part in enumerate(parts) if not _adds_nothing(part)), 0)
        parts[place] = with_notes(parts[place], exchange)
        return lcr.RunnableSequence(*parts, name=runnable.name)
    return runnable


def _adds_nothing(step: Any) -> bool:
    """Tells whether all in a prompt is the input's, but for what a system message says."""
    if not isinstance(step, prompts.ChatPromptTemplate) or any(step.partial_variables.values()):
        return False
    public = prompts.MessagesPlaceholder | SystemMessage | prompts.SystemMessagePromptTemplate
    return all(isinstance(message, public) for message in step.messages)
