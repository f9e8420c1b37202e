"""Answers of a remote model, which are noted at its own call, or by hand."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import BaseCallbackHandler, CallbackManager
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, SystemMessage
from langchain_core.outputs import LLMResult
from langchain_core.prompts import (
    ChatPromptTemplate,
    MessagesPlaceholder,
    SystemMessagePromptTemplate,
)
from langchain_core.runnables import (
    Runnable,
    RunnableBinding,
    RunnableConfig,
    RunnableParallel,
    RunnableSequence,
    RunnableWithFallbacks,
)
from langchain_core.runnables.base import RunnableBindingBase

import dp_middleware as dp
from dp_middleware.conversation.exchange import Exchange
from dp_middleware.errors import ParameterError
from langchain_dp_middleware._calls import METADATA, restored
from langchain_dp_middleware._messages import answer_of


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
            "expected the remote model's own words, got a shown answer, with originals; "
            'let the adapter note it, as PrivateHead(..., answers="note") does, or set ai="pass", '
            "which gives it pseudonyms again"
        )
    name = remote.id if event_id is None else event_id
    session.note_remote(name, answer_of(remote).words(), conversation=conversation)


class Noting(BaseCallbackHandler):
    """Notes in an exchange what one call of a chat model answered, not of calls inside of it."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def __copy__(self) -> Noting:
        return self

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


def with_notes(runnable: Runnable[Any, Any], exchange: Exchange) -> Runnable[Any, Any]:
    """Adds notes to the chat models that get a runnable's input or messages, and to no others."""
    if isinstance(runnable, BaseChatModel):
        own = RunnableConfig(callbacks=CallbackManager([Noting(exchange)]))
        return RunnableBinding(bound=runnable, config_factories=[lambda _: own])
    if isinstance(runnable, RunnableBindingBase):
        return runnable.model_copy(update={"bound": with_notes(runnable.bound, exchange)})
    if isinstance(runnable, RunnableWithFallbacks):
        others = [with_notes(fallback, exchange) for fallback in runnable.fallbacks]
        first = with_notes(runnable.runnable, exchange)
        return runnable.model_copy(update={"runnable": first, "fallbacks": others})
    if isinstance(runnable, RunnableParallel):
        steps = {name: with_notes(step, exchange) for name, step in runnable.steps__.items()}
        return runnable.model_copy(update={"steps__": steps})
    if isinstance(runnable, RunnableSequence):
        parts = list(runnable.steps)
        place = next((i for i, part in enumerate(parts) if not _adds_nothing(part)), 0)
        parts[place] = with_notes(parts[place], exchange)
        return RunnableSequence(*parts, name=runnable.name)
    return runnable


def _adds_nothing(step: Any) -> bool:
    """Whether it is a prompt in which all is the input's, but for what a system message says."""
    if not isinstance(step, ChatPromptTemplate) or any(step.partial_variables.values()):
        return False
    public = MessagesPlaceholder | SystemMessage | SystemMessagePromptTemplate
    return all(isinstance(message, public) for message in step.messages)
