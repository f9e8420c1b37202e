"""Generators and coroutines that an unrecorded call returns stay unrecorded, to their end.

Python runs their steps in the context of whoever takes the step, not of the call that made them.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from typing import Any, TypeVar, cast
from weakref import WeakSet

from dp_middleware.unrecorded import recording
from dp_middleware.unrecorded.streams import aclose_all, close, close_all, layers, left_by

T = TypeVar("T")

_STREAMS = (Generator, AsyncGenerator, Coroutine)
_LAZY = ("stream", "transform", "query", "synthesize")  # in names of methods that may run later
_LATER = ("Iterator", "Iterable", "Generator", "Await", "Coroutine")  # in their return types
_seen: WeakSet[type] = WeakSet()


def carry(base: type) -> None:
    """Carry the results of a class's public methods, where they are called unrecorded.

    See :func:`carried`. The same for the subclasses that exist by now. Recorded calls run as they
    did.
    """
    subclass: type
    for subclass in base.__subclasses__():
        carry(subclass)
    if base not in _seen:
        for name, method in list(vars(base).items()):
            if not name.startswith("_") and _is_lazy(name, method):
                recording.wrap_once(base, name, _Carrying)
        _seen.add(base)


def carried(result: Any) -> Any:
    """The same generator or coroutine, but its steps run in the context of this call.

    In another object, such as a response, the streams in its fields are replaced; in a list, a
    tuple or the values of a dict, the items that are streams and the streams in the items' fields.
    A tuple that holds a stream is made anew; any other object comes back itself.
    """
    if isinstance(result, _STREAMS):
        return _carried_stream(result)
    if isinstance(result, tuple):
        items = [_carried_item(x) for x in result]
        is_same = all(new is old for new, old in zip(items, result, strict=True))
        return result if is_same else tuple.__new__(type(result), items)
    if isinstance(result, list | dict):
        for key, item in [*(result.items() if isinstance(result, dict) else enumerate(result))]:
            if (new := _carried_item(item)) is not item:
                result[key] = new
        return result
    return _carried_item(result)


def _carried_item(item: Any) -> Any:
    if isinstance(item, _STREAMS):
        return _carried_stream(item)
    _carry_values(getattr(item, "__dict__", None))
    for slot in _slots_of(type(item)):
        try:
            value = slot.__get__(item)
        except AttributeError:  # the slot is empty
            continue
        if isinstance(value, _STREAMS):
            slot.__set__(item, _carried_stream(value))
        _carry_values(value)  # pydantic keeps private and extra fields in slots
    return item


def _carry_values(fields: Any) -> None:
    if isinstance(fields, dict):
        fields |= {k: _carried_stream(x) for k, x in fields.items() if isinstance(x, _STREAMS)}


def _slots_of(kind: type) -> list[types.MemberDescriptorType]:
    declaring = [vars(base) for base in kind.__mro__ if "__slots__" in vars(base)]
    members = [member for attributes in declaring for member in attributes.values()]
    return [member for member in members if isinstance(member, types.MemberDescriptorType)]


def _carried_stream(stream: Any) -> Any:
    context = copy_context()
    if isinstance(stream, Generator):
        return _pieces(stream, context)
    if isinstance(stream, AsyncGenerator):
        return _apieces(stream, context)
    return _result(stream, context)


def _is_lazy(name: str, method: Any) -> bool:
    kinds = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    is_lazy = any(word in name for word in _LAZY) or any(is_kind(method) for is_kind in kinds)
    returned = str(getattr(method, "__annotations__", {}).get("return", ""))
    return inspect.isfunction(method) and (is_lazy or any(word in returned for word in _LATER))


class _Carrying:
    """A method that looks like the one it calls, to ``inspect`` and to frameworks that ask it."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method

    def __getattr__(self, name: str) -> Any:
        return getattr(self._method, name)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, instance: Any, /, *args: Any, **kwargs: Any) -> Any:
        result = self._method(instance, *args, **kwargs)
        return carried(result) if recording.is_unrecorded() else result


class _Steps(Generator[Any, Any, Any]):
    """A generator for ``yield from``, which takes the steps of another one in a context."""

    def __init__(self, steps: Any, context: Context) -> None:
        self._steps = steps
        self._context = context

    def send(self, value: Any) -> Any:
        return self._take(self._steps.send, value)

    def throw(self, *error: Any) -> Any:
        return self._take(self._steps.throw, *error)

    def close(self) -> None:
        self._context.run(close, self._steps)

    def _take(self, step: Callable[..., Any], *args: Any) -> Any:
        return self._context.run(step, *args)


class _Pieces(_Steps):
    """Of a generator; at its end, or after an error, the generators inside of it are closed."""

    def _take(self, step: Callable[..., Any], *args: Any) -> Any:
        before = layers(self._steps)  # at its end, its frame no longer tells
        try:
            return super()._take(step, *args)
        except BaseException as error:
            self._context.run(close_all, left_by(error, before))
            raise


class _Awaited(_Steps):
    """Of an awaitable."""

    def _take(self, step: Callable[..., Any], *args: Any) -> Any:
        with _hidden_from_the_loop(self._context):
            return super()._take(step, *args)


@contextmanager
def _hidden_from_the_loop(context: Context) -> Iterator[None]:
    """Hide from the event loop which asynchronous generators begin in this block.

    At its own end the loop would close them, in another context; the code that began them does.
    """
    hooks: Any = sys.get_asyncgen_hooks()
    begun, finalizer = hooks

    def finalize(generator: AsyncGenerator[Any, Any]) -> None:
        context.copy().run(finalizer, generator)  # a copy, as it may happen in the middle of a step

    sys.set_asyncgen_hooks(None, finalizer and finalize)
    try:
        yield
    finally:
        sys.set_asyncgen_hooks(begun, finalizer)


def _pieces(pieces: Generator[Any, Any, T], context: Context) -> Generator[Any, Any, T]:
    returned: T = yield from _Pieces(pieces, context)
    return returned


async def _apieces(pieces: AsyncGenerator[Any, Any], context: Context) -> AsyncGenerator[Any, Any]:
    step: Callable[[Any], Awaitable[Any]] = pieces.asend
    value: Any = None
    try:
        while True:
            piece = await _atake(pieces, step, value, context)
            try:
                step, value = pieces.asend, (yield piece)
            except GeneratorExit:
                raise
            except BaseException as error:
                step, value = pieces.athrow, error
    except StopAsyncIteration:
        return
    finally:
        await within(context, aclose_all(layers(pieces)))


async def _atake(
    pieces: AsyncGenerator[Any, Any],
    step: Callable[[Any], Awaitable[Any]],
    value: Any,
    context: Context,
) -> Any:
    """Take a step, as :class:`_Pieces` does."""
    before = layers(pieces)
    try:
        with _hidden_from_the_loop(context):
            taken = step(value)
        return await within(context, taken)
    except BaseException as error:
        await within(context, aclose_all(left_by(error, before)))
        raise


async def _result(work: Awaitable[Any], context: Context) -> Any:
    return context.run(carried, await within(context, work))


@types.coroutine
def within(context: Context, work: Awaitable[T]) -> Generator[Any, Any, T]:
    """Await in a context, but in the caller's task, which cancel scopes and timeouts keep to."""
    return cast(T, (yield from _Awaited(work.__await__(), context)))
