"""A text and its release, in marked pieces: what stayed, what changed, how likely that was."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple

from dp_middleware._forks import StaysHere
from dp_middleware._waits import told
from dp_middleware.privacy.releases import Release
from dp_middleware.pseudonyms.addresses import Hosts
from dp_middleware.pseudonyms.mapping import Mapping as Pairs
from dp_middleware.pseudonyms.matching import Names, Restorer
from dp_middleware.pseudonyms.pseudonyms import Pseudonyms
from dp_middleware.pseudonyms.rewriting import ordinary
from dp_middleware.sanitizers.draft import Draft
from dp_middleware.sanitizers.sanitizer import Sanitizer
from dp_middleware.sanitizers.whole import TextDraft
from dp_middleware.vocabulary.vocabulary import UNKNOWN, Vocabulary

Releaser = Sanitizer | Pseudonyms
What = Literal["blank", "stayed", "changed", "kept", "pseudonym"]
_SLACK = 3  # signs that may stand between two tokens of a released text


class Piece(NamedTuple):
    """A part of a text. **Private**."""

    text: str  # all pieces joined are the text
    what: What  # drawn as itself, or as another; public; a pseudonym, or what one stands for
    stays: float | None = None  # chance of being drawn as itself, where a law per token tells it


@dataclass(frozen=True, kw_only=True)
class Drawn(StaysHere):
    """A text as a reader sees it, its release, and what was drawn for it. **Private**."""

    text: str = field(repr=False)
    release: Release
    tokens: Draft | TextDraft | None = field(repr=False)  # ``None`` where nothing was drawn
    spans: Sequence[tuple[int, int]] = field(repr=False)  # the characters of these tokens
    mapping: Pairs | None = None  # with the pseudonyms, if there are any

    @classmethod
    def of(cls, releaser: Releaser, text: str) -> Drawn:
        """Releases a text, under pseudonyms in a conversation of its own."""
        with told("reading the text"):
            if isinstance(releaser, Sanitizer):
                draft = releaser.read(text)
                [(release, tokens)] = releaser.release_drafts([draft])
                return cls(text=text, release=release, tokens=tokens, spans=[(0, len(text))])
            mapping = Pairs()
            release, done = releaser.release_draft(releaser.read(text), mapping)
            return cls(
                text=done.text, release=release, tokens=done.drawn, spans=done.rest, mapping=mapping
            )

    @property
    def originals(self) -> dict[str, str]:
        """By their pseudonyms."""
        pairs = self.mapping.pairs if self.mapping is not None else ()
        return {pair.pseudonym: pair.original for pair in pairs}

    def restored(self, answer: str) -> str | None:
        """Returns an answer with the originals; ``None``: there are no pseudonyms."""
        if self.mapping is None:
            return None
        hosts = Hosts((self.text, self.release.text))
        return Restorer(self.mapping.pseudonyms, hosts=hosts).feed(answer, more=False)


class _Mark(NamedTuple):
    start: int
    end: int
    what: What
    stays: float | None = None


def of_original(
    text: str,
    spans: Sequence[tuple[int, int]],
    draft: Draft,
    vocabulary: Vocabulary,
    stays: Mapping[str, float],
) -> list[Piece]:
    """The typed text: tokens, how likely each ``stays``, and what pseudonyms stand for."""
    tokens = [
        (start, token) for start, end in spans for token in vocabulary.occurrences(text[start:end])
    ]
    marks = _outside(text, spans)
    for number, (offset, token) in enumerate(tokens):
        name = None if token.id == UNKNOWN else vocabulary.tokens[token.id]
        chance = stays.get(name) if name is not None else 0.0 if stays else None
        what = _became(draft, number)
        marks.append(_Mark(offset + token.start, offset + token.end, what, chance))
    return _pieces(text, marks, "blank")


def of_release(text: str, draft: Draft, vocabulary: Vocabulary) -> list[Piece]:
    """The released text: what was drawn for each token of the draft, and pseudonyms."""
    tokenizer, cursor = vocabulary.tokenizer, 0
    marks, spans = list[_Mark](), list[tuple[int, int]]()
    for public, span in zip(draft.public, draft.private, strict=False):  # one more is public
        start = cursor = cursor + len(public)
        numbers = range(span.tokens.start, span.tokens.stop)
        words = draft.words(vocabulary)[span.tokens]
        for number, word in zip(numbers, words, strict=True):
            bare = word.removeprefix(tokenizer.continuation).strip()
            place = text.find(bare, cursor, cursor + len(bare) + _SLACK)
            if place >= 0:  # else it was contracted with the one before
                cursor = place + len(bare)
                marks.append(_Mark(place, cursor, _became(draft, number)))
        cursor = start + len(tokenizer.join(words))
        spans.append((start, cursor))
    return _pieces(text, [*marks, *_outside(text, spans)], "blank")


def of_names(text: str, names: Iterable[str]) -> list[Piece]:
    """A text with pseudonyms, or with what they stand for; the rest goes out as it is."""
    looked_for = Names((name, name) for name in names)
    found = (
        _Mark(start, end, "pseudonym")
        for start, end, name in looked_for.find(text)
        if not ordinary(text[start:end], name)
    )
    return _pieces(text, found, "kept")


def _became(draft: Draft, number: int) -> What:
    if number in draft.kept:
        return "kept"
    same = draft.outputs[number] == draft.ids[number]
    return "stayed" if same else "changed"


def _outside(text: str, spans: Iterable[tuple[int, int]]) -> list[_Mark]:
    """What stands between spans, without the blanks at its ends: pseudonyms, or their values."""
    marks = []
    for (_, end), (start, _) in pairwise([(0, 0), *spans, (len(text), len(text))]):
        between = text[end:start]
        if between.strip():
            first = end + len(between) - len(between.lstrip())
            marks.append(_Mark(first, first + len(between.strip()), "pseudonym"))
    return marks


def _pieces(text: str, marks: Iterable[_Mark], other: What) -> list[Piece]:
    """The whole text in pieces; tokens that overlap, as parts of one sign may, are cut."""
    cursor, pieces = 0, list[Piece]()
    for start, end, what, stays in [*sorted(marks), _Mark(len(text), len(text), other)]:
        start, end = max(start, cursor), max(end, cursor)
        pieces += [Piece(text[cursor:start], other), Piece(text[start:end], what, stays)]
        cursor = end
    return [piece for piece in pieces if piece.text]
