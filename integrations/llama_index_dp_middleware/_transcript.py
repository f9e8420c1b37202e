"""What a model is sent for a transcript."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal, TypeVar

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms.llm import LLM

import dp_middleware as dp
from dp_middleware.conversation.boundary import guarded
from dp_middleware.conversation.session import ONCE, Item
from dp_middleware.conversation.templates import Template, parts_of
from dp_middleware.errors import BudgetExhausted
from dp_middleware.privacy.receipts import Receipt, receipts
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
        conversation: Its public name.
        inner: The remote model.
        on_exhausted: A public text that answers where the budget is exhausted; or the error.
        structured: As of :class:`Restoring`.
    """

    session: dp.Session
    system: System
    templates: tuple[Template, ...]
    conversation: str
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

    def _released(self, work: Callable[[dp.Session, T], T], private: T, nothing: T) -> Call[T]:
        session, model = at_asked(self.session), self.inner
        with receipts() as receipt:
            try:
                sent = work(session, private)
            except BudgetExhausted:
                if self.on_exhausted is None:
                    raise
                sent, model, receipt = nothing, FixedReply(text=self.on_exhausted), Receipt()
        restoring = Restoring(
            session,
            self.conversation,
            structured=self.structured,
            is_fixed=isinstance(model, FixedReply),
        )
        return Call(restoring=restoring, model=model, sent=sent, receipt=receipt.to_dict())

    def _prompt(self, session: dp.Session, prompt: str) -> str:
        parts = parts_of(self.templates, "user", prompt)
        once: list[Item] = [(ONCE, "user", value) for value in parts.values]
        releases = session.release_many(once, conversation=self.conversation)
        return parts.joined(release.text for release in releases)

    def _messages(self, session: dp.Session, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        """What stands before the history changes no name in it.

        A memory rewrites its text again and again, so this is an event of its own, known by its
        place and by the message with which the conversation begins.
        """
        slots = [slots_of(m, f"message {k}", self.templates) for k, m in enumerate(messages)]
        texts = self._remote(session, [text for part in slots for text in part.texts])
        private = [text for text in texts if not self._passes(text[0])]
        leading = list(takewhile(lambda text: text[0] == "system", private))
        history: list[Item] = [(None, *text) for text in private[len(leading) :]]
        start = session.digest(*history[0][1:]) if history else ""
        memories: list[Item] = [(f"{start} {k}", *text) for k, text in enumerate(leading)]
        parts = session.release_all([memories, history], conversation=self.conversation)
        released = (release.text for part in parts for release in part)
        sent = (text[1] if self._passes(text[0]) else next(released) for text in texts)
        return [part.build(sent) for part in slots]

    def _remote(self, session: dp.Session, texts: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """The texts with the remote model's own words in place of what was shown of them."""
        if not session.restores:
            return texts
        answers: list[list[Item]] = [[(None, *text)] for text in texts if text[0] == "assistant"]
        known = iter(session.release_all(answers, conversation=self.conversation, unknown="pass"))
        return [
            (role, next(known)[0].text if role == "assistant" else text) for role, text in texts
        ]

    def _passes(self, role: str) -> bool:
        return role == "system" and self.system == "pass"
