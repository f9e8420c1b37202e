"""What a function or a component can get hold of: models, agents and tools inside of it."""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable, Iterator
from itertools import islice
from types import CodeType, FunctionType, MethodType, ModuleType, NoneType
from typing import Any

_DEPTH = 8
_MANY = 1000  # of a longer collection, such as an index, the first are looked at
_LEAVES = (type, ModuleType, str, bytes, int, float, NoneType)
_LIBRARIES = ("langchain", "langgraph", "langsmith", "pydantic", "dp_middleware")


def reachable(root: Any, is_found: Callable[[Any], bool]) -> list[Any]:
    """Objects that ``root`` holds, in closures, fields, and globals that its code names.

    Args:
        root: A function, tool, middleware, or any object; found itself if it is one.
        is_found: Whether an object is one of those looked for; nothing inside it is looked at.
    """
    found: list[Any] = []
    seen: dict[int, Any] = {}  # keeps what it has seen, so that no id is used twice
    level = [root]
    for _ in range(_DEPTH):
        following: list[Any] = []
        for each in level:
            if id(each) in seen or isinstance(each, _LEAVES):
                continue
            seen[id(each)] = each
            if is_found(each):
                found.append(each)
            else:
                following.extend(parts(each))
        level = following
    return found


def parts(x: Any) -> Iterator[Any]:
    """What an object holds directly."""
    if isinstance(x, MethodType):
        yield from (x.__self__, x.__func__)
    elif isinstance(x, functools.partial):
        yield from (x.func, *x.args, *x.keywords.values())
    elif isinstance(x, FunctionType):
        yield from _of_function(x)
    elif isinstance(x, dict):
        yield from islice(x.values(), _MANY)
    elif isinstance(x, list | tuple | set | frozenset):
        yield from islice(x, _MANY)
    else:
        for fields in (getattr(x, "__dict__", None), getattr(x, "__pydantic_private__", None)):
            yield from (fields or {}).values()


def free_variable(function: Any, name: str) -> Any:
    """A variable of a function's closure, or None."""
    if not isinstance(function, FunctionType):
        return None
    return dict(_closure(function)).get(name)


def _of_function(function: FunctionType) -> Iterator[Any]:
    yield from (value for _, value in _closure(function))
    yield getattr(function, "__wrapped__", None)
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    if not function.__module__.startswith(_LIBRARIES):
        names = _globals_of(function.__code__)
        yield from (function.__globals__[n] for n in names if n in function.__globals__)


def _closure(function: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # a variable that has no value yet
            continue


def _globals_of(code: CodeType) -> set[str]:
    names = {i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL"}
    inner = [_globals_of(each) for each in code.co_consts if isinstance(each, CodeType)]
    return names.union(*inner)
