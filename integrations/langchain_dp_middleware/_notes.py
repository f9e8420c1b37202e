"""Noting what the remote model answered: at its own call, and at no other model's."""

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

from dp_middleware.conversation.exchange import Exchange
from langchain_dp_middleware._answers import note


class Noting(BaseCallbackHandler):
    """Notes in an exchange what a call of a chat model answered; records nothing else.

    To be added without ``inherit``: a model that is called inside of that call is another one.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def __copy__(self) -> Noting:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Noting:
        return self

    def on_llm_end(self, response: LLMResult, **_: Any) -> None:
        """Notes the answer of a call."""
        note_all(self._exchange, response.generations)


def note_all(exchange: Exchange, generations: Any) -> None:
    """Notes the messages of some generations, nested in lists."""
    for generation in generations:
        if isinstance(generation, list):
            note_all(exchange, generation)
        elif isinstance(message := getattr(generation, "message", None), AIMessage):
            note(exchange, message)


def with_notes(runnable: Runnable[Any, Any], exchange: Exchange) -> Runnable[Any, Any]:
    """Returns the runnable, with notes of the chat models that get its input or its messages.

    Those and no others: what stands behind a model or a function may have seen raw text, and a
    prompt may add some.
    """
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
