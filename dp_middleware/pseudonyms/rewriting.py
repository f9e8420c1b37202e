"""A private text cut into what is public and what pseudonyms stand for."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import itemgetter
from typing import NamedTuple

from dp_middleware._forks import StaysHere
from dp_middleware.pseudonyms.detection import Entity, Value, View, covered
from dp_middleware.pseudonyms.kinds import LABELS, Kinds, Label
from dp_middleware.pseudonyms.kinds.names import titled
from dp_middleware.pseudonyms.mapping import Kind, Mapping, Pair, Spoken
from dp_middleware.pseudonyms.matching import (
    NUMERAL,
    Names,
    cased,
    fold,
    goes_on,
    is_word,
    within_word,
)
from dp_middleware.sanitizers.draft import Draft
from dp_middleware.vocabulary import frequencies

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
    kept: tuple[Span, ...] = field(default=(), repr=False)  # no further mentions
    used: tuple[str, ...] = ()  # the pseudonyms, once they are written
    drawn: Draft | None = field(default=None, repr=False)  # for the rest, by a sanitizer

    @property
    def text(self) -> str:
        """The text as a reader sees it. Private."""
        return self.view.text

    def complete(self, mapping: Mapping, public: bool = True) -> PseudonymDraft:
        """Adds further mentions of all entities, and of pseudonyms that stand in a public rest."""
        draft, text, seen = self, self.view.inner, self.view.text
        kept, folded = covered(len(text), self.kept) if self.kept else b"", fold(text)
        values = dict[str, Mention]()
        for place in self.places:
            values.setdefault(seen[place.start : place.end], place)
        own = Names((v, Pair(p.kind, p.shape, "", v, "")) for v, p in values.items())
        for names in (own, mapping.originals, *[mapping.pseudonyms] * public):
            new = list[Mention]()
            for start, end, pair in names.find(text, draft.gaps, folded):
                like = pair.pseudonym if names is mapping.pseudonyms else pair.original
                if 1 in kept[start:end] or ordinary(text[start:end], like):
                    continue
                mention = Mention(start, end, pair.kind, pair.shape)
                if (number := _number_at(self.view, start, end)) and number[:2] != (start, end):
                    mention = Mention(*number[:2], Label(of=pair.kind.name), "")  # of a number all
                new.append(mention)
            if new:
                places = sorted([*draft.places, *new], key=itemgetter(0))
                draft = replace(draft, places=tuple(settled(text, places)))
        return draft

    def spoken(self, language: str) -> PseudonymDraft:
        """Returns the same with what is drawn, and dates and phone numbers read, in a language."""
        places = list(self.places)
        for n, (start, end, kind, shape) in enumerate(places):
            if isinstance(kind, Spoken) and kind.language is None:
                kind = kind.of(language)
                parts = kind.parts(self.text[start:end]) if kind.numeric else []
                if [part[:2] for part in parts] == [(0, end - start)]:
                    shape = parts[0].shape
                places[n] = Mention(start, end, kind, shape)
        return replace(self, places=tuple(places))

    @cached_property
    def gaps(self) -> list[Span]:
        """The offsets of what is between the places, before the first and behind the last."""
        ends = [0, *(place.end for place in self.places)]
        starts = [*(place.start for place in self.places), len(self.view.text)]
        return [gap for gap in zip(ends, starts, strict=True) if gap[0] < gap[1]]

    @property
    def rest(self) -> list[Span]:
        """The gaps without blanks at their ends, which stay where they are."""
        found = (_INSIDE.search(self.text, *gap) for gap in self.gaps)
        return [match.span() for match in found if match]

    def near(self, mapping: Mapping) -> int:
        """Counts new values that keep something of themselves; where a key decides, all do."""
        lossy = (place for place in self.places if place.kind.loss or mapping.law)
        keys = {place.kind.key(self.text[place.start : place.end], place.shape) for place in lossy}
        return sum(not mapping.knows(key) for key in keys)

    def written(self, mapping: Mapping, public: Container[str]) -> tuple[list[str], list[str]]:
        """Returns what stands in each place, and the pseudonyms; no new one is in ``public``."""
        text = self.view.text
        pairs = [mapping.pair(kind, text[a:b], shape, public) for a, b, kind, shape in self.places]
        written = [
            pair.pseudonym if kind.exact else cased(pair.pseudonym, text[a:b])
            for (a, b, kind, _), pair in zip(self.places, pairs, strict=True)
        ]
        return written, list(dict.fromkeys(pair.pseudonym for pair in pairs))

    def filled(self, written: Sequence[str], start: int, end: int, *, spelled: bool) -> str:
        """Returns a part with what is written in its places, spelled as the raw text or as seen."""
        out, view = list[str](), self.view
        spelled = spelled and not view.is_plain
        part = view.slice if spelled else lambda a, b: view.text[a:b]
        first = bisect_left(self.places, start, key=itemgetter(0))
        behind = bisect_left(self.places, end, first, key=itemgetter(0))
        for place, pseudonym in zip(self.places[first:behind], written[first:behind], strict=True):
            out.append(part(start, place.start))
            out.append(view.spelled(pseudonym, *place[:2]) if spelled else pseudonym)
            start = place.end
        return "".join([*out, part(start, end)])


def places_of(view: View, entities: Iterable[Entity], kinds: Kinds = LABELS) -> list[Mention]:
    """Returns what is replaced of entities: of each at least something, of a number of JSON all."""
    text, places = view.inner, list[Mention]()
    for start, end, kind, name in whole_words(text, _inside(view, entities, kinds)):
        if name == "person":
            start = titled(text, start, places[-1].end if places else 0)
        parts = kind.parts(text[start:end])
        whole = _number_at(view, start, end) is None or [p[:2] for p in parts] == [(0, end - start)]
        if not (parts and whole):  # nothing of it would be replaced, or not all of a number
            kind, parts = Label(of=name), Label(of=name).parts(text[start:end])
        for first, behind, shape in parts:
            own = Label(of=name) if kind.keeps_digits and "9" not in shape else kind
            places.append(Mention(start + first, start + behind, own, shape))
    return settled(text, places)


def _inside(view: View, entities: Iterable[Entity], kinds: Kinds) -> Iterator[Mention]:
    """The parts of entities inside of values of JSON, of numbers all; the shape names the kind."""
    done = 0
    for start, end, name in entities:
        for part in _VALUES.finditer(view.inner, max(start, done), end):
            first, behind = part.span()
            if number := _number_at(view, first, behind):
                first, behind = min(first, number.start), max(behind, number.end)
            yield Mention(first, behind, kinds[name], name)
            done = behind


def _number_at(view: View, start: int, end: int) -> Value | None:
    value = view.value_at(start, end) if view.values else None
    return value if value and value.bare else None


def settled(text: str, places: Iterable[Mention]) -> list[Mention]:
    """Places that end where words do; one that has grown is a label, which may reach further."""
    settling = list(places)
    while True:
        own = {place[:2] for place in settling}
        settling = list(whole_words(text, settling))
        grown = [n for n, place in enumerate(settling) if place[:2] not in own]
        if not grown:
            return settling
        for n in grown:
            kind = settling[n].kind
            label = kind if isinstance(kind, Label) else Label(of=kind.name)
            settling[n] = settling[n]._replace(kind=label, shape="")


def whole_words(text: str, spans: Iterable[Mention]) -> Iterator[Mention]:
    """Yields spans that end where words do; what touches the one before becomes a part of it."""
    last: Mention | None = None
    for span in spans:
        if last and span.end <= last.end:
            continue
        start, end = _widened(text, span.start, span.end, span.kind)
        if last and start <= last.end:
            last = last._replace(end=max(end, last.end))
            continue
        if last:
            yield last
        moved = (start, end) != span[:2]
        last = span._replace(start=start, end=end) if moved else span
    if last:
        yield last


def _widened(text: str, start: int, end: int, kind: Kind) -> Span:
    """Offsets at which a word or number ends, also one that begins with what is written there."""
    is_open = kind.numeric and NUMERAL.fullmatch(text[start:end]) is not None
    if not (is_open or text[start - 1 : start].isalnum() or text[end : end + 1].isalnum()):
        return start, end

    def joins(outside: str, inside: str) -> bool:  # would be of the word that is written there
        is_apart = kind.keeps_digits and inside.isdecimal() and not outside.isdecimal()
        return is_word(outside) and not is_apart

    while start > 0 and (
        within_word(text, start)
        or joins(text[start - 1], text[start : start + 1])
        or (is_open and goes_on(text, start))
    ):
        start -= 1
    while end < len(text) and (
        joins(text[end], text[end - 1 : end]) or (is_open and goes_on(text, end))
    ):
        end += 1
    return start, end


def count(text: str) -> int:
    """Number of words and signs."""
    return len(_TOKENS.findall(text))


def ordinary(text: str, like: str) -> bool:
    """Whether a word is not a mention of a name but English: "will" is not "Will"."""
    return text.islower() and not like.islower() and text in frequencies.stop_words()
