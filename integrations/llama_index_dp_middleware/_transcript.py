"""Transcripts and prompts of a model: released, or answered by a public text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Literal, TypeVar

from llama_index.core.base.llms import types as llms
from llama_index.core.llms.llm import LLM

import dp_middleware as dp
from dp_middleware.conversation.exchange import Exchange, Tools
from dp_middleware.conversation.messages import ONCE, Message
from dp_middleware.conversation.templates import Template, parts_of
from dp_middleware.errors import guarded
from llama_index_dp_middleware._answers import AnswerCall
from llama_index_dp_middleware._blocks import in_block
from llama_index_dp_middleware._messages import slots_of

T = TypeVar("T")

System = Literal["pass", "release"]


@dataclass(frozen=True, kw_only=True)
class Transcript:
    """One conversation of a session, with the settings of a :class:`DPLLM`."""

    session: dp.Session
    system: System
    templates: tuple[Template, ...]
    conversation: str | None
    tools: Tools
    inner: LLM
    structured: bool

    def release(self, messages: Sequence[llms.ChatMessage]) -> AnswerCall[list[llms.ChatMessage]]:
        """Makes new messages that may be sent, or raises an error without text."""
        return guarded(self._call, self._messages, messages)

    def release_prompt(self, prompt: str) -> AnswerCall[str]:
        """Releases a prompt without a transcript: a new event at every call."""
        return guarded(self._call, self._prompt, prompt)

    def _call(
        self, work: Callable[[dp.Session, Any], tuple[Exchange, T]], private: Any
    ) -> AnswerCall[T]:
        exchange, sent = work(in_block(self.session), private)
        return AnswerCall(exchange, self.structured, self.inner, sent)

    def _prompt(self, session: dp.Session, prompt: str) -> tuple[Exchange, str]:
        parts = parts_of(self.templates, "user", prompt)
        once = [Message(role="user", texts=(value,), id=ONCE) for value in parts.values]
        exchange = self._exchange(session, once)
        return exchange, parts.joined(message.text for message in exchange.sent)

    def _messages(
        self, session: dp.Session, messages: Sequence[llms.ChatMessage]
    ) -> tuple[Exchange, list[llms.ChatMessage]]:
        """Releases messages; those before the history, which memories rewrite, stand aside."""
        slots = [
            slots_of(m, f"message {k}", self.templates, printed=session.restores)
            for k, m in enumerate(messages)
        ]
        told = [slot.message for slot in slots]
        if self.system == "pass":
            told = [replace(m, public=m.public or m.role == "system") for m in told]
        private = [place for place, message in enumerate(told) if not message.public]
        leading = list(takewhile(lambda place: told[place].role == "system", private))
        begun = [told[place] for place in private[len(leading) :]][:1]
        start = session.digest(begun[0].role, begun[0].event.text) if begun else ""
        for number, place in enumerate(leading):
            told[place] = replace(told[place], aside=True, id=f"{start} {number}")
        exchange = self._exchange(session, told)
        return exchange, [slot.build(sent) for slot, sent in zip(slots, exchange.sent, strict=True)]

    def _exchange(self, session: dp.Session, transcript: Sequence[Message]) -> Exchange:
        return session.exchange(transcript, conversation=self.conversation, tools=self.tools)
