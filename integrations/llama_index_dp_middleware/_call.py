"""What a model answered, and what is shown and remembered of it."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse

from dp_middleware.conversation.session import Item
from dp_middleware.errors import ParameterError
from dp_middleware.unrecorded.streams import aclosing, closing
from llama_index_dp_middleware._messages import words_of
from llama_index_dp_middleware._restoring import Response, Restoring

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Call(Generic[T]):
    """A call of the remote model.

    Attributes:
        restoring: Of the session that released what is sent, and remembers what is answered.
        model: What answers: the remote model, or a fixed reply.
        sent: To the remote model.
        receipt: What was released and charged, for ``additional_kwargs["dp"]`` of the answer.
    """

    restoring: Restoring
    model: Any
    sent: T
    receipt: dict[str, Any]

    def note(self, response: Response) -> Response:
        """Remember an answer of the remote model, which may go out again; what is shown of it."""
        shown = self.restoring.whole(response)
        self._note(response, shown, self.restoring.session.note_remote)
        return self._signed(shown)

    def note_pieces(
        self, pieces: Generator[Response, None, None]
    ) -> Generator[Response, None, None]:
        """As :meth:`note`, for an answer in pieces, the last of which has all of it.

        One that is left is noted as far as it went, and its connection closed.
        """
        shown = self.restoring.pieces()
        with closing(pieces), self._noting_last() as seen:
            for piece in pieces:
                seen.append((piece, shown.feed(piece)))
                yield self._signed(seen[-1][1])
            for rest in shown.close():
                seen.append((seen[-1][0], rest))
                yield self._signed(rest)

    async def anote_pieces(
        self, pieces: AsyncGenerator[Response, None]
    ) -> AsyncGenerator[Response, None]:
        """As :meth:`note_pieces`."""
        shown = self.restoring.pieces()
        async with aclosing(pieces):
            with self._noting_last() as seen:
                async for piece in pieces:
                    seen.append((piece, shown.feed(piece)))
                    yield self._signed(seen[-1][1])
                for rest in shown.close():
                    seen.append((seen[-1][0], rest))
                    yield self._signed(rest)

    def _signed(self, response: Response) -> Response:
        if self.receipt:
            response.additional_kwargs["dp"] = self.receipt
        return response

    @contextmanager
    def _noting_last(self) -> Iterator[deque[Any]]:
        """Notes the last piece that was put there, with what was shown of it.

        If the reader went, garbage may just be collected: nothing may be waited for.
        """
        seen: deque[Any] = deque(maxlen=1)
        note: Callable[..., None] = self.restoring.session.note_remote
        try:
            yield seen
        except GeneratorExit:
            note = self._note_left
            raise
        finally:
            for remote, shown in seen:
                self._note(remote, shown, note)

    def _note_left(self, _: None, text: str, **options: Any) -> None:
        self.restoring.session.note_left(text, **options)

    def _note(self, remote: Response, shown: Response, note: Callable[..., None]) -> None:
        """The remote words are known as such, and by what was shown in their place.

        That is noted as an answer at the beginning of the conversation: so it is known wherever
        it stands, also where a memory has dropped or rewritten what was before it.
        """
        conversation = self.restoring.conversation
        with suppress(ParameterError):  # an answer that cannot be sent again
            forms = zip(_forms(remote), _forms(shown), strict=True)
            for words, other in dict.fromkeys(forms):
                note(None, words, conversation=conversation)
                if other != words:
                    place: list[Item] = [(None, "assistant", other)]
                    note(None, words, conversation=conversation, transcript=place)


def _forms(response: ChatResponse | CompletionResponse) -> list[str]:
    """What an answer may be when it is sent again: streaming chat engines keep stripped text."""
    message = response.message if isinstance(response, ChatResponse) else ChatMessage(response.text)
    return [words_of(message), words_of(ChatMessage((message.content or "").strip()))]
