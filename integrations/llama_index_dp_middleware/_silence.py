"""Steps on raw text that stay local: no span, event, callback handler or log sees them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index_instrumentation import DispatcherSpanMixin
from llama_index_instrumentation.dispatcher import DISPATCHER_SPAN_DECORATED_ATTR

from dp_middleware.models.adapters.llama_index import skip_unrecorded
from dp_middleware.unrecorded import recording
from dp_middleware.unrecorded.carrying import carried, carry

T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Any])


def unspanned(method: Method) -> Method:
    """Mark a method that takes raw text, so that LlamaIndex makes no span of it.

    Spans are put around methods when a class is created, and hold all arguments and the result;
    methods that have one already are left alone.
    """
    setattr(method, DISPATCHER_SPAN_DECORATED_ATTR, True)
    return method


@contextmanager
def unrecorded() -> Iterator[None]:
    """In this block LlamaIndex dispatches nothing, calls no callback handler and logs nothing.

    For what stands above a component and records raw text itself: an agent, a workflow, an
    ingestion pipeline, a query engine over a raw index. Holds, to their end, for what is called in
    the block, threads that start in it, work that it hands to pools, tasks and coroutines that it
    makes, and streams, wherever they are read; others are not touched.

    Example:
        >>> with unrecorded():  # doctest: +SKIP
        ...     answer = await agent.run(user_msg="raw", memory=memory)
    """
    recording.watch(_watch)
    with recording.unrecorded():
        yield


def call_silently(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call a function in :func:`unrecorded`."""
    with unrecorded():
        return function(*args, **kwargs)


async def acall_silently(function: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
    """Await a coroutine function in :func:`unrecorded`."""
    with unrecorded():
        return await function(*args, **kwargs)


def silent_pieces(pieces: Generator[T, None, None]) -> Generator[T, None, None]:
    """The items of a generator; its steps run in :func:`unrecorded`, the caller's do not."""
    with unrecorded():
        return cast(Generator[T, None, None], carried(pieces))


def asilent_pieces(pieces: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    """As :func:`silent_pieces`, for an asynchronous generator."""
    with unrecorded():
        return cast(AsyncGenerator[T, None], carried(pieces))


def _watch() -> None:
    skip_unrecorded()
    for kind in (DispatcherSpanMixin, IngestionPipeline):
        carry(kind)


class QuietLLM(FunctionCallingLLM):
    """Runs what takes raw arguments of prompts or messages of users unrecorded.

    These put the raw arguments into spans, events and callbacks. The inner model's call, though it
    has released text only, is unrecorded there too; record ``chat`` and ``complete`` instead.
    """

    @unspanned
    def predict(self, *args: Any, **kwargs: Any) -> str:
        return call_silently(super().predict, *args, **kwargs)

    @unspanned
    async def apredict(self, *args: Any, **kwargs: Any) -> str:
        return await acall_silently(super().apredict, *args, **kwargs)

    @unspanned
    def stream(self, *args: Any, **kwargs: Any) -> Any:
        return silent_pieces(call_silently(super().stream, *args, **kwargs))

    @unspanned
    async def astream(self, *args: Any, **kwargs: Any) -> Any:
        return asilent_pieces(await acall_silently(super().astream, *args, **kwargs))

    @unspanned
    def structured_predict(self, *args: Any, **kwargs: Any) -> Any:
        return call_silently(super().structured_predict, *args, **kwargs)

    @unspanned
    async def astructured_predict(self, *args: Any, **kwargs: Any) -> Any:
        return await acall_silently(super().astructured_predict, *args, **kwargs)

    @unspanned
    def stream_structured_predict(self, *args: Any, **kwargs: Any) -> Generator[Any, None, None]:
        return silent_pieces(call_silently(super().stream_structured_predict, *args, **kwargs))

    @unspanned
    async def astream_structured_predict(
        self, *args: Any, **kwargs: Any
    ) -> AsyncGenerator[Any, None]:
        pieces = await acall_silently(super().astream_structured_predict, *args, **kwargs)
        return asilent_pieces(pieces)

    @unspanned
    def predict_and_call(self, *args: Any, **kwargs: Any) -> Any:
        return call_silently(super().predict_and_call, *args, **kwargs)

    @unspanned
    async def apredict_and_call(self, *args: Any, **kwargs: Any) -> Any:
        return await acall_silently(super().apredict_and_call, *args, **kwargs)
