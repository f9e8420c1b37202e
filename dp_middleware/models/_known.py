"""Which objects are known to stay on this computer, which are looked into, which have a vendor."""

from __future__ import annotations

from collections import deque
from enum import Enum
from functools import partial
from types import (
    BuiltinFunctionType,
    FunctionType,
    MappingProxyType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any

from dp_middleware.models.parts import is_held, is_in, is_installed

_OPEN = (
    *("llama_index.core", "llama_index_instrumentation", "langchain_core", "builtins"),
    *("dp_middleware", "llama_index_dp_middleware", "langchain_dp_middleware"),
    *("langchain_text_splitters", "langchain_classic.retrievers", "langchain_classic.storage"),
    *("langchain_classic.chains", "annotated_types", "abc", "typing", "collections"),
    *("pydantic", "pydantic_core", "typing_extensions", "dataclasses_json", "wrapt", "networkx"),
    *("fsspec.spec", "_wrappers"),  # the latter is wrapt's own name for its compiled classes
)
_LOCAL = (  # they compute on this computer, whatever is in them
    *("numpy", "scipy", "pandas", "sklearn", "torch", "safetensors", "faiss", "bm25s", "Stemmer"),
    *("tiktoken", "tokenizers", "transformers", "sentence_transformers", "nltk", "regex", "jieba"),
    *("rank_bm25", "onnxruntime", "fastembed", "jinja2", "markupsafe", "banks", "PIL"),
    *("fsspec.implementations.local", "fsspec.implementations.memory"),
    *("asyncio.locks", "asyncio.mixins", "datetime", "decimal", "enum", "fractions"),
    *("logging", "math", "operator", "pathlib", "random", "re", "threading", "_thread", "uuid"),
)
_ELSEWHERE = ("llama_index.core.query_engine.cogniswitch_query_engine", "logging.handlers")
_COLLECTIONS: tuple[type, ...] = (
    *(dict, list, tuple, set, frozenset, deque, object, range, slice, str, int, float),
    type(iter([])),  # what LangChain's fake model answers
)
_HOLDERS = (partial, MethodType, MappingProxyType, SimpleNamespace)
_VENDORS = ("langchain", "llama_index.")
_IN_PROCESS = frozenset(
    {
        *("HuggingFacePipeline", "ChatLlamaCpp", "LlamaCpp", "LlamaCPP", "HuggingFaceLLM"),
        *("HuggingFaceEmbeddings", "HuggingFaceEmbedding", "FastEmbedEmbedding"),
    }
)


def is_local(x: Any) -> bool:
    """Tells whether it is known to stay in process, whatever is in it: a class does nothing."""
    kind = type(x)
    if issubclass(kind, type | Enum):
        return True
    if issubclass(kind, ModuleType | FunctionType | BuiltinFunctionType):
        return is_in(_module_of(x), _LOCAL)
    return is_open(x) and any(is_in(base.__module__, _LOCAL) for base in kind.__mro__)


def is_open(x: Any, local: frozenset[str] = frozenset()) -> bool:
    """Tells whether it is as local as its parts: a collection, or of a known or ``local`` class."""
    kind = type(x)
    if issubclass(kind, ModuleType | FunctionType | BuiltinFunctionType):
        return is_in(_module_of(x), _OPEN) and not is_in(_module_of(x), _ELSEWHERE)
    if any(kind is holder for holder in _HOLDERS):
        return True
    return all(_is_known(base, local) for base in kind.__mro__)


def is_vendors(x: Any) -> bool:
    """Tells whether an installed package wrote its class."""
    kind = type(x)
    is_installed_here = is_held(kind) and is_installed(kind.__module__.partition(".")[0])
    return kind.__module__.startswith(_VENDORS) or is_installed_here


def runs_in_process(x: Any) -> bool:
    """Tells whether it is a model of a class that is known to call no server."""
    return any(kind.__name__ in _IN_PROCESS for kind in type(x).__mro__)


def _is_known(kind: type, local: frozenset[str]) -> bool:
    module = kind.__module__
    if f"{module.partition('.')[0]}.{kind.__name__}" in local:
        return True
    if module == "builtins":  # a metaclass may say that its classes equal these
        return any(kind is plain for plain in _COLLECTIONS) or issubclass(kind, BaseException)
    is_named = is_in(module, (*_OPEN, *_LOCAL)) and not is_in(module, _ELSEWHERE)
    return is_named and is_held(kind)


def _module_of(x: Any) -> str:
    return str(x.__name__ if isinstance(x, ModuleType) else x.__module__)
