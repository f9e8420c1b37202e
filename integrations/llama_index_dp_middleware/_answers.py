"""Answers of a remote model: shown with the originals of pseudonyms, and remembered."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    ContentBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from pydantic import BaseModel

from dp_middleware.conversation.boundary import guarded
from dp_middleware.conversation.exchange import RESTORATION, Exchange, Restorer
from dp_middleware.conversation.messages import Message
from dp_middleware.errors import ParameterError
from dp_middleware.unrecorded.streams import aclosing, closing
from llama_index_dp_middleware._messages import answer_of

T = TypeVar("T")
Response = TypeVar("Response", ChatResponse, CompletionResponse)

Show = Callable[[Hashable, str, bool], str]
"""Shows a text at a named place of an answer; ``True``: it is the arguments of a call."""

_ARGUMENTS = ("arguments", "args", "partial_json")  # of a call, in what providers keep besides
_THOUGHTS = "thinking_delta"


@dataclass(frozen=True, kw_only=True)
class Call(Generic[T]):
    """A call of a model.

    Attributes:
        exchange: What goes out for it.
        structured: Whether answers are objects: JSON in their text, ``raw`` made of it.
        model: Answers.
        sent: To the model.
    """

    exchange: Exchange
    structured: bool
    model: Any
    sent: T

    def note(self, response: Response) -> Response:
        """Notes an answer, which may go out again, and returns what is shown of it."""
        shown = Answer(self.exchange, self.structured).whole(response)
        self._note(response, shown, left=False)
        return self._signed(shown)

    def note_pieces(
        self, pieces: Generator[Response, None, None]
    ) -> Generator[Response, None, None]:
        """As :meth:`note`, for an answer in pieces, the last of which has all of it.

        One that is left is noted as far as it went, and its connection closed.
        """
        answer = Answer(self.exchange, self.structured)
        with closing(pieces), self._noting(answer):
            for piece in pieces:
                yield self._signed(answer.feed(piece))
            for rest in answer.close():
                yield self._signed(rest)

    async def anote_pieces(
        self, pieces: AsyncGenerator[Response, None]
    ) -> AsyncGenerator[Response, None]:
        """As :meth:`note_pieces`."""
        answer = Answer(self.exchange, self.structured)
        async with aclosing(pieces):
            with self._noting(answer):
                async for piece in pieces:
                    yield self._signed(answer.feed(piece))
                for rest in answer.close():
                    yield self._signed(rest)

    def _signed(self, response: Response) -> Response:
        """Puts what was released and charged into ``additional_kwargs["dp"]``."""
        if receipt := self.exchange.receipt.to_dict():
            response.additional_kwargs["dp"] = receipt
        return response

    @contextmanager
    def _noting(self, answer: Answer) -> Iterator[None]:
        """Notes the last piece; where the reader went, garbage is collected: it never waits."""
        left = False
        try:
            yield
        except GeneratorExit:
            left = True
            raise
        finally:
            if answer.last is not None:
                self._note(*answer.last, left=left)

    def _note(self, remote: Response, shown: Response, *, left: bool) -> None:
        with suppress(ParameterError):  # an answer that cannot be sent again
            for own, other in zip(_forms(remote), _forms(shown), strict=True):
                self.exchange.note(own, other, left=left)


def _forms(response: ChatResponse | CompletionResponse) -> list[Message]:
    """Returns what an answer may be when it is sent again: chat engines keep stripped text."""
    message = response.message if isinstance(response, ChatResponse) else ChatMessage(response.text)
    own = answer_of(message)
    stripped = Message(role="assistant", texts=((message.content or "").strip(),))
    return [own, stripped] if own.words() != stripped.words() else [own]


class Answer:
    """Shows one answer, whole or in pieces; what could still become a pseudonym is held back.

    Args:
        exchange: As of :class:`Call`, and so the other.

    Attributes:
        last: The last piece, and what was shown of it.
    """

    def __init__(self, exchange: Exchange, structured: bool) -> None:
        self._exchange, self._structured = exchange, structured
        self._growing: dict[Hashable, tuple[Restorer, str, str]] = {}  # with what was said, shown
        self._words, self._thoughts = self._restorer(), self._restorer()  # of deltas
        self.last: tuple[Any, Any] | None = None

    def whole(self, response: Response) -> Response:
        """Returns a copy of an answer with the originals."""
        if not self._exchange.restores:
            return response
        shown: Response = guarded(self._copy, response, self._complete, what=RESTORATION)
        return shown

    def feed(self, piece: Response) -> Response:
        """Returns what is shown of a piece."""
        shown = piece
        if self._exchange.restores:
            shown = guarded(self._feed, piece, what=RESTORATION)
        self.last = piece, shown
        return shown

    def close(self) -> list[Any]:
        """Returns a last piece, which has the whole answer, if anything was held back."""
        return [] if self.last is None else guarded(self._close, *self.last, what=RESTORATION)

    def _feed(self, piece: Any) -> Any:
        copy = self._copy(piece, self._grown)
        words = None if piece.delta is None else self._words.feed(piece.delta)
        thought = self._thoughts.feed(piece.additional_kwargs.get(_THOUGHTS) or "")
        return _with(copy, words, thought)

    def _close(self, piece: Any, shown: Any) -> list[Any]:
        words, thought, whole = self._words.close(), self._thoughts.close(), self.whole(piece)
        said, before = (getattr(x, "message", None) or x.text for x in (whole, shown))
        if not (words or thought) and said == before:
            return []
        self.last = piece, _with(whole, words, thought)
        return [self.last[1]]

    def _restorer(self, *, is_call: bool = False) -> Restorer:
        return self._exchange.restorer(json=is_call or self._structured, shown=not is_call)

    def _complete(self, place: Hashable, text: str, is_call: bool) -> str:
        restorer = self._restorer(is_call=is_call)
        return restorer.feed(text) + restorer.close()

    def _grown(self, place: Hashable, text: str, is_call: bool) -> str:
        """Shows a text that has grown since the last piece, or is another one."""
        key = place, is_call  # a place may hold a text first, and then a call
        restorer, said, shown = self._growing.get(key) or (None, "", "")
        if restorer is None or not text.startswith(said):
            restorer, said, shown = self._restorer(is_call=is_call), "", ""
        shown += restorer.feed(text[len(said) :])
        self._growing[key] = restorer, text, shown
        return shown

    def _copy(self, response: Any, show: Show) -> Any:
        """Copies a response: ``delta`` and what is public are as before."""
        update: dict[str, Any]
        if isinstance(response, ChatResponse):
            message = self._message(response.message, show)
            update, text = {"message": message}, message.content or ""
        else:
            text = show("text", response.text, False)
            update = {
                "text": text,
                "additional_kwargs": self._kept(response.additional_kwargs, show),
            }
        if self._structured and isinstance(response.raw, BaseModel):
            update["raw"] = type(response.raw).model_validate_json(text)
        return response.model_copy(update=update)

    def _message(self, message: ChatMessage, show: Show) -> ChatMessage:
        blocks = [self._block(block, place, show) for place, block in enumerate(message.blocks)]
        kept = self._kept(message.additional_kwargs, show)
        return message.model_copy(update={"blocks": blocks, "additional_kwargs": kept})

    def _block(self, block: ContentBlock, place: int, show: Show) -> ContentBlock:
        if isinstance(block, TextBlock):
            return block.model_copy(update={"text": show(place, block.text, False)})
        if isinstance(block, ThinkingBlock):
            return block.model_copy(
                update={"content": block.content and show(place, block.content, False)}
            )
        if isinstance(block, ToolCallBlock):
            arguments = self._arguments(place, block.tool_name, block.tool_kwargs, show)
            return block.model_copy(update={"tool_kwargs": arguments})
        return block

    def _kept(
        self, value: Any, show: Show, place: tuple[Hashable, ...] = (), tool: str = ""
    ) -> Any:
        """Copies what a provider keeps besides: of calls of tools the arguments are restored."""
        if place and place[-1] in _ARGUMENTS:
            return self._arguments(place, tool, value, show)
        if isinstance(value, BaseModel):
            fields = {name: getattr(value, name) for name in type(value).model_fields}
            return value.model_copy(update=self._kept(fields, show, place, tool))
        if isinstance(value, dict):
            tool = str(value.get("name") or value.get("tool_name") or tool)
            return {k: self._kept(part, show, (*place, k), tool) for k, part in value.items()}
        if isinstance(value, list):
            return [self._kept(part, show, (*place, k), tool) for k, part in enumerate(value)]
        return value

    def _arguments(self, place: Hashable, tool: str, value: Any, show: Show) -> Any:
        if not self._exchange.gives_originals(tool):
            return value
        if isinstance(value, str):
            return show(place, value, True)
        return self._exchange.restore_value(value, shown=False)


def _with(piece: Any, words: str | None, thought: str) -> Any:
    """Returns the piece with what is new in it, in words and in thoughts."""
    more = {name: value for name, value in piece.additional_kwargs.items() if name != _THOUGHTS}
    if thought:
        more[_THOUGHTS] = thought
    return piece.model_copy(update={"delta": words, "additional_kwargs": more})
