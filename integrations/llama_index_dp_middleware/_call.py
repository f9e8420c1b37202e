"""What a model answered, and what is shown and remembered of it."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse

from dp_middleware._quiet import aclosing, closing
from dp_middleware.conversation.messages import Message
from dp_middleware.errors import ParameterError
from llama_index_dp_middleware._messages import answer_of
from llama_index_dp_middleware._restoring import Response, Restoring

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Call(Generic[T]):
    """A call of the remote model.

    Attributes:
        restoring: Of the exchange, which remembers what is answered.
        model: What answers: the remote model, or a fixed reply.
        sent: To the remote model.
    """

    restoring: Restoring
    model: Any
    sent: T

    def note(self, response: Response) -> Response:
        """Remember an answer of the remote model, which may go out again; what is shown of it."""
        shown = self.restoring.whole(response)
        self._note(response, shown, left=False)
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
        """With what was released and charged in ``additional_kwargs["dp"]``."""
        exchange = self.restoring.exchange
        if exchange is not None and (receipt := exchange.receipt.to_dict()):
            response.additional_kwargs["dp"] = receipt
        return response

    @contextmanager
    def _noting_last(self) -> Iterator[deque[Any]]:
        """Notes the last piece that was put there, with what was shown of it.

        If the reader went, garbage may just be collected: nothing may be waited for.
        """
        seen: deque[Any] = deque(maxlen=1)
        left = False
        try:
            yield seen
        except GeneratorExit:
            left = True
            raise
        finally:
            for remote, shown in seen:
                self._note(remote, shown, left=left)

    def _note(self, remote: Response, shown: Response, *, left: bool) -> None:
        if self.restoring.exchange is None:
            return
        with suppress(ParameterError):  # an answer that cannot be sent again
            for own, other in zip(_forms(remote), _forms(shown), strict=True):
                self.restoring.exchange.note(own, other, left=left)


def _forms(response: ChatResponse | CompletionResponse) -> list[Message]:
    """What an answer may be when it is sent again: streaming chat engines keep stripped text."""
    message = response.message if isinstance(response, ChatResponse) else ChatMessage(response.text)
    own = answer_of(message)
    stripped = Message(role="assistant", texts=((message.content or "").strip(),))
    return [own, stripped] if own.words() != stripped.words() else [own]
