"""What an object holds: fields, slots, closures, what wrappers wrap. No bytecode, no globals."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections import deque
from collections.abc import Callable, Iterator
from types import BuiltinMethodType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

from dp_middleware.frameworks._model_parts import is_installed

_LEAVES = (ModuleType, str, bytes, bytearray, int, float, complex, type(None))


def reachable(root: Any, is_found: Callable[[Any], bool]) -> list[Any]:
    """Objects inside of ``root``, itself included, that are looked for.

    Args:
        root: A function, tool, retriever or any object.
        is_found: Whether an object is one of those; nothing inside it is looked at.
    """
    found: list[Any] = []
    for each, deeper in walk(root):
        if is_found(each):
            found.append(each)
        else:
            deeper()
    return found


def walk(root: Any) -> Iterator[tuple[Any, Callable[[], None]]]:
    """Every object once, nearest first, with a function that has its parts visited too."""
    seen: dict[int, Any] = {}  # keeps what it has seen, so that no id is used twice
    waiting = deque([root])
    while waiting:
        each = waiting.popleft()
        if isinstance(each, _LEAVES) or id(each) in seen:
            continue
        seen[id(each)] = each
        yield each, lambda each=each: waiting.extend(parts(each))  # type: ignore[misc]


def parts(x: Any) -> Iterator[Any]:
    """What an object holds directly."""
    if isinstance(x, MethodType):
        yield from (x.__self__, x.__func__)
    elif isinstance(x, BuiltinMethodType):
        yield x.__self__
    elif isinstance(x, functools.partial):
        yield from (x.func, *x.args, *x.keywords.values())
    elif isinstance(x, FunctionType):
        yield from _of_function(x)
    elif isinstance(x, type):
        own = [kind for kind in x.__mro__ if is_users(kind) or _is_made_by_a_call(kind)]
        yield from (part for kind in own for part in _of_class(kind))
    else:
        yield from _of_object(x)


def free_variable(function: Any, name: str) -> Any:
    """A variable of a function's closure, or None."""
    return dict(_closure(function)).get(name) if isinstance(function, FunctionType) else None


def is_users(kind: type) -> bool:
    """Whether a class is the user's own code, not a package's and not Python's."""
    if kind.__module__.partition(".")[0] in sys.stdlib_module_names:
        return kind.__module__ == "__main__"
    return not is_installed(kind.__module__)


def _is_made_by_a_call(kind: type) -> bool:
    """Whether a package made it around something of the user's, as decorators do."""
    return not hasattr(sys.modules.get(kind.__module__), kind.__qualname__.partition(".")[0])


def _of_object(x: Any) -> Iterator[Any]:
    if isinstance(x, dict):
        yield from [*x.keys(), *x.values()]
    elif isinstance(x, list | tuple | set | frozenset | deque):
        yield from list(x)
    for name in ("__dict__", "__pydantic_private__", "__pydantic_extra__"):
        with contextlib.suppress(AttributeError):
            yield from list((object.__getattribute__(x, name) or {}).values())
    for member in (each for kind in type(x).__mro__ for each in vars(kind).values()):
        if isinstance(member, MemberDescriptorType):
            with contextlib.suppress(AttributeError):  # a slot that has no value yet
                yield member.__get__(x)
    yield type(x)


def _of_class(kind: type) -> Iterator[Any]:
    for name, member in vars(kind).items():
        if isinstance(member, staticmethod | classmethod):
            yield member.__func__
        elif isinstance(member, property):
            yield member.fget
        elif isinstance(member, FunctionType) or not name.startswith("__"):
            yield member


def _of_function(function: FunctionType) -> Iterator[Any]:
    yield from (value for _, value in _closure(function))
    yield getattr(function, "__wrapped__", None)
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()


def _closure(function: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # a variable that has no value yet
            yield name, cell.cell_contents
