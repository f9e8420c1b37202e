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
Pieces = TypeVar("Pieces", Generator[Any, None, None], AsyncGenerator[Any, None])
Method = TypeVar("Method", bound=Callable[..., Any])


def unspanned(method: Method) -> Method:
    """Marks a method that takes raw text, so that LlamaIndex makes no span of it.

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
    """Calls a function in :func:`unrecorded`."""
    with unrecorded():
        return function(*args, **kwargs)


async def acall_silently(function: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
    """Awaits a coroutine function in :func:`unrecorded`."""
    with unrecorded():
        return await function(*args, **kwargs)


def _silent_pieces(pieces: Pieces) -> Pieces:
    """The items of a generator; its steps run in :func:`unrecorded`, the caller's do not."""
    with unrecorded():
        return cast(Pieces, carried(pieces))


def _watch() -> None:
    skip_unrecorded()
    for kind in (DispatcherSpanMixin, IngestionPipeline):
        carry(kind)


def _silent(name: str) -> Any:
    """Makes a method of :class:`QuietLLM` that runs its base class's unrecorded."""
    wrap: Callable[[Any], Any] = _silent_pieces if "stream" in name else lambda result: result

    def inherited(self: QuietLLM, args: tuple[Any, ...]) -> Any:
        model = self.answering(args[0]) if "structured" in name and args else self
        return getattr(super(QuietLLM, model), name)

    @unspanned
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return wrap(call_silently(inherited(self, args), *args, **kwargs))

    @unspanned
    async def amethod(self: Any, *args: Any, **kwargs: Any) -> Any:
        return wrap(await acall_silently(inherited(self, args), *args, **kwargs))

    return amethod if name.startswith("a") else method


class QuietLLM(FunctionCallingLLM):
    """Runs what takes raw arguments of prompts or messages of users unrecorded.

    These put the raw arguments into spans, events and callbacks. The inner model's call, though it
    has released text only, is unrecorded there too; record ``chat`` and ``complete`` instead.
    """

    def answering(self, output: Any) -> QuietLLM:
        """Returns the model for answers that are objects of a class, which it makes by a call."""
        return self

    predict = _silent("predict")
    apredict = _silent("apredict")
    stream = _silent("stream")
    astream = _silent("astream")
    structured_predict = _silent("structured_predict")
    astructured_predict = _silent("astructured_predict")
    stream_structured_predict = _silent("stream_structured_predict")
    astream_structured_predict = _silent("astream_structured_predict")
    predict_and_call = _silent("predict_and_call")
    apredict_and_call = _silent("apredict_and_call")
