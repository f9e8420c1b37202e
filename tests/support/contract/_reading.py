"""Everything that an object says, as text to be searched."""

import inspect
import traceback
from collections.abc import Mapping
from itertools import chain

_DEPTH = 12
_AROUND = 80  # characters


def text_of(value):
    """All texts that a record holds, uncut.

    Walks through containers, pydantic models, bound arguments and exceptions with all that hangs
    on them; of other objects, and of what lies too deep, the repr, since what they keep to
    themselves is not recorded.
    """
    texts = []
    _collect(value, _DEPTH, {}, texts)
    return "\n".join(texts)


def window(text, word):
    """What stands around the first occurrence of a word, in one line."""
    start = text.index(word)
    around = text[max(0, start - _AROUND) : start + len(word) + _AROUND]
    return " ".join(around.split())


def _collect(value, depth, seen, texts):
    """Append them; a list, as generators in generators take twice the time."""
    if isinstance(value, str | bytes):
        texts.append(value if isinstance(value, str) else value.decode("utf-8", "replace"))
        return
    if id(value) in seen:
        return
    parts = None
    if depth > 0:
        seen[id(value)] = value  # kept, as the id of one that is gone may be given again
        parts = _parts(value)
    if parts is None:
        texts.append(_said_by(value))
        return
    for part in parts:
        _collect(part, depth - 1, seen, texts)


def _said_by(value):
    try:
        return repr(value)
    except Exception as error:  # a foreign repr may fail; that is no finding
        return f"<repr failed with {type(error).__name__}>"


def _parts(value):
    if isinstance(value, Mapping):
        return list(chain.from_iterable(value.items()))
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    if isinstance(value, inspect.BoundArguments):
        return [value.arguments]
    if isinstance(value, BaseException):
        group = value.exceptions if isinstance(value, BaseExceptionGroup) else ()
        lines = "".join(traceback.format_exception(value))
        return [lines, value.args, value.__dict__, value.__cause__, value.__context__, *group]
    if hasattr(type(value), "__pydantic_fields__"):
        places = ("__dict__", "__pydantic_extra__", "__pydantic_private__")
        return [type(value).__name__, *(getattr(value, place, None) for place in places)]
    return None
