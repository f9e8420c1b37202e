"""What a model or retriever is made of, and which of it is known to stay on this computer."""

from __future__ import annotations

import inspect
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Literal

OPENAI = (("openai", "OpenAI"), ("openai", "AsyncOpenAI"))
_MODELS = (
    *(("langchain_core", "BaseLanguageModel"), ("langchain_core", "RunnableBinding")),
    *(("langchain_core", "RunnableWithFallbacks"), ("langchain_core", "Embeddings")),
    *(("llama_index", "BaseLLM"), ("llama_index", "BaseEmbedding")),
    *OPENAI,
)
_HTTPX = tuple((lib, name) for lib in ("httpx", "httpx2") for name in ("Client", "AsyncClient"))
_DATA = (str, bytes, bytearray, int, float, complex, bool, type(None))
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
_INDEXES = (
    *(f"langchain_community.{name}Retriever" for name in ("BM25", "TFIDF", "KNN", "SVM")),
    *("langchain_community.FAISS", "langchain_community.InMemoryDocstore"),
    *(
        f"llama_index.{name}"
        for name in ("BM25Retriever", "FaissVectorStore", "FaissMapVectorStore")
    ),
)
_HELD = (dict, types.MappingProxyType, list, tuple, set, frozenset, deque)
_FUNCTIONS = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType)
_HOLDERS = (partial, types.MethodType, types.MappingProxyType, types.SimpleNamespace)
_VENDORS = ("langchain", "llama_index.")
_IN_PROCESS = (
    *("HuggingFacePipeline", "ChatLlamaCpp", "LlamaCpp", "LlamaCPP", "HuggingFaceLLM"),
    *("HuggingFaceEmbeddings", "HuggingFaceEmbedding", "FastEmbedEmbedding"),
)


def inherits(x: Any, package: str, name: str) -> bool:
    """Tells whether a base class of ``type(x)`` has this name in this package; imports nothing."""
    return any(
        kind.__name__ == name and is_in(kind.__module__, (package,)) for kind in type(x).__mro__
    )


def is_one(x: Any, kinds: Iterable[tuple[str, str]]) -> bool:
    """Tells whether it inherits from one of these: packages with the names of their classes."""
    return any(inherits(x, *kind) for kind in kinds)


def is_model(x: Any) -> bool:
    """Tells whether it is of a class that the frameworks or openai call a model."""
    return is_one(x, _MODELS)


def is_httpx(x: Any) -> bool:
    """Tells whether it is a client of httpx."""
    return is_one(x, _HTTPX)


def is_in(module: str, packages: tuple[str, ...]) -> bool:
    """Tells whether a module is one of these, or inside of one."""
    return f"{module}.".startswith(tuple(f"{package}." for package in packages))


def fields_of(x: Any) -> list[tuple[str, Any]]:
    """Lists the fields of an object by name, private ones and slots too."""
    spaces = (getattr(x, "__dict__", None), getattr(x, "__pydantic_private__", None), _slots(x))
    return [item for space in spaces if space for item in list(space.items())]


def values_of(x: Any) -> list[Any]:
    """Lists what is in a collection; anything else alone."""
    if isinstance(x, dict | types.MappingProxyType):
        return list(x.values())
    return list(x) if isinstance(x, _HELD) else [x]


def inner_models(x: Any) -> list[Any]:
    """Lists the models in an object's fields, and in those that are collections."""
    return [part for _, field in fields_of(x) for part in values_of(field) if is_model(part)]


