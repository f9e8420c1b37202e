"""What a user names by hand: what is never replaced, and what always is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dp_middleware.errors import ParameterError
from dp_middleware.pseudonyms.detection import Entity, entities_of
from dp_middleware.pseudonyms.labels import kind_of
from dp_middleware.pseudonyms.matching import Names
from dp_middleware.pseudonyms.rewriting import Span, between, overlapping
from dp_middleware.sanitizers.spans import name_of

# a text, found in any case where words end; a regular expression; a function to spans
What = str | re.Pattern[str] | Callable[[str], Iterable[Any]]
Also = Mapping[What, str] | Iterable[tuple[What, str]]  # what is always replaced, with its kind


@dataclass(frozen=True)
class Lists:
    """What is never replaced, and what always is, which comes first."""

    allow: tuple[What, ...] = field(default=(), repr=False)
    also: tuple[tuple[What, str], ...] = field(default=(), repr=False)  # each with its kind

    @property
    def kinds(self) -> frozenset[str]:
        """Kinds of what is always replaced."""
        return frozenset(kind for _, kind in self.also)

    @property
    def texts(self) -> list[str]:
        """Texts that stay: no pseudonym may be one of them."""
        return [what for what in self.allow if isinstance(what, str)]

    @property
    def told(self) -> list[Any]:
        """What may be told of them: functions by name, and of private texts only their kind."""
        also = [(not isinstance(what, str) and _named(what), kind) for what, kind in self.also]
        return [[_named(what) for what in self.allow], also]

    def added(self, allow: Iterable[What], also: Also) -> Lists:
        """Returns these and further ones."""
        more = lists_of(allow, also)
        return Lists((*self.allow, *more.allow), (*self.also, *more.also))

    def kept(self, text: str) -> list[Span]:
        """Returns what stays of a private text, but what is always replaced; disjoint, sorted."""
        spans = _merged(span for what in self.allow for span in _spans(what, text))
        kept = [Entity(*span, "") for span in spans]
        return [each[:2] for each in _without(kept, self._always(text))] if kept else []

    def detector(self, detector: Any, kinds: frozenset[str] | None) -> Callable[[str], Any]:
        """Makes a detector of these lists and another one."""

        def find(text: str) -> list[Entity]:
            always = self._always(text)
            found = _without(entities_of(text, detector, kinds), [*self.kept(text), *always])
            return [*always, *found]

        return find

    def _always(self, text: str) -> list[Entity]:
        return [Entity(*span, kind) for what, kind in self.also for span in _spans(what, text)]


def lists_of(allow: Iterable[What], also: Also) -> Lists:
    """Returns what is named by hand; what is neither text, expression nor function is refused."""
    allowed: tuple[What, ...] | None = None if isinstance(allow, str) else tuple(allow)
    try:
        pairs = tuple((what, kind_of(kind)) for what, kind in dict(also).items())
    except (TypeError, ValueError):
        allowed = None
    if allowed is None:
        raise ParameterError("expected collections, as allow=['Acme'], also={'Falcon': 'project'}")
    for what in (*allowed, *dict(pairs)):
        is_text = isinstance(what, str) and what.strip()
        if not (callable(what) or isinstance(what, re.Pattern) or is_text):
            kind = type(what).__name__
            raise ParameterError(f"expected texts, regular expressions or functions, got {kind}")
    return Lists(allowed, pairs)


def _named(what: What) -> Any:
    if isinstance(what, re.Pattern):
        return what.pattern, what.flags
    return [what] if isinstance(what, str) else name_of(what)


def _spans(what: What, text: str) -> Iterator[Span]:
    if isinstance(what, str):
        yield from ((start, end) for start, end, _ in Names([(what, None)]).find(text))
    elif isinstance(what, re.Pattern):
        yield from (match.span() for match in what.finditer(text) if match.group())
    else:
        for start, end, *_ in what(text):
            yield start, end


def _without(entities: Iterable[Entity], spans: Iterable[tuple[Any, ...]]) -> list[Entity]:
    cuts = _merged((start, end) for start, end, *_ in spans)
    return [
        Entity(*part, kind)
        for start, end, kind in entities
        for part in between(overlapping(cuts, start, end), start, end)
    ]


def _merged(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
