"""Whose code an object is: yours, a framework's, of Python, or of another package."""

from __future__ import annotations

import sys
from enum import Enum
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

from dp_middleware.models.parts import by_class, is_installed

_WALKED = (
    *("llama_index.core", "llama_index_instrumentation", "langchain_core"),
    *("dp_middleware", "llama_index_dp_middleware", "langchain_dp_middleware"),
    *("langchain_text_splitters", "langchain_classic.retrievers", "langchain_classic.storage"),
    *("langchain_classic.chains", "annotated_types"),
    *("pydantic", "pydantic_core", "typing_extensions", "dataclasses_json", "wrapt", "networkx"),
    *("fsspec.spec", "_wrappers"),  # the latter is wrapt's own name for its compiled classes
)
COMPUTES = (  # on this computer, whatever is in them
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
_MADE = frozenset(  # what these write for a class of yours
    {
        *("__new__", "__init__", "__repr__", "__eq__", "__lt__", "__le__", "__gt__", "__ge__"),
        *("__hash__", "__setattr__", "__delattr__"),
    }
)


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
        if not (is_in(each.__module__, _DATA_MAKERS) and _is_held(each))
    ]
    return all(
        _is_own(each) and not any(is_method(*item) for item in vars(each).items()) for each in bases
    )


def is_method(name: str, value: Any) -> bool:
    """Whether an attribute of a class acts, and no maker of data wrote it."""
    function = getattr(value, "__func__", value)  # of a static or class method
    if isinstance(function, FunctionType):
        is_made = name in _MADE and function.__code__.co_filename == "<string>"
        return not (is_made or is_in(str(function.__globals__.get("__name__")), _DATA_MAKERS))
    acts = not isinstance(value, type) and (callable(value) or hasattr(type(value), "__get__"))
    return isinstance(value, property) or (acts and not is_in(type(value).__module__, _DATA_MAKERS))


@by_class
def is_open(kind: type) -> bool:
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
    if is_in(module, _REMOTE) or _is_pythons(module):
        return is_in(module, _REMOTE)
    return not is_in(module, (*_WALKED, *COMPUTES)) and not _is_yours(module)


@by_class
def _is_own(kind: type) -> bool:
    """Of a module of yours, or made by you where only Python or a framework is named."""
    module = kind.__module__
    if _is_pythons(module) or is_in(module, _WALKED):
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
    if module not in sys.modules or _is_pythons(module) or is_in(module, _WALKED):
        return False
    return not (is_installed(module) or is_installed(top))


@cache
def is_in(module: str, packages: tuple[str, ...]) -> bool:
    """Whether a module is one of these, or inside of one."""
    return f"{module}.".startswith(tuple(f"{each}." for each in packages))
