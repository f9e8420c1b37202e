"""What begins in an unrecorded call and runs after it: generators and coroutines stay unrecorded.

Python runs their steps in the context of whoever takes the step, not of the call that made them.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextvars import Context, copy_context
from typing import Any, TypeVar, cast
from weakref import WeakSet

from dp_middleware.frameworks import recording

T = TypeVar("T")

_END: Any = object()
_LAZY = ("stream", "query", "synthesize")  # in names of methods that may return what runs later
_seen: WeakSet[type] = WeakSet()


def carry(base: type) -> None:
    """Make what a class's public methods return in an unrecorded call run unrecorded to its end.

    The same for its subclasses that exist by now. Outside of unrecorded calls nothing changes.
    """
    kind: type
    for kind in base.__subclasses__():
        carry(kind)
    if base not in _seen:
        for name, method in list(vars(base).items()):
            if not name.startswith("_") and _is_lazy(name, method):
                recording.wrap_once(base, name, _Carrying)
        _seen.add(base)


def carried(result: Any) -> Any:
    """A generator or coroutine whose steps run in the context of this call; else the same.

    Of another object, such as a response, the generators that it holds.
    """
    context = copy_context()
    if isinstance(result, Generator):
        return _pieces(result, context)
    if isinstance(result, AsyncGenerator):
        return _apieces(result, context)
    if isinstance(result, Coroutine):
        return _result(result, context)
    kept = getattr(result, "__dict__", {})
    kept |= {k: carried(x) for k, x in kept.items() if isinstance(x, Generator | AsyncGenerator)}
    return result


def _is_lazy(name: str, method: Any) -> bool:
    kinds = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    is_lazy = any(word in name for word in _LAZY) or any(is_kind(method) for is_kind in kinds)
    return inspect.isfunction(method) and is_lazy


class _Carrying:
    """A method that looks like the one it calls, to ``inspect`` and to frameworks that ask it."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method

    def __getattr__(self, name: str) -> Any:
        return getattr(self._method, name)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, instance: Any, *args: Any, **kwargs: Any) -> Any:
        result = self._method.__get__(instance, type(instance))(*args, **kwargs)
        return carried(result) if recording.is_unrecorded() else result


def _pieces(pieces: Generator[Any, Any, Any], context: Context) -> Generator[Any, None, None]:
    try:
        while (piece := context.run(next, pieces, _END)) is not _END:
            yield piece
    finally:
        context.run(pieces.close)


async def _apieces(pieces: AsyncGenerator[Any, Any], context: Context) -> AsyncGenerator[Any, None]:
    try:
        while (piece := await within(context, anext(pieces, _END))) is not _END:
            yield piece
    finally:
        await within(context, pieces.aclose())


async def _result(work: Awaitable[Any], context: Context) -> Any:
    return context.run(carried, await within(context, work))


@types.coroutine
def within(context: Context, work: Awaitable[T]) -> Generator[Any, Any, T]:
    """Await in a context, but in the caller's task, which cancel scopes and timeouts keep to."""
    steps: Any = work.__await__()
    step, value = steps.send, None
    while True:
        try:
            waited_for = context.run(step, value)
        except StopIteration as end:
            return cast(T, end.value)
        try:
            step, value = steps.send, (yield waited_for)
        except BaseException as error:
            step, value = steps.throw, error
