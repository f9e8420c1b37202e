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
from langchain_dp_middleware._session import conversation_of, for_subject


def note_known(session: dp.Session, message: AIMessage, conversation: str) -> None:
    """Note a remote answer by its id and, as many clients keep none, by its words."""
    nameless = message.model_copy(update={"id": None})
    for each in (message, nameless) if message.id else (message,):
        note_answer(session, each, conversation=conversation)


class Noting(BaseCallbackHandler):
    """Notes in the session what a call of a chat model answered; records nothing else.

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
                    note_known(self._session, message, self._conversation)


@dataclass(frozen=True, eq=False)
class AnswerNotes:
    """Config of a call in which its answer is noted.

    Attributes:
        session: Lets it out again.
    """

    session: dp.Session

    def __call__(self, config: RunnableConfig) -> RunnableConfig:
        session = for_subject(self.session, config)
        own = CallbackManager([Noting(session, conversation_of(config))])
        return RunnableConfig(callbacks=own)


class NotedModel(RunnableBinding[Any, Any]):
    """A chat model whose answers are noted; what is called around it or after it is not."""

    @property
    def session(self) -> dp.Session | None:
        """In which they are noted."""
        notes = (note for note in self.config_factories if isinstance(note, AnswerNotes))
        return next((note.session for note in notes), None)

    def with_retry(self, **kwargs: Any) -> Runnable[Any, Any]:
        """Around the noted model: each call is one of its own."""
        return Runnable.with_retry(self, **kwargs)


def with_notes(runnable: Runnable[Any, Any], session: dp.Session) -> Runnable[Any, Any]:
    """The runnable, with notes of the chat models that get its input or its messages.

    Those and no others: what stands behind a model or a function may have seen raw text, and a
    prompt may add some.
    """
    if isinstance(runnable, RefusedWrappers):  # notes for itself
        return runnable
    if isinstance(runnable, BaseChatModel):
        return NotedModel(bound=runnable, config_factories=[AnswerNotes(session)])
    if isinstance(runnable, NotedModel) and runnable.session is session:
        return runnable
    if isinstance(runnable, RunnableBindingBase):
        return runnable.model_copy(update={"bound": with_notes(runnable.bound, session)})
    if isinstance(runnable, RunnableWithFallbacks):
        others = [with_notes(fallback, session) for fallback in runnable.fallbacks]
        first = with_notes(runnable.runnable, session)
        return runnable.model_copy(update={"runnable": first, "fallbacks": others})
    if isinstance(runnable, RunnableParallel):
        steps = {name: with_notes(step, session) for name, step in runnable.steps__.items()}
        return runnable.model_copy(update={"steps__": steps})
    if isinstance(runnable, RunnableSequence):
        parts = list(runnable.steps)
        place = next((i for i, part in enumerate(parts) if not _adds_nothing(part)), 0)
        parts[place] = with_notes(parts[place], session)
        return RunnableSequence(*parts, name=runnable.name)
    return runnable


def _adds_nothing(step: Any) -> bool:
    """Whether it is a prompt in which all is the input's, but for what a system message says."""
    if not isinstance(step, ChatPromptTemplate) or any(step.partial_variables.values()):
        return False
    return all(
        isinstance(message, MessagesPlaceholder | SystemMessage | SystemMessagePromptTemplate)
        for message in step.messages
    )
