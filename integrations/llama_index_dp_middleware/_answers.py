"""Calls of a remote model: transcripts are released, answers restored and remembered."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Hashable, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Generic, Literal, TypeVar

from llama_index.core.base.llms import types as llms
from llama_index.core.llms.llm import LLM
from llama_index.core.llms.structured_llm import StructuredLLM
from pydantic import BaseModel

import dp_middleware as dp
from dp_middleware._quiet import afed, fed
from dp_middleware.conversation.exchange import RESTORATION, Exchange, Growing, Show, Tools
from dp_middleware.conversation.messages import ONCE, Message, copies_of, printed
from dp_middleware.conversation.templates import Template, parts_of
from dp_middleware.errors import ParameterError, guarded
from llama_index_dp_middleware._blocks import in_block
from llama_index_dp_middleware._messages import answer_of, read_message

T = TypeVar("T")
Response = TypeVar("Response", llms.ChatResponse, llms.CompletionResponse)

System = Literal["pass", "release"]

_WORDS = ("text", "content")  # of blocks
_THOUGHTS = "thinking_delta"


class AnswerCall(Generic[T]):
    """What a model is sent, and its answer, of a structured model an object: JSON, and ``raw``."""

    def __init__(self, exchange: Exchange, model: LLM, sent: T) -> None:
        self.model, self.sent = model, sent
        self._exchange, self._structured = exchange, isinstance(model, StructuredLLM)
        self._growing: dict[Hashable, Growing] = {}
        self._words, self._thoughts = self._restorer(), self._restorer()  # of deltas
        self._last: tuple[Any, Any] | None = None  # piece, and what was shown of it

    def note(self, response: Response) -> Response:
        """Notes an answer, which may go out again, and returns what is shown of it."""
        shown = self._whole(response)
        self._note(response, shown, left=False)
        return self._signed(shown)

    def note_pieces(
        self, pieces: Generator[Response, None, None]
    ) -> Generator[Response, None, None]:
        """Does as :meth:`note`, of an answer in pieces, as far as it went when it is left."""
        with self._noting():
            yield from fed(pieces, self._feed, self._close)

    async def anote_pieces(
        self, pieces: AsyncGenerator[Response, None]
    ) -> AsyncGenerator[Response, None]:
        async with aclosing(afed(pieces, self._feed, self._close)) as shown:
            with self._noting():
                async for piece in shown:
                    yield piece

    def _signed(self, response: Response) -> Response:
        if receipt := self._exchange.receipt.to_dict():
            response.additional_kwargs["dp"] = receipt
        return response

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Notes the last piece; where the reader went, garbage is collected: it never waits."""
        left = False
        try:
            yield
        except GeneratorExit:
            left = True
            raise
        finally:
            if self._last is not None:
                self._note(*self._last, left=left)

    def _note(self, remote: Response, shown: Response, *, left: bool) -> None:
        with suppress(ParameterError):  # an answer that cannot be sent again
            for own, other in zip(_forms(remote), _forms(shown), strict=True):
                self._exchange.note(own, other, left=left)

    # what is shown -------------------------------------------------------------------------------

    def _whole(self, response: Response) -> Response:
        if not self._exchange.restores:
            return response
        shown: Response = guarded(self._copy, response, self._complete, what=RESTORATION)
        return shown

    def _feed(self, piece: Response) -> Response:
        shown = guarded(self._grow, piece, what=RESTORATION) if self._exchange.restores else piece
        self._last = piece, shown
        return self._signed(shown)

    def _grow(self, piece: Any) -> Any:
        copy = self._copy(piece, self._grown)
        words = None if piece.delta is None else self._words.feed(piece.delta)
        thought = self._thoughts.feed(piece.additional_kwargs.get(_THOUGHTS) or "")
        return _with(copy, words, thought)

    def _close(self) -> Iterator[Any]:
        """Yields a last piece, which has the whole answer, if anything was held back."""
        if self._last is None:
            return
        remote, shown = self._last
        words, thought = self._words.close(), self._thoughts.close()
        whole = self._whole(remote)
        said, before = (getattr(x, "message", None) or x.text for x in (whole, shown))
        if words or thought or said != before:
            self._last = remote, _with(whole, words, thought)
            yield self._signed(self._last[1])

    def _restorer(self, *, is_call: bool = False) -> Growing:
        return self._exchange.restorer(json=is_call or self._structured, shown=not is_call)

    def _complete(self, place: Hashable, text: str, is_call: bool) -> str:
        restorer = self._restorer(is_call=is_call)
        return restorer.feed(text) + restorer.close()

    def _grown(self, place: Hashable, text: str, is_call: bool) -> str:
        """Shows a text that has grown since the last piece, or is another one."""
        growing = self._growing.get(place)
        if growing is None or not text.startswith(growing.said):
            growing = self._growing[place] = self._restorer(is_call=is_call)
        growing.feed(text[len(growing.said) :])
        return growing.shown

    def _copy(self, response: Any, show: Show) -> Any:
        """Copies a response: ``delta`` and what is public are as before."""
        update: dict[str, Any]
        restored = self._exchange.restore_fields
        if isinstance(response, llms.ChatResponse):
            message = response.message
            blocks = restored(message.blocks, _WORDS, "blocks", show=show)
            kept = restored(message.additional_kwargs, (), "kept", show=show)
            message = message.model_copy(update={"blocks": blocks, "additional_kwargs": kept})
            update, text = {"message": message}, message.content or ""
        else:
            text = show("text", response.text, False)
            kept = restored(response.additional_kwargs, (), "kept", show=show)
            update = {"text": text, "additional_kwargs": kept}
        if self._structured and isinstance(response.raw, BaseModel):
            update["raw"] = type(response.raw).model_validate_json(text)
        return response.model_copy(update=update)


