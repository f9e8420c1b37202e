"""A private text cut into what is public and what pseudonyms stand for."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter, itemgetter
from typing import NamedTuple, TypeVar

from dp_middleware._forks import StaysHere
from dp_middleware.pseudonyms.detection import Entity
from dp_middleware.pseudonyms.kinds import LABELS, Kinds, Label
from dp_middleware.pseudonyms.kinds.names import titled
from dp_middleware.pseudonyms.mapping import Kind, Mapping
from dp_middleware.pseudonyms.matching import (
    NUMERAL,
    Names,
    Words,
    cased,
    fold,
    goes_on,
    is_word,
    within_word,
)
from dp_middleware.pseudonyms.structured import Value, View
from dp_middleware.sanitizers.draft import Draft
from dp_middleware.sanitizers.spans import PART
from dp_middleware.vocabulary import frequencies

S = TypeVar("S", Entity, "Mention")
V = TypeVar("V")
Written = tuple[list[str], tuple[str, ...]]
Span = tuple[int, int]

_VALUES = re.compile(r"[^\0\s](?:[^\0]*[^\0\s])?")
_INSIDE = re.compile(r"\S(?:.*\S)?", re.DOTALL)
_TOKENS = re.compile(r"\w+|[^\w\s]")


class Mention(NamedTuple):
    """Characters that one pseudonym stands for."""

    start: int
    end: int
    kind: Kind
    shape: str  # what of them is public


@dataclass(frozen=True, kw_only=True)
class PseudonymDraft(StaysHere):
    """A text and the entities that were detected in it."""

    view: View = field(repr=False)  # what a reader sees of it, private
    places: tuple[Mention, ...] = field(repr=False)  # what is replaced, sorted and disjoint
    edited: bool = False  # whether the text replaces one of which something was released
    kept: tuple[tuple[int, int], ...] = field(default=(), repr=False)  # no further mentions
    used: tuple[str, ...] = ()  # the pseudonyms, once they are written
    drawn: Draft | None = field(default=None, repr=False)  # for the rest, by a sanitizer

    @property
    def text(self) -> str:
        """The text as a reader sees it. Private."""
        return self.view.text

    def complete(self, mapping: Mapping, public: bool = True) -> PseudonymDraft:
        """Adds every further mention of these entities and of those of the conversation.

        A word of a public rest that is a pseudonym becomes an entity: else an answer is ambiguous.
        """
        text, folded = self.text, fold(self.view.inner)
        values = ((text[start:end], kind, shape) for start, end, kind, shape in self.places)
        own = Names((value[0], value) for value in values)
        draft = self._with(own, folded, lambda value: value)
        draft = draft._with(mapping.originals, folded, lambda p: (p.original, p.kind, p.shape))
        if not public:
            return draft
        return draft._with(mapping.pseudonyms, folded, lambda p: (p.pseudonym, p.kind, p.shape))

    def _with(
        self, names: Names[V], folded: str, known: Callable[[V], tuple[str, Kind, str]]
    ) -> PseudonymDraft:
        if not names.values:
            return self
        text, new = self.view.inner, list[Mention]()
        for start, end, name in names.find(text, self.gaps, folded):
            like, kind, shape = known(name)
            if overlapping(self.kept, start, end) or ordinary(text[start:end], like):
                continue
            number = _number_at(self.view, start, end)
            if number is not None and number[:2] != (start, end):  # of a number all
                start, end, kind, shape = *number[:2], Label(of=kind.name), ""
            new.append(Mention(start, end, kind, shape))
        if not new:
            return self
        places = sorted([*self.places, *new], key=itemgetter(0))
        return replace(self, places=tuple(settled(text, places)))

    @cached_property
    def gaps(self) -> list[tuple[int, int]]:
        """The offsets of what is between the places, before the first and behind the last."""
        return list(between((place[:2] for place in self.places), 0, len(self.view.text)))

    def public(self, others: Iterable[str] = ()) -> Words:
        """Returns the text outside the places, with other public texts."""
        return Words([*(self.text[a:b] for a, b in self.gaps), *others])

    @property
    def rest(self) -> list[tuple[int, int]]:
        """The gaps without blanks at their ends, which stay where they are."""
        found = (_INSIDE.search(self.text, *gap) for gap in self.gaps)
        return [match.span() for match in found if match]

    def near(self, mapping: Mapping) -> int:
        """Counts new values that keep something of themselves; where a key decides, all do."""
        lossy = (place for place in self.places if place.kind.loss or mapping.law)
        keys = {place.kind.key(self.text[place.start : place.end], place.shape) for place in lossy}
        return sum(not mapping.knows(key) for key in keys)

    def written(self, mapping: Mapping, public: Container[str]) -> Written:
        """Returns what stands in each place, and the pseudonyms; no new one is in ``public``."""
        text = self.view.text
        pairs = [mapping.pair(kind, text[a:b], shape, public) for a, b, kind, shape in self.places]
        written = [
            pair.pseudonym if kind.exact else cased(pair.pseudonym, text[a:b])
            for (a, b, kind, _), pair in zip(self.places, pairs, strict=True)
        ]
        return written, tuple(dict.fromkeys(pair.pseudonym for pair in pairs))

    def filled(self, written: list[str], start: int, end: int, spelling: View | None = None) -> str:
        """Returns a part of the text with what is written in its places.

        ``spelling`` is the raw text, where it is spelled as that is; else it is as it is seen.
        """
        first = bisect_left(self.places, start, key=itemgetter(0))
        behind = bisect_left(self.places, end, first, key=itemgetter(0))
        out, seen, text = list[str](), spelling, self.view.text
        if seen is not None and not (seen.starts or seen.values or PART in seen.raw):
            seen = None  # the two are the same
        for place, pseudonym in zip(self.places[first:behind], written[first:behind], strict=True):
            if seen is None:
                out += [text[start : place.start], pseudonym]
            else:
                out += [seen.slice(start, place.start), seen.spelled(pseudonym, *place[:2])]
            start = place.end
        return "".join([*out, text[start:end] if seen is None else seen.slice(start, end)])


def _number_at(view: View, start: int, end: int) -> Value | None:
    return view.number_at(start, end) if view.values else None


def places_of(view: View, entities: Iterable[Entity], kinds: Kinds = LABELS) -> list[Mention]:
    """Returns what is replaced of entities: of each at least something, of a number of JSON all."""
    text, places = view.inner, list[Mention]()
    for start, end, name in whole_words(text, _inside(view, entities), lambda e: kinds[e.kind]):
        if name == "person":
            start = titled(text, start, places[-1].end if places else 0)
        kind, mention = kinds[name], text[start:end]
        parts = kind.parts(mention)
        whole = _number_at(view, start, end) is None or [p[:2] for p in parts] == [(0, end - start)]
        if not (parts and whole):  # nothing of it would be replaced, or not all of a number
            kind, parts = Label(of=name), Label(of=name).parts(mention)
        for first, behind, shape in parts:
            own = Label(of=name) if kind.keeps_digits and "9" not in shape else kind
            places.append(Mention(start + first, start + behind, own, shape))
    return settled(text, places)


def _inside(view: View, entities: Iterable[Entity]) -> Iterator[Entity]:
    """The parts of entities that stand in values of JSON, or in no JSON; of numbers the whole."""
    done = 0
    for start, end, kind in entities:
        for part in _VALUES.finditer(view.inner, max(start, done), end):
            first, behind = part.span()
            number = _number_at(view, first, behind)
            if number is not None:
                first, behind = min(first, number.start), max(behind, number.end)
            yield Entity(first, behind, kind)
            done = behind


def settled(text: str, places: Iterable[Mention]) -> list[Mention]:
    """Places that end where words do; one that has grown is a label, which may reach further."""
    settling = list(places)
    while True:
        own = {place[:2] for place in settling}
        settling = list(whole_words(text, settling, attrgetter("kind")))
        grown = [n for n, place in enumerate(settling) if place[:2] not in own]
        if not grown:
            return settling
        for n in grown:
            kind = settling[n].kind
            label = kind if isinstance(kind, Label) else Label(of=kind.name)
            settling[n] = settling[n]._replace(kind=label, shape="")


def whole_words(text: str, spans: Iterable[S], kind_of: Callable[[S], Kind]) -> Iterator[S]:
    """Yields spans that end where words do; what touches the one before becomes a part of it."""
    last: S | None = None
    for span in spans:
        if last is not None and span.end <= last.end:
            continue
        start, end = widened(text, span.start, span.end, kind_of(span))
        if last is None or start > last.end:
            if last is not None:
                yield last
            moved = (start, end) != (span.start, span.end)
            last = span._replace(start=start, end=end) if moved else span
        elif end > last.end:
            last = last._replace(end=end)
    if last is not None:
        yield last


def widened(text: str, start: int, end: int, kind: Kind) -> tuple[int, int]:
    """Offsets at which a word or number ends, also one that begins with what is written there."""
    is_open = kind.numeric and NUMERAL.fullmatch(text[start:end]) is not None
    if not (is_open or text[start - 1 : start].isalnum() or text[end : end + 1].isalnum()):
        return start, end
    while start > 0 and (
        within_word(text, start)
        or _joins(text[start - 1], text[start : start + 1], kind)
        or (is_open and goes_on(text, start))
    ):
        start -= 1
    while end < len(text) and (
        _joins(text[end], text[end - 1 : end], kind) or (is_open and goes_on(text, end))
    ):
        end += 1
    return start, end


def _joins(outside: str, inside: str, kind: Kind) -> bool:
    """Whether a sign beside a span would be a part of the word that is written there."""
    if not is_word(outside):
        return False
    return not kind.keeps_digits or not inside.isdecimal() or outside.isdecimal()


def count(text: str) -> int:
    """Number of words and signs."""
    return len(_TOKENS.findall(text))


def ordinary(text: str, like: str) -> bool:
    """Whether a word is not a mention of a name but English: "will" is not "Will"."""
    return text.islower() and not like.islower() and text in frequencies.stop_words()


def between(spans: Iterable[Span], start: int, end: int) -> Iterator[Span]:
    """Yields what lies between sorted spans, in a part of a text."""
    for first, behind in spans:
        if start < first:
            yield start, min(first, end)
        start = max(start, behind)
    if start < end:
        yield start, end


def overlapping(spans: Sequence[Span], start: int, end: int) -> Sequence[Span]:
    """Returns those of sorted, disjoint spans that overlap a part of a text."""
    first = bisect_left(spans, (start,))
    first -= first > 0 and spans[first - 1][1] > start
    return spans[first : bisect_left(spans, (end,))]
