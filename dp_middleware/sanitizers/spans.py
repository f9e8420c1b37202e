"""Which characters of a text are private, and how what is released for them is written there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import index
from typing import Any

from dp_middleware.errors import ParameterError, withheld

PART = "\x1e"
"""Stands between the parts of a message, which are released as one text: a record separator."""


@dataclass(frozen=True)
class Span:
    """Marks private characters of a text, and how what is released for them is written there.

    For text that is written in another way than it is read, such as a string in JSON: ``text``
    is the string, which is perturbed, and ``encode`` makes of the released text what stands in
    place of the span. It must be public: a function of its argument, and not of any private text.
    """

    start: int  # offset of its first character
    end: int  # behind its last
    text: str | None = field(default=None, repr=False)  # default: source[start:end]
    encode: Callable[[str], str] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.encode is not None and not callable(self.encode):
            raise ParameterError("expected encode= as a function from a str to a str")

    def __getstate__(self) -> dict[str, Any]:
        if self.text is not None:
            raise TypeError("expected a span with text= to stay in its process: it is private")
        return self.__dict__

    @property
    def plain(self) -> bool:
        """Whether it is its offsets only, and so may be merged with another."""
        return self.text is None and self.encode is None

    def private(self, source: str) -> str:
        """Returns what is to be perturbed."""
        return source[self.start : self.end] if self.text is None else self.text


def parts_of_message(text: str) -> list[Span]:
    """Returns the parts of a message as its spans."""
    return [Span(*match.span()) for match in re.finditer(f"[^{PART}]+", text)]


Detector = Callable[[str], Iterable[Any]]
Scope = Sequence[tuple[int, int] | Span] | Detector


def private_parts(
    text: str, scope: Scope
) -> Iterator[tuple[int, int, str, Callable[[str], str] | None]]:
    """Yields the ends of each private span, what is private there, and its encoder, which works.

    Sorted and disjoint. ParameterError quotes nothing of the text.
    """
    failed = (
        f"expected spans (start, end) from {_name(scope)}, it failed with {{}}, whose message may "
        "quote the text; call it on a public text, or use another scope"
    )
    with withheld(failed, Exception):
        results = scope(text) if callable(scope) else scope
        spans = sorted(map(_span, results), key=lambda span: (span.start, span.end))
    if not all(0 <= span.start <= span.end <= len(text) for span in spans):
        raise ParameterError(
            f"expected spans inside the text of {len(text)} characters, got one outside from "
            f"{_name(scope)}; count characters from 0, the end is behind the last"
        )
    for span in _merge(spans, scope):
        if span.encode is not None:
            encode_with(span.encode, "")
        yield span.start, span.end, span.private(text), span.encode


def encode_with(encode: Callable[[str], str], released: str) -> str:
    """A released text as it is written in place of its span."""
    expected = "expected encode= of a span to return a str"
    with withheld(f"{expected}; it failed with {{}}", Exception):  # it may quote what it holds
        encoded = encode(released)
    if not isinstance(encoded, str):
        raise ParameterError(expected)
    return encoded


def _span(result: Any) -> Span:
    """From a span, a pair, a match, or a result of Presidio or spaCy."""
    if isinstance(result, Span):
        return replace(result, start=index(result.start), end=index(result.end))
    if isinstance(result, re.Match):
        return Span(*result.span())
    if hasattr(result, "start_char"):  # of spaCy: start counts tokens
        result = result.start_char, result.end_char
    start, end = (result.start, result.end) if hasattr(result, "start") else result
    return Span(index(start), index(end))


def _merge(spans: list[Span], scope: Scope) -> list[Span]:
    """Plain spans that overlap or touch are one; others must stand apart."""
    merged: list[Span] = []
    for span in spans:
        if span.start == span.end and not span.text:
            continue
        last = merged[-1] if merged else None
        if last is not None and span.start <= last.end and last.plain and span.plain:
            merged[-1] = replace(last, end=max(span.end, last.end))
        elif last is None or span.start >= last.end:
            merged.append(span)
        else:
            raise ParameterError(
                "expected spans with text= or encode= to overlap no other span, got two that do "
                f"from {_name(scope)}"
            )
    return merged


def _name(scope: Scope) -> str:
    detector: Any = scope
    while isinstance(detector, partial):
        detector = detector.func
    if not callable(detector):
        return f"the scope, a {type(detector).__name__}"
    return f"the scope {name_of(detector).removeprefix('_')}"


def name_of(function: object) -> str:
    """Its own, or that of its class."""
    return str(getattr(function, "__qualname__", type(function).__qualname__))
