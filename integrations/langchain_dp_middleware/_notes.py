"""Noting what the remote model answered: at its own call, and at no other model's."""

from __future__ import annotations

from dataclasses import dataclass
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
from langchain_dp_middleware._calls import RefusedWrappers
from langchain_dp_middleware._messages import note_answer
from langchain_dp_middleware._session import conversation_of


class Noting(BaseCallbackHandler):
    """Notes what a call of a chat model answered, in the session; records nothing else.

    To be added without ``inherit``: a model that is called inside of that call is another one.
    """

    def __init__(self, session: dp.Session, conversation: str) -> None:
        self._session, self._conversation = session, conversation

    def __copy__(self) -> Noting:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Noting:
        return self

    def on_llm_end(self, response: LLMResult, **_: Any) -> None:
        """A call has ended."""
        for row in response.generations:
            for generation in row:
                message = getattr(generation, "message", None)
                if isinstance(message, AIMessage):
                    note_answer(self._session, message, conversation=self._conversation)


@dataclass(frozen=True, eq=False)
class Notes:
    """Config of a call in which its answer is noted.

    Attributes:
        session: Lets it out again.
    """

    session: dp.Session

    def __call__(self, config: RunnableConfig) -> RunnableConfig:
        own = CallbackManager([Noting(self.session, conversation_of(config))])
        return RunnableConfig(callbacks=own)


class NotedModel(RunnableBinding[Any, Any]):
    """A chat model whose answers are noted; what is called around it or after it is not."""

    def with_retry(self, **kwargs: Any) -> Runnable[Any, Any]:
        """Around the noted model: each call is one of its own."""
        return Runnable.with_retry(self, **kwargs)


def noted(runnable: Runnable[Any, Any], session: dp.Session) -> Runnable[Any, Any]:
    """The runnable, with notes of the chat models that are given its input or its messages.

    Those and no others: what stands behind a model or a function may have seen raw text, and a
    prompt may add some.
    """
    if isinstance(runnable, RefusedWrappers):  # notes for itself
        return runnable
    if isinstance(runnable, BaseChatModel):
        return NotedModel(bound=runnable, config_factories=[Notes(session)])
    if isinstance(runnable, NotedModel) and _session_of(runnable) is session:
        return runnable
    if isinstance(runnable, RunnableBindingBase):
        return runnable.model_copy(update={"bound": noted(runnable.bound, session)})
    if isinstance(runnable, RunnableWithFallbacks):
        others = [noted(each, session) for each in runnable.fallbacks]
        first = noted(runnable.runnable, session)
        return runnable.model_copy(update={"runnable": first, "fallbacks": others})
    if isinstance(runnable, RunnableParallel):
        steps = {name: noted(each, session) for name, each in runnable.steps__.items()}
        return runnable.model_copy(update={"steps__": steps})
    if isinstance(runnable, RunnableSequence):
        return _first_noted(runnable, session)
    return runnable


def _first_noted(sequence: RunnableSequence[Any, Any], session: dp.Session) -> Runnable[Any, Any]:
    steps = sequence.steps
    first = next((i for i, step in enumerate(steps) if not _adds_nothing(step)), 0)
    changed = [*steps[:first], noted(steps[first], session), *steps[first + 1 :]]
    return RunnableSequence(*changed, name=sequence.name)


def _adds_nothing(step: Any) -> bool:
    """Whether it is a prompt in which all is the input's, but for what a system message says."""
    if not isinstance(step, ChatPromptTemplate) or any(step.partial_variables.values()):
        return False
    return all(
        isinstance(each, MessagesPlaceholder | SystemMessage | SystemMessagePromptTemplate)
        for each in step.messages
    )


def _session_of(model: NotedModel) -> Any:
    return next((each.session for each in model.config_factories if isinstance(each, Notes)), None)
