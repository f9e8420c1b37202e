"""Detectors: which parts of a text are private, for ``scope=`` of a sanitizer or a session.

**Everything that a detector does not return is released as it is.** Each says what it declares
public; in doubt a part is private. The released text stands where the private text stood and is
written so that the frame around it keeps its form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial

from dp_middleware.errors import ParameterError
from dp_middleware.sanitizers.spans import Span

__all__ = ["json_values", "matches"]

_PART = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s"{}\[\],:]+')
_KEY = re.compile(r"[ \t\n\r]*:")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def matches(*patterns: str | re.Pattern[str]) -> Callable[[str], list[Span]]:
    r"""Makes what regular expressions match private; **everything else goes out as it is**.

    Takes at least one of Python's regular expressions; ParameterError: none, or another thing.

    Example:
        >>> from dp_middleware import scopes
        >>> [(s.start, s.end) for s in scopes.matches(r"\d{4,}")("PIN 12345")]
        [(4, 9)]
    """
    if not patterns:
        raise ParameterError("expected at least one pattern: without any, all text is public")
    try:
        compiled = [re.compile(pattern) for pattern in patterns]
    except (re.error, TypeError) as error:
        raise ParameterError(f"expected regular expressions, got a pattern with {error}") from None
    return partial(_matches, compiled)


def _matches(patterns: list[re.Pattern[str]], text: str) -> list[Span]:
    return [Span(*match.span()) for pattern in patterns for match in pattern.finditer(text)]


def json_values(text: str, *, keys: Iterable[str] | None = None) -> list[Span]:
    """Marks strings, numbers and Booleans of a JSON document.

    Public: keys, their order, brackets, ``null``, blanks, and with them how many values there are
    and where. Private: each string (read without its escapes), number, ``true`` and ``false``.
    Every release stands there as a JSON string, so that whether it was a number is not told. Pass
    it as it is, or with ``functools.partial(json_values, keys={"email", "notes"})``.

    Args:
        text: One JSON document (RFC 8259).
        keys: Only what stands under one of these keys, at any depth, is private. **All other
            values go out as they are**, those of a misspelt or new key too.

    ParameterError: not one JSON document.
    """
    if isinstance(keys, str):
        raise ParameterError("expected a collection of keys, got one str")
    private = None if keys is None else frozenset(keys)
    with suppress(ValueError, RecursionError):
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse)
        return list(_values(text, private))
    raise ParameterError(
        "expected one JSON document (RFC 8259), got another text; use another scope for it"
    )


def _refuse(_constant: str) -> None:
    """NaN and Infinity are no JSON."""
    raise ValueError


def _values(text: str, keys: frozenset[str] | None) -> Iterator[Span]:
    """Of a valid document; ``inside`` tells of each open bracket whether all in it is private."""
    inside = [keys is None]
    private = keys is None  # the next value
    for match in _PART.finditer(text):
        sign, start, end = match.group(), match.start(), match.end()
        if sign in "{[":
            inside.append(private)
        elif sign in "}]":
            inside.pop()
        elif sign == ",":
            private = inside[-1]
        elif sign[0] == '"' and _KEY.match(text, end):
            private = inside[-1] or (keys is not None and json.loads(sign) in keys)
        elif private and sign[0] == '"':
            yield Span(start + 1, end - 1, json.loads(sign), _escaped)
        elif private and sign not in (":", "null"):
            yield Span(start, end, encode=_quoted)


def _escaped(released: str) -> str:
    """Inside of the quotes; a lone surrogate has no UTF-8 form but an escape."""
    written = json.dumps(released, ensure_ascii=False)[1:-1]
    return _SURROGATE.sub(lambda sign: f"\\u{ord(sign.group()):04x}", written)


def _quoted(released: str) -> str:
    return f'"{_escaped(released)}"'
