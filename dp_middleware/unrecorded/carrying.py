"""What begins in an unrecorded call and runs after it: generators and coroutines stay unrecorded.

Python runs their steps in the context of whoever takes the step, not of the call that made them.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from functools import partial
from typing import Any, TypeVar, cast
from weakref import WeakSet

from dp_middleware.unrecorded import recording
from dp_middleware.unrecorded.streams import aclose_all, close, close_all, layers, left_by

T = TypeVar("T")

_STREAMS = (Generator, AsyncGenerator, Coroutine)
_LAZY = ("stream", "transform", "query", "synthesize")  # in names of what may run later
_LATER = ("Iterator", "Iterable", "Generator", "Await", "Coroutine")  # in what it says it returns
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

    Of another object, such as a response, the streams in its fields; of a tuple, which is made anew
    if it holds any, of a list and of the values of a dict also those in the fields of their items.
    """
    if isinstance(result, _STREAMS):
        return _carried_stream(result)
    if isinstance(result, tuple):
        items = [_carried_item(x) for x in result]
        is_same = all(new is old for new, old in zip(items, result, strict=True))
        return result if is_same else tuple.__new__(type(result), items)
    if isinstance(result, list | dict):
        held = result.items() if isinstance(result, dict) else enumerate(result)
        for key, item in [*held]:
            if (new := _carried_item(item)) is not item:
                result[key] = new
        return result
    return _carried_item(result)


def _carried_item(item: Any) -> Any:
    if isinstance(item, _STREAMS):
        return _carried_stream(item)
    _carry_values(getattr(item, "__dict__", None))
    for slot in _slots_of(type(item)):
        held = _held(slot, item)
        if isinstance(held, _STREAMS):
            slot.__set__(item, _carried_stream(held))
        _carry_values(held)  # pydantic keeps private and extra fields in slots
    return item


def _carry_values(fields: Any) -> None:
    if isinstance(fields, dict):
        fields |= {k: _carried_stream(x) for k, x in fields.items() if isinstance(x, _STREAMS)}


def _slots_of(kind: type) -> list[types.MemberDescriptorType]:
    declaring = [vars(base) for base in kind.__mro__ if "__slots__" in vars(base)]
    members = [each for names in declaring for each in names.values()]
    return [each for each in members if isinstance(each, types.MemberDescriptorType)]


def _held(slot: types.MemberDescriptorType, item: Any) -> Any:
    try:
        return slot.__get__(item)
    except AttributeError:  # it was not set
        return None


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

    def __call__(self, instance: Any, *args: Any, **kwargs: Any) -> Any:
        result = self._method.__get__(instance, type(instance))(*args, **kwargs)
        return carried(result) if recording.is_unrecorded() else result


class _Steps(Generator[Any, Any, Any]):
    """Steps that are taken in a context, for ``yield from``, which hands on all that callers do."""

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
    """Of a generator; those inside of it do not outlive its end, whatever that is."""

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
        with _unknown_to_the_loop(self._context):
            return super()._take(step, *args)


@contextmanager
def _unknown_to_the_loop(context: Context) -> Iterator[None]:
    """The event loop does not learn of asynchronous generators that begin in this block.

    It would close them in a context of its own when it ends; who began them closes them.
    """
    begun, finalizer = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(None, finalizer and partial(_finalize, context, finalizer))
    try:
        yield
    finally:
        sys.set_asyncgen_hooks(begun, finalizer)


def _finalize(context: Context, finalizer: Callable[[Any], None], generator: Any) -> None:
    context.copy().run(finalizer, generator)  # a copy: it may be collected in the middle of a step


def _pieces(pieces: Generator[Any, Any, T], context: Context) -> Generator[Any, Any, T]:
    returned: T = yield from _Pieces(pieces, context)
    return returned


async def _apieces(pieces: AsyncGenerator[Any, Any], context: Context) -> AsyncGenerator[Any, Any]:
    step: Callable[[Any], Awaitable[Any]] = pieces.asend
    value: Any = None
    before: list[Any] = [pieces]
    try:
        while True:
            try:
                before = layers(pieces)
                with _unknown_to_the_loop(context):
                    taken = step(value)
                piece = await within(context, taken)
            except StopAsyncIteration:
                return
            try:
                step, value = pieces.asend, (yield piece)
            except GeneratorExit:
                raise
            except BaseException as error:
                step, value = pieces.athrow, error
    except GeneratorExit:
        raise
    except BaseException as error:
        before = left_by(error, before)
        raise
    finally:
        await within(context, aclose_all({id(x): x for x in (*layers(pieces), *before)}.values()))


async def _result(work: Awaitable[Any], context: Context) -> Any:
    return context.run(carried, await within(context, work))


@types.coroutine
def within(context: Context, work: Awaitable[T]) -> Generator[Any, Any, T]:
    """Await in a context, but in the caller's task, which cancel scopes and timeouts keep to."""
    return cast(T, (yield from _Awaited(work.__await__(), context)))
