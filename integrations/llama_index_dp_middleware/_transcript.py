"""What a model is sent for a transcript."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Literal, TypeVar

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms.llm import LLM

import dp_middleware as dp
from dp_middleware.conversation.boundary import guarded
from dp_middleware.conversation.exchange import Exchange, Tools
from dp_middleware.conversation.messages import ONCE, Message
from dp_middleware.conversation.templates import Template, parts_of
from dp_middleware.errors import BudgetExhausted
from llama_index_dp_middleware._call import Call
from llama_index_dp_middleware._epsilon import at_asked
from llama_index_dp_middleware._messages import slots_of
from llama_index_dp_middleware._reply import FixedReply
from llama_index_dp_middleware._restoring import Restoring

T = TypeVar("T")

System = Literal["pass", "release"]


@dataclass(frozen=True, kw_only=True)
class Transcript:
    """One conversation of a session.

    Attributes:
        session: Releases and remembers.
        system: Whether all system messages are public, or released like others.
        templates: Prompts that are public but for their values.
        conversation: Its public name, if it has one.
        tools: Names of the tools that are called with originals.
        inner: The remote model.
        on_exhausted: A public text that answers where the budget is exhausted; or the error.
        structured: As of :class:`Restoring`.
    """

    session: dp.Session
    system: System
    templates: tuple[Template, ...]
    conversation: str | None
    tools: Tools
    inner: LLM
    on_exhausted: str | None
    structured: bool = False

    def release(self, messages: Sequence[ChatMessage]) -> Call[list[ChatMessage]]:
        """New messages that may be sent.

        Raises:
            DPMiddlewareError: Nothing may be sent. Holds no text.
        """
        return guarded(self._released, self._messages, messages, [])

    def release_prompt(self, prompt: str) -> Call[str]:
        """A prompt without a transcript: released anew at every call."""
        return guarded(self._released, self._prompt, prompt, "")

    def _released(
        self, work: Callable[[dp.Session, T], tuple[Exchange, T]], private: T, nothing: T
    ) -> Call[T]:
        session, model = at_asked(self.session), self.inner
        exchange: Exchange | None
        try:
            exchange, sent = work(session, private)
        except BudgetExhausted:
            if self.on_exhausted is None:
                raise
            exchange, sent, model = None, nothing, FixedReply(text=self.on_exhausted)
        return Call(restoring=Restoring(exchange, self.structured), model=model, sent=sent)

    def _prompt(self, session: dp.Session, prompt: str) -> tuple[Exchange, str]:
        parts = parts_of(self.templates, "user", prompt)
        once = [Message(role="user", texts=(value,), id=ONCE) for value in parts.values]
        exchange = self._exchange(session, once)
        return exchange, parts.joined(message.text for message in exchange.sent)

    def _messages(
        self, session: dp.Session, messages: Sequence[ChatMessage]
    ) -> tuple[Exchange, list[ChatMessage]]:
        """What stands before the history changes no name in it.

        A memory rewrites its text again and again, so this is an event of its own, known by its
        place and by the message with which the conversation begins.
        """
        slots = [slots_of(m, f"message {k}", self.templates) for k, m in enumerate(messages)]
        transcript = [
            replace(slot.message, public=slot.message.public or self._passes(slot.message.role))
            for slot in slots
        ]
        private = [message for message in transcript if not message.public]
        leading = list(takewhile(lambda message: message.role == "system", private))
        begun = private[len(leading) :][:1]
        start = session.digest(begun[0].role, begun[0].event.text) if begun else ""
        names = {id(message): f"{start} {k}" for k, message in enumerate(leading)}
        told = [
            replace(message, aside=True, id=names[id(message)]) if id(message) in names else message
            for message in transcript
        ]
        exchange = self._exchange(session, told)
        return exchange, [slot.build(sent) for slot, sent in zip(slots, exchange.sent, strict=True)]

    def _exchange(self, session: dp.Session, transcript: Sequence[Message]) -> Exchange:
        return session.exchange(transcript, conversation=self.conversation, tools=self.tools)

    def _passes(self, role: str) -> bool:
        return role == "system" and self.system == "pass"
