"""All that an object is made of, and whose code that is."""

from __future__ import annotations

import gc
import logging
import sys
import weakref
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from enum import Enum
from functools import cache
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
from dp_middleware.models.parts import by_class, is_installed, one_walk

_MOST = 10_000_000  # objects
_DATA = frozenset(  # by id: a metaclass may say that its classes equal these
    map(id, (str, bytes, bytearray, int, float, complex, bool, NoneType, range, slice))
)
_CODE = (FunctionType, staticmethod, classmethod, property)
_ENDS = (ModuleType, CodeType, FrameType, TracebackType, logging.Logger, AbstractEventLoop)
_WALKED = (
    *("llama_index.core", "llama_index_instrumentation", "langchain_core"),
    *("dp_middleware", "llama_index_dp_middleware", "langchain_dp_middleware"),
    *("langchain_text_splitters", "langchain_classic.retrievers", "langchain_classic.storage"),
    *("langchain_classic.chains", "annotated_types"),
    *("pydantic", "pydantic_core", "typing_extensions", "dataclasses_json", "wrapt", "networkx"),
    *("fsspec.spec", "_wrappers"),  # the latter is wrapt's own name for its compiled classes
)
_COMPUTES = (  # on this computer, whatever is in them
    *("numpy", "scipy", "pandas", "sklearn", "torch", "safetensors", "faiss", "bm25s", "Stemmer"),
    *("tiktoken", "tokenizers", "transformers", "sentence_transformers", "nltk", "regex", "jieba"),
    *("rank_bm25", "onnxruntime", "fastembed"),
    *("jinja2", "markupsafe", "banks", "PIL"),
    *("fsspec.implementations.local", "fsspec.implementations.memory"),
)
_REMOTE = (
    "llama_index.core.query_engine.cogniswitch_query_engine",
    *("socket", "_socket", "ssl", "_ssl", "http.client", "http.server", "socketserver", "xmlrpc"),
    *("urllib.request", "urllib.robotparser", "asyncio.streams"),
    *("multiprocessing.connection", "multiprocessing.managers"),
    *("logging.handlers", "ftplib", "imaplib", "nntplib", "poplib", "smtplib", "telnetlib"),
)
_DATA_MAKERS = (
    *("abc", "builtins", "collections", "_collections", "dataclasses", "enum"),
    *("pydantic", "pydantic_core", "reprlib", "typing"),
    *("langchain_core.documents", "langchain_core.load", "llama_index.core.schema"),
)
_WRITTEN = frozenset(  # what Python writes into a class that refers to its surroundings
    {"__annotations__", "__dataclass_fields__", "__orig_bases__", "__parameters__", "__signature__"}
)
_MADE = frozenset(  # what these write for a class of yours
    {
        *("__new__", "__init__", "__repr__", "__eq__", "__lt__", "__le__", "__gt__", "__ge__"),
        *("__hash__", "__setattr__", "__delattr__"),
    }
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
            if _is_open(type(each)):
                waiting.append(type(each))


@one_walk()
def reachable(root: object, is_found: Callable[[object], bool]) -> list[Any]:
    """Objects inside of ``root``, itself included, that are looked for; not those inside of them.

    Raises:
        ParameterError: As from :func:`objects_in`.
    """
    return [each for each in objects_in(root, whole=is_found) if is_found(each)]


def is_foreign(x: object, *, local: frozenset[str] = frozenset()) -> bool:
    """Whether a package decides what it does, and not you, a framework or known local code.

    Args:
        x: An object, a function or a module. Classes are never foreign: they do nothing.
        local: Classes that are known to stay in process, as ``package.Name``.
    """
    kind = type(x)
    if issubclass(kind, ModuleType):
        return _is_foreign(str(vars(x).get("__name__")))
    if kind is FunctionType and _is_foreign(x.__module__ or "builtins"):
        return True
    return _makes_foreign(kind, local)


def is_own(x: object) -> bool:
    """Whether its class is of an application: loaded, and no installed package wrote it."""
    return _is_own(type(x))


@by_class
def is_data(kind: type) -> bool:
    """Whether a class of your own, and all its bases, have no method: it can call nothing.

    What ``dataclass``, ``NamedTuple`` and pydantic write into a class is no method of its own.
    """
    bases = [
        each
        for each in kind.__mro__
        if not (_is_in(each.__module__, _DATA_MAKERS) and _is_held(each))
    ]
    return all(
        _is_own(each) and not any(_is_method(*item) for item in vars(each).items())
        for each in bases
    )


def _is_method(name: str, value: Any) -> bool:
    function = getattr(value, "__func__", value)  # of a static or class method
    if isinstance(function, FunctionType):
        is_made = name in _MADE and function.__code__.co_filename == "<string>"
        return not (is_made or _is_in(str(function.__globals__.get("__name__")), _DATA_MAKERS))
    acts = not isinstance(value, type) and (callable(value) or hasattr(type(value), "__get__"))
    return isinstance(value, property) or (
        acts and not _is_in(type(value).__module__, _DATA_MAKERS)
    )


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
    kinds = [each for each in (*x.__mro__, *meta.__mro__) if _is_open(each)]
    items = [item for each in kinds for item in vars(each).items()]
    return [
        value
        for name, value in items
        if name not in _WRITTEN
        and not name.startswith("__pydantic_")
        and (name[:2] != "__" or not issubclass(type(value), _CODE) or _is_method(name, value))
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
    return issubclass(kind, _ENDS) or _is_in(kind.__module__, _COMPUTES)


@by_class
def _is_open(kind: type) -> bool:
    """Whether a class is your own, or a package made it around something of yours."""
    return _is_own(kind) or not _is_held(kind)


@by_class
def _makes_foreign(kind: type, local: frozenset[str]) -> bool:
    if issubclass(kind, (type, Enum)):
        return False
    return any(
        _is_foreign(each.__module__)
        for each in kind.__mro__
        if f"{each.__module__.partition('.')[0]}.{each.__name__}" not in local
    )


@cache
def _is_foreign(module: str) -> bool:
    if _is_in(module, _REMOTE) or _is_pythons(module):
        return _is_in(module, _REMOTE)
    return not _is_in(module, (*_WALKED, *_COMPUTES)) and not _is_yours(module)


@by_class
def _is_own(kind: type) -> bool:
    """Of a module of yours, or made by you where only Python or a framework is named."""
    module = kind.__module__
    if _is_pythons(module) or _is_in(module, _WALKED):
        return not _is_held(kind)
    return _is_yours(module)


@by_class
def _is_held(kind: type) -> bool:
    """Whether the module that a class names has it, as far as one can tell."""
    holder: Any = sys.modules.get(kind.__module__)
    if holder is None or not isinstance(vars(kind).get("__module__"), str):  # of C
        return True
    for name in kind.__qualname__.split("."):
        holder = getattr(holder, "__dict__", {}).get(name)
    return holder is kind


@cache
def _is_pythons(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names


@cache
def _is_yours(module: str) -> bool:
    top = module.partition(".")[0]
    if module not in sys.modules or _is_pythons(module) or _is_in(module, _WALKED):
        return False
    return not (is_installed(module) or is_installed(top))


@cache
def _is_in(module: str, packages: tuple[str, ...]) -> bool:
    return f"{module}.".startswith(tuple(f"{each}." for each in packages))
