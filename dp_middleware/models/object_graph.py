"""All that an object is made of."""

from __future__ import annotations

import gc
import logging
import sys
import weakref
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import (
    CodeType,
    FrameType,
    FunctionType,
    MethodType,
    ModuleType,
    NoneType,
    TracebackType,
)
from typing import Any

from dp_middleware.errors import ParameterError
from dp_middleware.models.origin import COMPUTES, is_foreign, is_in, is_method, is_open
from dp_middleware.models.parts import by_class, one_walk

_MOST = 10_000_000  # objects
_DATA = frozenset(  # by id: a metaclass may say that its classes equal these
    map(id, (str, bytes, bytearray, int, float, complex, bool, NoneType, range, slice))
)
_CODE = (FunctionType, staticmethod, classmethod, property)
_ENDS = (ModuleType, CodeType, FrameType, TracebackType, logging.Logger, AbstractEventLoop)
_WRITTEN = frozenset(  # what Python writes into a class that refers to its surroundings
    {"__annotations__", "__dataclass_fields__", "__orig_bases__", "__parameters__", "__signature__"}
)


def objects_in(root: object, *, whole: Callable[[object], bool]) -> Iterator[object]:
    """The object and all that it holds, each once, nearest first, plain data left out.

    Follows fields, slots, pydantic's private attributes, containers and their iterators, bound
    methods, partials, closures, defaults of arguments, generators, weak references, finalizers,
    context variables, and the attributes of classes and metaclasses of your own. What is behind a
    weak proxy comes in its place.
    Does not follow the globals of functions, installed classes, loggers, event loops and modules,
    nor what packages of numbers and tokenizers hold.

    Args:
        root: Anything; cycles are fine.
        whole: What is judged as one thing and not looked into.

    Raises:
        ParameterError: It holds more than ten million objects.
    """
    seen, waiting = dict[int, object](), deque([root])  # what was seen lives on: ids stay apart
    while waiting:
        each = waiting.popleft()
        if id(each) in seen:
            continue
        if len(seen) == _MOST:
            raise ParameterError(f"expected an object that holds at most {_MOST} others, got more")
        seen[id(each)] = each
        if issubclass(type(each), weakref.ProxyTypes):
            waiting += _behind(each)
            continue
        yield each
        if not whole(each):
            parts = _parts(each)
            if not _DATA.issuperset(map(id, map(type, parts))):
                waiting += [part for part in parts if id(type(part)) not in _DATA]
            if is_open(type(each)):
                waiting.append(type(each))


@one_walk()
def reachable(root: object, is_found: Callable[[object], bool]) -> list[Any]:
    """Objects inside of ``root``, itself included, that are looked for; not those inside of them.

    Raises:
        ParameterError: As from :func:`objects_in`.
    """
    return [each for each in objects_in(root, whole=is_found) if is_found(each)]


def _parts(x: Any) -> list[Any]:
    kind = type(x)
    if _is_end(kind):
        return []
    if issubclass(kind, type):
        return _attributes(x)
    if kind is FunctionType:
        held = (x.__closure__, x.__defaults__, x.__kwdefaults__, x.__dict__)
        return [each for each in held if each]
    is_method = kind is MethodType or kind.__name__ == "BoundFunctionWrapper"  # wrapt's
    if is_method and is_foreign(owner := getattr(x, "__self__", None)):
        return [owner]
    if kind is dict and _is_modules(x):
        return []
    if kind is ContextVar:
        return [*gc.get_referents(x), x.get(None)]
    if issubclass(kind, weakref.finalize):
        return [x.peek()]
    if issubclass(kind, weakref.ReferenceType):
        return [*gc.get_referents(x), x()]
    return gc.get_referents(x)


def _attributes(x: type) -> list[Any]:
    """Of a class, its bases and its metaclass, where they are open."""
    meta: type = type(x)
    kinds = [each for each in (*x.__mro__, *meta.__mro__) if is_open(each)]
    items = [item for each in kinds for item in vars(each).items()]
    return [
        value
        for name, value in items
        if name not in _WRITTEN
        and not name.startswith("__pydantic_")
        and (name[:2] != "__" or not issubclass(type(value), _CODE) or is_method(name, value))
    ]


def _behind(proxy: Any) -> list[Any]:
    try:
        return [proxy.__repr__.__self__]
    except ReferenceError:  # nothing any more
        return []


def _is_modules(x: dict[Any, Any]) -> bool:
    """Whether it is the namespace of a module, which a function or a validator refers to."""
    name = x.get("__name__")
    return isinstance(name, str) and getattr(sys.modules.get(name), "__dict__", None) is x


@by_class
def _is_end(kind: type) -> bool:
    return issubclass(kind, _ENDS) or is_in(kind.__module__, COMPUTES)