def _with(piece: Any, words: str | None, thought: str) -> Any:
    more = {name: value for name, value in piece.additional_kwargs.items() if name != _THOUGHTS}
    if thought:
        more[_THOUGHTS] = thought
    return piece.model_copy(update={"delta": words, "additional_kwargs": more})


def _forms(response: llms.ChatResponse | llms.CompletionResponse) -> list[Message]:
    """Returns what an answer may be when it is sent again: chat engines keep stripped text."""
    message = (
        response.message
        if isinstance(response, llms.ChatResponse)
        else llms.ChatMessage(response.text)
    )
    own = answer_of(message)
    stripped = Message(role="assistant", texts=((message.content or "").strip(),))
    return [own, stripped] if own.words() != stripped.words() else [own]


@dataclass(frozen=True, kw_only=True)
class Transcript:
    """One conversation of a session, with the settings of a :class:`DPLLM`."""

    session: dp.Session
    system: System
    templates: tuple[Template, ...]
    conversation: str | None
    tools: Tools
    inner: LLM

    def call(self, private: Any, *, is_chat: bool) -> AnswerCall[Any]:
        """Releases messages, or a prompt, which is a new event at every call."""
        work = self._messages if is_chat else self._prompt
        exchange, sent = guarded(lambda: work(in_block(self.session), private))
        return AnswerCall(exchange, self.inner, sent)

    def _prompt(self, session: dp.Session, prompt: str) -> tuple[Exchange, str]:
        parts = parts_of(self.templates, "user", prompt)
        once = [Message(role="user", texts=(value,), id=ONCE) for value in parts.values]
        exchange = session.exchange(once, conversation=self.conversation, tools=self.tools)
        return exchange, parts.joined(message.text for message in exchange.sent)

    def _messages(
        self, session: dp.Session, messages: Sequence[llms.ChatMessage]
    ) -> tuple[Exchange, list[llms.ChatMessage]]:
        """Releases messages; those before the history, which memories rewrite, stand aside."""
        read = [read_message(m, f"message {k}", self.templates) for k, m in enumerate(messages)]
        told = [printed(r.message) if session.restores else r.message for r in read]
        if self.system == "pass":
            told = [replace(m, public=m.public or m.role == "system") for m in told]
        private = [place for place, message in enumerate(told) if not message.public]
        leading = list(takewhile(lambda place: told[place].role == "system", private))
        begun = [told[place] for place in private[len(leading) :]][:1]
        start = session.digest(begun[0].role, begun[0].event.text) if begun else ""
        for number, place in enumerate(leading):
            told[place] = replace(told[place], aside=True, id=f"{start} {number}")
        exchange = session.exchange(told, conversation=self.conversation, tools=self.tools)
        return exchange, copies_of(read, exchange.sent)
