"""Steps on raw text that stay local: no span, event, callback handler or log sees them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from llama_index.core.ingestion import IngestionPipeline
from llama_index_instrumentation import DispatcherSpanMixin

from dp_middleware.frameworks import recording
from dp_middleware.frameworks.adapters.llama_index import skip_unrecorded
from dp_middleware.frameworks.carrying import carried, carry

T = TypeVar("T")


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


def silenced(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call a function in :func:`unrecorded`."""
    with unrecorded():
        return function(*args, **kwargs)


async def asilenced(function: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
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