def parts_of(x: Any) -> list[Any]:
    """Lists what is in a collection, what a function is made with, or what is in fields."""
    if isinstance(x, types.ModuleType | type):
        return []
    if isinstance(x, partial):
        return [x.func, *x.args, *x.keywords.values()]
    if isinstance(x, types.MethodType):
        return [x.__self__, x.__func__]
    own = [value for _, value in fields_of(x)]
    if isinstance(x, types.FunctionType):
        defaults = (*(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values())
        return [*inspect.getclosurevars(x).nonlocals.values(), *defaults, *own]
    keys = x.keys() if isinstance(x, dict | types.MappingProxyType) else ()
    return [*keys, *(values_of(x) if isinstance(x, _HELD) else ()), *own]


def walk(root: Any, inside: Callable[[Any], Iterable[Any]]) -> Iterator[Any]:
    """Yields the root and what is ``inside`` it, at any depth, each once, without plain data."""
    seen, waiting = dict[int, Any](), deque([root])  # what was seen lives on: ids stay apart
    while waiting:
        part = waiting.popleft()
        if id(part) not in seen and type(part) not in _DATA:
            seen[id(part)] = part
            yield part
            waiting.extend(inside(part))


def reachable(root: Any, is_wanted: Callable[[Any], bool]) -> list[Any]:
    """Lists the parts of ``root`` that are wanted, itself included; not those inside of them."""
    parts = walk(root, lambda part: [] if is_wanted(part) else parts_of(part))
    return [part for part in parts if is_wanted(part)]


Standing = Literal["inert", "open", "vendors", "yours"]


def standing(x: Any) -> Standing:
    """Tells what is known of an object by its class, or of a function or module by its name.

    ``"inert"``: it stays in process, whatever is in it; a class does nothing. ``"open"``: it is as
    local as its parts, as a collection is, or one of a known class. ``"vendors"``: an installed
    package wrote its class. ``"yours"``: it may call anything.
    """
    kind = type(x)  # isinstance would ask what a wrapper wraps
    if issubclass(kind, type | Enum):
        return "inert"
    if issubclass(kind, _FUNCTIONS):
        module = str(x.__name__ if issubclass(kind, types.ModuleType) else x.__module__)
        is_open = is_in(module, _OPEN) and not is_in(module, _ELSEWHERE)
        return "inert" if is_in(module, _LOCAL) else "open" if is_open else "yours"
    if kind in _HOLDERS or all(map(_is_known, kind.__mro__)):
        is_inert = any(is_in(base.__module__, _LOCAL) for base in kind.__mro__)
        return "inert" if is_inert else "open"
    package = sys.modules.get(kind.__module__.partition(".")[0])
    folders = Path(getattr(package, "__file__", None) or "").parts
    is_installed = bool({"site-packages", "dist-packages"} & set(folders))
    is_vendors = kind.__module__.startswith(_VENDORS) or (is_held(kind) and is_installed)
    return "vendors" if is_vendors else "yours"


def runs_in_process(x: Any) -> bool:
    """Tells whether it is a model of a class that is known to call no server."""
    return any(kind.__name__ in _IN_PROCESS for kind in type(x).__mro__)


def is_held(kind: type) -> bool:
    """Tells whether the module that a class names has it: one that is made elsewhere is yours."""
    holder: Any = sys.modules.get(kind.__module__)
    for name in kind.__qualname__.split("."):
        holder = getattr(holder, "__dict__", {}).get(name)
    return holder is kind or kind.__module__ == "_wrappers"


def _is_known(kind: type) -> bool:
    module = kind.__module__
    if module == "builtins":
        return kind in _COLLECTIONS or issubclass(kind, BaseException)
    is_named = is_in(module, (*_OPEN, *_LOCAL)) and not is_in(module, _ELSEWHERE)
    is_index = f"{module.partition('.')[0]}.{kind.__name__}" in _INDEXES
    return is_index or (is_named and is_held(kind))


def _slots(x: Any) -> dict[str, Any]:
    kinds = [vars(kind).get("__slots__", ()) for kind in type(x).__mro__]
    names = [name for slots in kinds for name in ([slots] if isinstance(slots, str) else slots)]
    return {name: getattr(x, name) for name in names if name[:2] != "__" and hasattr(x, name)}
