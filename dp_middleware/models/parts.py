"""What a chat or embedding model is: its base classes, its fields, and the models inside of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

_FRAMEWORKS = ("langchain_core", "llama_index.core")
_VENDORS = ("langchain", "llama_index.")
_IN_PROCESS = frozenset(
    {
        *("HuggingFacePipeline", "ChatLlamaCpp", "LlamaCpp", "LlamaCPP", "HuggingFaceLLM"),
        *("HuggingFaceEmbeddings", "HuggingFaceEmbedding", "FastEmbedEmbedding"),
    }
)
_MODELS = (
    ("langchain_core", "BaseLanguageModel"),
    ("langchain_core", "RunnableBinding"),
    ("langchain_core", "RunnableWithFallbacks"),
    ("llama_index", "BaseLLM"),
    ("langchain_core", "Embeddings"),
    ("llama_index", "BaseEmbedding"),
    ("openai", "OpenAI"),
    ("openai", "AsyncOpenAI"),
)


_Judges = TypeVar("_Judges", bound=Callable[..., bool])


_JUDGED: ContextVar[dict[tuple[Any, ...], Any] | None] = ContextVar("_JUDGED", default=None)


@contextmanager
def one_walk() -> Iterator[None]:
    """In it a class is judged once; after it anew, as its methods and fields may have changed."""
    token = _JUDGED.set({} if _JUDGED.get() is None else _JUDGED.get())
    try:
        yield
    finally:
        _JUDGED.reset(token)


def by_class(judges: _Judges) -> _Judges:
    """The function, which judges a class once in a walk, known by ``id``: it may say it equals."""

    @wraps(judges)
    def judge(kind: type, *rest: Any) -> bool:
        judged = _JUDGED.get()
        if judged is None:
            return judges(kind, *rest)
        key = (judges, id(kind), *rest)
        if key not in judged:
            judged[key] = judges(kind, *rest), kind  # which lives on, so that its id stays its own
        return bool(judged[key][0])

    return cast("_Judges", judge)


def models_in(model: Any) -> Iterator[Any]:
    """The model and all that it is made of, each once."""
    seen, waiting = set[int](), [model]
    while waiting:
        part = waiting.pop()
        if id(part) not in seen:
            seen.add(id(part))
            yield part
            waiting += [value for value in values_in(part) if is_model(value)]


def values_in(model: Any) -> Iterator[Any]:
    """Values of its fields, and what is in those that are collections."""
    for _, value in fields_of(model):
        yield from values_of(value)


def values_of(x: Any) -> list[Any]:
    """What is in a collection; anything else alone."""
    if isinstance(x, dict):
        return list(x.values())
    return list(x) if isinstance(x, list | tuple) else [x]


def is_model(x: Any) -> bool:
    """Whether it is of a class that the frameworks or openai call a model."""
    return _is_model(type(x))


def inherits(x: Any, package: str, name: str) -> bool:
    """Whether a base class of ``type(x)`` has this name in this package; imports nothing."""
    return _has_base(type(x), package, name)


@by_class
def _has_base(kind: type, package: str, name: str) -> bool:
    return any(
        each.__name__ == name and f"{each.__module__}.".startswith(f"{package}.")
        for each in kind.__mro__
    )


@by_class
def _is_model(kind: type) -> bool:
    return any(_has_base(kind, package, name) for package, name in _MODELS)


def is_vendors(model: Any) -> bool:
    """Whether a class that makes it a model is an installed package's, not a framework's."""
    bases = type(model).__mro__
    of_vendor = [
        each
        for each in bases
        if not f"{each.__module__}.".startswith(tuple(f"{name}." for name in _FRAMEWORKS))
        and (
            each.__module__.startswith(_VENDORS)
            or (_is_model(each) and is_installed(each.__module__))
        )
    ]
    return bool(of_vendor) and not {each.__name__ for each in bases} & _IN_PROCESS


def is_installed(module: str) -> bool:
    """Whether a loaded module came with an installed package, and is neither Python's nor yours."""
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return bool({"site-packages", "dist-packages"} & set(Path(file).parts))


def fields_of(x: Any) -> list[tuple[str, Any]]:
    """Fields of an object, private ones and slots too."""
    spaces = (getattr(x, "__dict__", None), getattr(x, "__pydantic_private__", None), _slots(x))
    return [item for space in spaces if space for item in list(space.items())]


def _slots(x: Any) -> dict[str, Any]:
    kinds = [vars(each).get("__slots__", ()) for each in type(x).__mro__]
    names = [name for slots in kinds for name in ([slots] if isinstance(slots, str) else slots)]
    return {name: getattr(x, name) for name in names if name[:2] != "__" and hasattr(x, name)}
