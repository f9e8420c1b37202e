"""A private text cut into what is public and what is to be drawn for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from operator import index
from typing import Any, NamedTuple

from dp_middleware.errors import ParameterError

Span = tuple[int, int]
Detector = Callable[[str], Iterable[Any]]
Scope = Sequence[Span] | Detector


class Token(NamedTuple):
    """A private token: its id, and its public spelling if the policy keeps it."""

    id: int
    kept: str | None


class Plan(NamedTuple):
    """A text cut into public strings and lists of private tokens."""

    parts: list[str | list[Token]]
    public_tokens: int

    @property
    def tokens_total(self) -> int:
        return self.public_tokens + sum(len(p) for p in self.parts if not isinstance(p, str))

    def perturbed(self) -> list[Token]:
        """Tokens to draw for, in reading order."""
        private = (part for part in self.parts if not isinstance(part, str))
        return [token for part in private for token in part if token.kept is None]


def spans_of(text: str, scope: Scope) -> list[Span]:
    """Sorted, disjoint spans; an error of a detector never carries what it was reading."""
    failed: str | None = None
    found: list[Span] = []
    try:
        found = sorted(_span(each) for each in (scope(text) if callable(scope) else scope))
    except Exception as error:  # whatever a detector raises or returns may quote the text
        failed = type(error).__name__
    if failed is not None:
        raise ParameterError(f"expected spans (start, end); the scope failed with {failed}")
    merged: list[Span] = []
    for start, end in found:
        if not 0 <= start <= end <= len(text):
            raise ParameterError(f"expected spans inside the text of {len(text)} characters")
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif start < end:
            merged.append((start, end))
    return merged


def _span(each: Any) -> Span:
    """Character offsets from a pair, a regular expression's match or a detector's result.

    Results of Presidio have ``start`` and ``end``; spans of spaCy count tokens in these and
    characters in ``start_char`` and ``end_char``.
    """
    if isinstance(each, re.Match):
        return each.span()
    if hasattr(each, "start_char"):
        return index(each.start_char), index(each.end_char)
    start, end = (each.start, each.end) if hasattr(each, "start") else each
    return index(start), index(end)
