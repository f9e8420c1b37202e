"""Steps on raw text that stay local: no span, event, callback handler or log sees them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any, TypeVar

from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index_instrumentation.dispatcher import DISPATCHER_SPAN_DECORATED_ATTR

from dp_middleware import _quiet
from dp_middleware.models.recorders import refuse_recorders

T = TypeVar("T")
Pieces = TypeVar("Pieces", Generator[Any, None, None], AsyncGenerator[Any, None])
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
    """Keeps what runs in this block from LlamaIndex's recorders, from tracers and vendors' logs.

    For what stands above a component and records raw text itself: an agent, a workflow, an
    ingestion pipeline, a query engine over a raw index. Await, read streams and shut down inside
    the block: it holds for its context and the tasks that it makes, not for threads and processes
    of your own nor for what runs after it. Call :func:`quiet_recorders` before, once.

    Raises:
        ParameterError: A recorder of LlamaIndex is there that was not made discreet.

    Example:
        >>> with unrecorded():  # doctest: +SKIP
        ...     answer = await agent.run(user_msg="raw", memory=memory)
    """
    refuse_recorders()
    with _quiet.unrecorded():
        yield


def call_silently(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call a function in :func:`unrecorded`."""
    with unrecorded():
        return function(*args, **kwargs)


async def acall_silently(function: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
    """Await a coroutine function in :func:`unrecorded`."""
    with unrecorded():
        return await function(*args, **kwargs)


def silent_pieces(pieces: Pieces) -> Pieces:
    """The items of a generator; its steps run in :func:`unrecorded`, the caller's do not."""
    is_async = hasattr(pieces, "__anext__")
    take: Any = _quiet.apieces_unrecorded if is_async else _quiet.pieces_unrecorded
    steps: Pieces = take(copy_context(), pieces)
    return steps


def _silent(name: str, wrap: Callable[[Any], Any] = lambda result: result) -> Any:
    """A method of :class:`QuietLLM` that runs its base class's unrecorded."""

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
    stream = _silent("stream", silent_pieces)
    astream = _silent("astream", silent_pieces)
    structured_predict = _silent("structured_predict")
    astructured_predict = _silent("astructured_predict")
    stream_structured_predict = _silent("stream_structured_predict", silent_pieces)
    astream_structured_predict = _silent("astream_structured_predict", silent_pieces)
    predict_and_call = _silent("predict_and_call")
    apredict_and_call = _silent("apredict_and_call")
