"""All that an object is made of, and whose code that is."""

from __future__ import annotations

import gc
import logging
import sys
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from contextvars import ContextVar
from functools import cache
from itertools import chain
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
from dp_middleware.frameworks._model_parts import is_installed

_MOST = 10_000_000  # objects
_DATA = frozenset({str, bytes, bytearray, int, float, complex, bool, NoneType, range, slice})
_ENDS = (ModuleType, CodeType, FrameType, TracebackType, logging.Logger)
_WALKED = (
    *("llama_index.core", "llama_index_instrumentation", "langchain_core"),
    *("dp_middleware", "llama_index_dp_middleware", "langchain_dp_middleware"),
    *("pydantic", "pydantic_core", "typing_extensions", "dataclasses_json", "wrapt", "networkx"),
    *("fsspec.spec", "_wrappers"),  # the latter is wrapt's own name for its compiled classes
)
_COMPUTES = (  # on this computer, whatever is in them
    *("numpy", "scipy", "pandas", "sklearn", "torch", "safetensors", "faiss", "bm25s", "Stemmer"),
    *("tiktoken", "tokenizers", "transformers", "sentence_transformers", "nltk", "regex", "jieba"),
    *("jinja2", "markupsafe", "banks", "PIL"),
    *("fsspec.implementations.local", "fsspec.implementations.memory"),
)
_REMOTE = (
    "llama_index.core.query_engine.cogniswitch_query_engine",
    *("socket", "_socket", "ssl", "_ssl", "http", "urllib.request", "socketserver", "xmlrpc"),
    *("multiprocessing.connection", "multiprocessing.managers", "asyncio.streams"),
    *("logging.handlers", "ftplib", "imaplib", "nntplib", "poplib", "smtplib", "telnetlib"),
)


def objects_in(root: object, *, whole: Callable[[object], bool]) -> Iterator[object]:
    """The object and all that it holds, each once, plain data left out.

    Follows fields, slots, pydantic's private attributes, containers, bound methods, partials,
    closures, defaults of arguments, weak references and the attributes of classes of your own.
    Does not follow the globals of functions, installed classes, loggers and modules, nor what
    packages of numbers and tokenizers hold.

    Args:
        root: Anything; cycles are fine.
        whole: What is judged as one thing and not looked into.

    Raises:
        ParameterError: It holds more than ten million objects.
    """
    seen, waiting = dict[int, object](), [root]  # what was seen lives on, so ids stay apart
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        if len(seen) == _MOST:
            raise ParameterError(f"expected an object that holds at most {_MOST} others, got more")
        seen[id(each)] = each
        yield each
        if not whole(each):
            parts = list(_parts(each))
            if not _DATA.issuperset(map(type, parts)):
                waiting += [part for part in parts if type(part) not in _DATA]


def is_foreign(x: object, *, local: Collection[str] = ()) -> bool:
    """Whether a package decides what it does, and not you, a framework or known local code.

    Args:
        x: An object, a function or a module. Classes are never foreign: they do nothing.
        local: Names of classes that are known to stay in process.
    """
    kind = type(x)
    if issubclass(kind, type):
        return False
    if issubclass(kind, ModuleType):
        return _is_foreign(str(vars(x).get("__name__")))
    if kind is FunctionType and _is_foreign(str(x.__module__)):
        return True
    return any(_is_foreign(each.__module__) for each in kind.__mro__ if each.__name__ not in local)


def is_own(x: object) -> bool:
    """Whether its class is of an application: loaded, and from no installed package."""
    return _is_own(type(x).__module__)


def _parts(x: Any) -> Iterable[object]:
    kind = type(x)
    if issubclass(kind, _ENDS) or _is_in(kind.__module__, _COMPUTES):
        return ()
    if issubclass(kind, type):
        own = _is_own(x.__module__)
        return [value for name, value in vars(x).items() if own and not name.startswith("__")]
    if kind is FunctionType:
        held = (x.__closure__, x.__defaults__, x.__kwdefaults__, x.__dict__)
        return [each for each in held if each]
    is_method = kind is MethodType or kind.__name__ == "BoundFunctionWrapper"  # wrapt's
    if is_method and is_foreign(owner := getattr(x, "__self__", None)):
        return (owner,)
    if kind is ContextVar:
        return (x.get(None),)
    if issubclass(kind, weakref.ReferenceType):
        return chain(gc.get_referents(x), [x()])
    return gc.get_referents(x)


@cache
def _is_foreign(module: str) -> bool:
    top = module.partition(".")[0]
    if _is_in(module, _REMOTE) or top in sys.stdlib_module_names:
        return _is_in(module, _REMOTE)
    return not _is_in(module, (*_WALKED, *_COMPUTES)) and not _is_own(module)


@cache
def _is_own(module: str) -> bool:
    top = module.partition(".")[0]
    if module not in sys.modules or top in sys.stdlib_module_names or _is_in(module, _WALKED):
        return False
    return not (is_installed(module) or is_installed(top))


@cache
def _is_in(module: str, packages: tuple[str, ...]) -> bool:
    return f"{module}.".startswith(tuple(f"{each}." for each in packages))
