"""Everything that an object says, as text to be searched."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

_DEPTH = 12
_AROUND = 80  # characters


def text_of(value: Any) -> str:
    """All texts that a record holds, uncut.

    Walks through containers, pydantic models, bound arguments and exceptions with all that hangs
    on them; of other objects, and of what lies too deep, the repr, since what they keep to
    themselves is not recorded.
    """
    return "\n".join(_texts(value, _DEPTH, {}))


def window(text: str, word: str) -> str:
    """What stands around the first occurrence of a word, in one line."""
    start = text.index(word)
    around = text[max(0, start - _AROUND) : start + len(word) + _AROUND]
    return " ".join(around.split())


def _texts(value: Any, depth: int, seen: dict[int, Any]) -> Iterator[str]:
    if isinstance(value, str):
        yield value
        return
    if isinstance(value, bytes):
        yield value.decode("utf-8", "replace")
        return
    if id(value) in seen:
        return
    if depth == 0:
        yield _said_by(value)
        return
    seen[id(value)] = value  # kept, as the id of one that is gone may be given again
    parts = _parts(value)
    if parts is None:
        yield _said_by(value)
        return
    for part in parts:
        yield from _texts(part, depth - 1, seen)


def _said_by(value: Any) -> str:
    try:
        return repr(value)
    except Exception as error:  # a foreign repr may fail; that is no finding
        return f"<repr failed with {type(error).__name__}>"


def _parts(value: Any) -> Iterable[Any] | None:
    if isinstance(value, Mapping):
        return list(chain.from_iterable(value.items()))
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    if isinstance(value, inspect.BoundArguments):
        return [value.arguments]
    if isinstance(value, BaseException):
        return _parts_of_error(value)
    if hasattr(type(value), "__pydantic_fields__"):
        places = ("__dict__", "__pydantic_extra__", "__pydantic_private__")
        return [type(value).__name__, *(getattr(value, place, None) for place in places)]
    return None


def _parts_of_error(error: BaseException) -> list[Any]:
    parts = ["".join(traceback.format_exception(error)), error.args, error.__dict__]
    group = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return [*parts, error.__cause__, error.__context__, *group]
