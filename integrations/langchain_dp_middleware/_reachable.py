"""What a function or a component can get hold of: models, agents and tools inside of it."""

from __future__ import annotations

import contextlib
import dis
import functools
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from types import CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType, NoneType
from typing import Any

_DEPTH = 8
_MANY = 1000  # of a longer collection, such as an index, the first are looked at
_LEAVES = (ModuleType, str, bytes, int, float, NoneType)
_LIBRARIES = frozenset(  # whose code calls no model of its own accord; names of packages
    {
        *sys.stdlib_module_names,
        *("langchain", "langchain_classic", "langchain_community", "langchain_core"),
        *("langchain_openai", "langchain_anthropic", "langchain_text_splitters", "langgraph"),
        *("langchain_dp_middleware", "dp_middleware", "langsmith", "pydantic", "openai", "httpx"),
        *("numpy", "pandas", "scipy", "torch", "transformers", "sklearn", "sqlalchemy"),
    }
)


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
    elif isinstance(x, type):
        yield from (part for kind in x.__mro__ for part in _of_class(kind))
    else:
        for fields in (getattr(x, "__dict__", None), getattr(x, "__pydantic_private__", None)):
            yield from (fields or {}).values()
        yield from _slots(x)
        yield type(x)


def _of_class(kind: type) -> Iterator[Any]:
    """What a class and its methods hold."""
    for name, member in vars(kind).items():
        if isinstance(member, staticmethod | classmethod):
            yield member.__func__
        elif isinstance(member, property):
            yield member.fget
        elif isinstance(member, FunctionType) or not name.startswith("__"):
            yield member


def _slots(x: Any) -> Iterator[Any]:
    for member in (each for kind in type(x).__mro__ for each in vars(kind).values()):
        if isinstance(member, MemberDescriptorType):
            with contextlib.suppress(AttributeError):  # a field that has no value yet
                yield member.__get__(x)


def _is_library(module: object) -> bool:
    return str(module or "").partition(".")[0] in _LIBRARIES


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
    if _is_library(function.__module__):
        return
    names = _globals_of(function.__code__)
    for value in (function.__globals__[n] for n in names if n in function.__globals__):
        yield value
        if isinstance(value, ModuleType) and not _is_library(value.__name__):
            yield from (
                vars(value)[n] for n in _attributes_of(function.__code__) & set(vars(value))
            )


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


def _attributes_of(code: CodeType) -> set[str]:
    inner = [_attributes_of(each) for each in code.co_consts if isinstance(each, CodeType)]
    return set(code.co_names).union(*inner)
