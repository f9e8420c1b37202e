"""What an object is made of by its own declared fields, and where that could send raw text."""

from __future__ import annotations

import gc
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from functools import partial
from logging import Logger
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any

import dp_middleware as dp
from dp_middleware.errors import UntrustedHost
from dp_middleware.models.parts import inherits
from dp_middleware.models.trust import Location, locate, require_trusted

_PLAIN = frozenset({str, bytes, bytearray, int, float, complex, bool, type(None), range, slice})
_FRAMEWORKS = ("langchain", "langchain_core", "langchain_classic", "langchain_text_splitters")
_FRAMEWORKS += ("langgraph", "pydantic", "pydantic_core", "annotated_types")
_LOCAL = ("bm25", "tfidf", "knn", "svm")  # retrievers of langchain_community
_FRAMEWORKS += tuple(f"langchain_community.retrievers.{name}" for name in _LOCAL)
_FRAMEWORKS += ("langchain_community.vectorstores.faiss", "langchain_community.docstore.in_memory")
_COMPUTES = ("numpy", "scipy", "pandas", "sklearn", "torch", "faiss", "rank_bm25", "tiktoken")
_COMPUTES += ("tokenizers", "transformers", "sentence_transformers", "nltk", "regex", "jinja2")
_COMPUTES += ("onnxruntime", "fastembed", "safetensors", "bm25s", "markupsafe", "PIL")
_NETWORK = ("socket", "_socket", "ssl", "_ssl", "http", "socketserver", "xmlrpc", "urllib.request")
_NETWORK += ("asyncio.streams", "multiprocessing.connection", "multiprocessing.managers", "ftplib")
_NETWORK += ("imaplib", "poplib", "smtplib", "telnetlib", "nntplib", "logging.handlers")
_CLIENTS = {"openai", "anthropic", "groq", "mistralai", "cohere", "ollama", "google"}
_OURS = ("dp_middleware", "langchain_dp_middleware")


def parts_in(root: object, is_whole: Callable[[Any], bool]) -> Iterator[Any]:
    """Yields an object and the parts that it declares, each once, nearest first, no plain data.

    Followed are items of collections, fields (private ones of pydantic and slots too), closures
    and defaults of functions, what methods are bound to, arguments of partials, and attributes of
    classes of your own. Globals are not.

    Args:
        root: Anything; cycles are fine.
        is_whole: What is not looked into.
    """
    seen, waiting = dict[int, object](), deque([root])  # what was seen lives on: ids stay apart
    while waiting:
        part = waiting.popleft()
        if id(part) in seen:
            continue
        seen[id(part)] = part
        yield part
        if not is_whole(part):
            waiting += [other for other in _declared(part) if type(other) not in _PLAIN]


def _declared(x: Any) -> Iterable[Any]:
    if isinstance(x, ModuleType | Logger):
        return ()
    if isinstance(x, dict):
        return x.values()
    if isinstance(x, list | tuple | set | frozenset | deque):
        return x
    if isinstance(x, partial):
        return [x.func, *x.args, *x.keywords.values()]
    if isinstance(x, MethodType):
        return [x.__self__, x.__func__]
    if isinstance(x, FunctionType):
        cells = (gc.get_referents(cell) for cell in x.__closure__ or ())
        return [*(x.__defaults__ or ()), x.__kwdefaults__, vars(x), *(y for c in cells for y in c)]
    if isinstance(x, type):
        return _attributes(x) if code_of(x.__module__) == "own" else ()
    private = getattr(x, "__pydantic_private__", None)
    slots = (getattr(x, name, None) for name in _slots(type(x)))
    return [*getattr(x, "__dict__", {}).values(), private, *slots, type(x)]


def _slots(kind: type) -> Iterator[str]:
    for base in kind.__mro__:
        names = vars(base).get("__slots__", ())
        for name in [names] if isinstance(names, str) else names:
            yield f"_{base.__name__.lstrip('_')}{name}" if name.startswith("__") else name


def _attributes(kind: type) -> Iterator[Any]:
    """Of a class and its bases, where they are your own."""
    for base in kind.__mro__:
        for name, value in vars(base).items() if code_of(base.__module__) == "own" else ():
            acts = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
            if isinstance(acts, FunctionType) or not name.startswith(("__", "_abc")):
                yield acts


