"""What a model is sent for a transcript, and what it answered."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Generic, Literal, TypeVar

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse
from llama_index.core.llms.llm import LLM

import dp_middleware as dp
from dp_middleware.errors import BudgetExhausted, ParameterError
from dp_middleware.privacy.receipts import Receipt, receipts
from dp_middleware.sessions.boundary import guarded
from dp_middleware.sessions.session import ONCE, Item
from dp_middleware.sessions.templates import Template, parts_of
from dp_middleware.unrecorded.streams import aclosing, closing
from llama_index_dp_middleware._epsilon import at_asked
from llama_index_dp_middleware._messages import slots_of, words_of
from llama_index_dp_middleware._reply import FixedReply

T = TypeVar("T")
Response = TypeVar("Response", ChatResponse, CompletionResponse)

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
    """

    session: dp.Session
    system: System
    templates: tuple[Template, ...]
    conversation: str
    inner: LLM
    on_exhausted: str | None

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
        return Call(
            session=session,
            conversation=self.conversation,
            model=model,
            sent=sent,
            receipt=receipt.to_dict(),
        )

    def _prompt(self, session: dp.Session, prompt: str) -> str:
        parts = parts_of(self.templates, "user", prompt)
        releases = session.release_many([(ONCE, "user", value) for value in parts.values])
        return parts.joined(release.text for release in releases)

    def _messages(self, session: dp.Session, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        """What stands before the history changes no name in it.

        A memory rewrites its text again and again, so this is an event of its own, known by its
        place and by the message with which the conversation begins.
        """
        slots = [slots_of(m, f"message {k}", self.templates) for k, m in enumerate(messages)]
        texts = [text for part in slots for text in part.texts]
        private = [text for text in texts if not self._passes(text[0])]
        leading = list(takewhile(lambda text: text[0] == "system", private))
        history: list[Item] = [(None, *text) for text in private[len(leading) :]]
        start = session.digest(*history[0][1:]) if history else ""
        memories: list[Item] = [(f"{start} {k}", *text) for k, text in enumerate(leading)]
        parts = session.release_all([memories, history], conversation=self.conversation)
        released = (release.text for part in parts for release in part)
        sent = (text[1] if self._passes(text[0]) else next(released) for text in texts)
        return [part.build(sent) for part in slots]

    def _passes(self, role: str) -> bool:
        return role == "system" and self.system == "pass"


@dataclass(frozen=True, kw_only=True)
class Call(Generic[T]):
    """A call of the remote model.

    Attributes:
        session: Released what is sent, and remembers what is answered.
        conversation: Its public name.
        model: What answers: the remote model, or a fixed reply.
        sent: To the remote model.
        receipt: What was released and charged, for ``additional_kwargs["dp"]`` of the answer.
    """

    session: dp.Session
    conversation: str
    model: Any
    sent: T
    receipt: dict[str, Any]

    def note(self, response: Response) -> Response:
        """Remember an answer of the remote model: it may go out again."""
        with suppress(ParameterError):  # an answer that cannot be sent again
            for words in _forms(response):
                self.session.note_remote(None, words, conversation=self.conversation)
        return self._signed(response)

    def note_left(self, response: Response) -> None:
        """As :meth:`note`, where garbage may just be collected: nothing may be waited for."""
        with suppress(ParameterError):
            for words in _forms(response):
                self.session.note_left(words, conversation=self.conversation)

    def note_pieces(
        self, pieces: Generator[Response, None, None]
    ) -> Generator[Response, None, None]:
        """As :meth:`note`, for an answer in pieces, the last of which has all of it.

        One that is left is noted as far as it went, and its connection closed.
        """
        with closing(pieces), self._noting_last() as seen:
            for piece in pieces:
                seen.append(piece)
                yield self._signed(piece)

    async def anote_pieces(
        self, pieces: AsyncGenerator[Response, None]
    ) -> AsyncGenerator[Response, None]:
        """As :meth:`note_pieces`."""
        async with aclosing(pieces):
            with self._noting_last() as seen:
                async for piece in pieces:
                    seen.append(piece)
                    yield self._signed(piece)

    def _signed(self, response: Response) -> Response:
        if self.receipt:
            response.additional_kwargs["dp"] = self.receipt
        return response

    @contextmanager
    def _noting_last(self) -> Iterator[deque[Any]]:
        """Notes the last piece that was put there, by :meth:`note_left` if the reader went."""
        seen: deque[Any] = deque(maxlen=1)
        note: Callable[[Any], object] = self.note
        try:
            yield seen
        except GeneratorExit:
            note = self.note_left
            raise
        finally:
            for last in seen:
                note(last)


def _forms(response: ChatResponse | CompletionResponse) -> set[str]:
    """What an answer may be when it is sent again: streaming chat engines keep stripped text."""
    message = response.message if isinstance(response, ChatResponse) else ChatMessage(response.text)
    words, stripped = words_of(message), (message.content or "").strip()
    return {words} if words == stripped else {words, words_of(ChatMessage(stripped))}