def code_of(module: str | None) -> str:
    """Tells whose code a module is: "own", "framework", "computes", "network" or "foreign"."""
    name = module or "builtins"
    for kind, places in (
        ("framework", (*_FRAMEWORKS, *_OURS)),
        ("computes", _COMPUTES),
        ("network", _NETWORK),
    ):
        if f"{name}.".startswith(tuple(f"{place}." for place in places)):
            return kind
    if name.partition(".")[0] in sys.stdlib_module_names:
        return "framework"
    file = getattr(sys.modules.get(name), "__file__", None) or ""
    is_installed = {"site-packages", "dist-packages"} & set(Path(file).parts)
    return "foreign" if is_installed or name not in sys.modules else "own"


def is_model(x: Any) -> bool:
    """Tells whether it is a model, or what stands for one: where some run is not known before."""
    return inherits(x, "langchain_core", "BaseLanguageModel") or is_client(x)


def is_client(x: Any) -> bool:
    """Tells whether it is a vendor's own client, or a remote graph: it sends what it is given."""
    kind = type(x)
    if kind.__name__ in ("_ConfigurableModel", "RemoteGraph"):
        return True
    names = ("Client", "OpenAI", "Anthropic", "Groq", "Mistral")
    return kind.__module__.partition(".")[0] in _CLIENTS and kind.__name__.endswith(names)


def is_ours(x: Any) -> bool:
    """Tells whether it releases before it sends: the models inside of it are no findings."""
    packages = {base.__module__.partition(".")[0] for base in type(x).__mro__}
    return isinstance(x, dp.InferDPT | dp.PrivRewrite) or "langchain_dp_middleware" in packages


# retrievers --------------------------------------------------------------------------------------


def require_local(retriever: Any, trusted_hosts: Iterable[str]) -> None:
    """Refuses a retriever that would take the raw query out of this computer.

    Its declared fields are walked, those of LangChain's objects and of your own. What is of
    another package must be known to be local, have an address, or say where it runs, with a
    :class:`Location` as its ``location``.

    Args:
        retriever: A LangChain retriever.
        trusted_hosts: Names of further hosts that may see the raw query.

    Raises:
        UntrustedHost: A part of it may send the query elsewhere.
        ParameterError: ``trusted_hosts`` is not a collection of host names.
    """
    place = Location()
    for part in parts_in(retriever, _is_settled):
        place |= _place_of(part)
    if place.unknown:
        raise UntrustedHost(
            f"cannot tell where {', '.join(sorted(place.unknown))} in {type(retriever).__name__} "
            "sends a query; use a local index and embedding model, or give your own retriever a "
            "property location, a dp_middleware Location, that says where it runs"
        )
    require_trusted(place, trusted_hosts)


def _is_settled(x: Any) -> bool:
    if _said_by(x) is not None or _is_releasing(x):
        return True
    return _code(x) not in ("own", "framework") and code_of(type(x).__module__) != "own"


def _place_of(x: Any) -> Location:
    said, code = _said_by(x), _code(x)
    if said is not None or _is_releasing(x):
        return said or Location()
    if inherits(x, "langchain_core", "BaseLanguageModel") or inherits(
        x, "langchain_core", "Embeddings"
    ):
        return locate(x)
    if code in ("own", "framework", "computes"):
        return Location()
    is_named = isinstance(x, FunctionType | ModuleType)
    place = Location() if is_named else locate(x)
    unknown = frozenset({(x if is_named else type(x)).__name__})
    return place if place != Location() else Location(unknown=unknown)


def _code(x: Any) -> str:
    """Whose code decides what an object does; a class of your own may inherit a vendor's."""
    if isinstance(x, ModuleType | FunctionType):
        return code_of(x.__name__ if isinstance(x, ModuleType) else x.__module__)
    if isinstance(x, type | Enum):
        return "own"
    kinds = {code_of(base.__module__) for base in type(x).__mro__}
    order = ("network", "foreign", "computes", "own")
    return next((kind for kind in order if kind in kinds), "framework")


def _said_by(x: Any) -> Location | None:
    """What an object says of itself: a wrapper's ``__getattr__`` would speak for another."""
    named = any("location" in vars(kind) for kind in type(x).__mro__)
    said = getattr(x, "location", None) if named else None
    return said if isinstance(said, Location) else None


def _is_releasing(x: Any) -> bool:
    return type(x).__module__.partition(".")[0] in _OURS
