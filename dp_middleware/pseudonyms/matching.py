"""Texts that are found again in another text, in any case and across any blanks."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

V = TypeVar("V")

_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
"""Scripts whose words are not parted by blanks."""

_PIECES = re.compile(rf"[^\W\d_{_UNSPACED}]+|(?:(?![{_UNSPACED}])\d)+|\S")
"""Words and digits up to where :func:`within_word` sees an end, and other signs alone."""

_OF_UNSPACED = re.compile(f"[{_UNSPACED}]")
_BLANKS = re.compile(r"\s*")
_NUMBER = re.compile(  # but no address of the internet
    r"(?!\d{1,3}(?:\.\d{1,3}){3}\Z)[$€£¥₹]?\s?"
    r"(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,3}(?:\.\d{3})+(?:,\d+)?|\d+(?:[.,]\d+)?)%?"
)
_ENCODED = re.compile(r"%\d[a-f]")
_UNDECIDED = re.compile(r"[.,]\d{0,3}\Z")  # of a number, or behind it
_ALIKE = str.maketrans("\u2018\u2019\u02bc\u2010\u2011\u2012\u2013\u2212", "'''-----")
"""Apostrophes and hyphens that a model or a word processor writes for one another."""


class Match(NamedTuple, Generic[V]):
    """Where a text was found, and what it stands for."""

    start: int
    end: int
    value: V


class Names(Generic[V]):
    """A set of texts, each with a value, that are looked for at the boundaries of words.

    Attributes:
        values: By what equal texts have in common.
    """

    def __init__(self, entries: Iterable[tuple[str, V]] = ()) -> None:
        self.values: dict[str, V] = {}
        self._heads: set[str] = set()  # the first pieces of all texts
        self._starts: set[str] = set()  # what a text begins with, up to the end of any piece
        self._sorted: list[str] = []
        for text, value in entries:
            self.add(text, value)

    def add(self, text: str, value: V) -> None:
        """Look for a text; the first value that it was given stays."""
        spelled = normal(text)
        if not spelled or spelled in self.values:
            return
        self.values[spelled] = value
        pieces = [piece.span() for piece in _PIECES.finditer(spelled)]
        self._heads.add(spelled[: pieces[0][1]])
        for (_, end), (start, _) in pairwise(pieces):
            self._starts |= {spelled[:end], spelled[:start]}

    def find(self, text: str, start: int = 0, folded: str | None = None) -> Iterator[Match[V]]:
        """The longest texts from left to right, none overlapping another.

        Args:
            text: Where to look.
            start: From which offset on; what stands before it is seen as the context of a word.
            folded: What :func:`fold` makes of the text, where that is known.
        """
        return self.find_in(text, [(start, len(text))], folded)

    def find_in(
        self, text: str, parts: Iterable[tuple[int, int]], folded: str | None = None
    ) -> Iterator[Match[V]]:
        """As :meth:`find`, in parts of a text, each with its first offset and that behind it."""
        if not self.values:
            return
        folded, heads = folded or fold(text), self._heads
        escapes = "\\" in text or "%" in text
        for start, end in parts:
            done = start
            for piece in _PIECES.finditer(folded, start, end):
                if not escapes and piece.group() not in heads:
                    continue
                for place in begins(folded, piece) if escapes else (piece.start(),):
                    if place < done or folded[place : piece.end()] not in heads:
                        continue
                    if within_word(text, place) and not (escapes and is_escaped(folded, place)):
                        continue
                    if (match := self._longest(text, folded, place, end)) is not None:
                        yield match
                        done = match.end

    def open_at(self, text: str, start: int, folded: str) -> int:
        """From which offset on the signs that follow a text decide what is found in it."""
        escapes = "\\" in text or "%" in text
        ending = _UNDECIDED.search(folded, max(0, len(folded) - 4))
        undecided = len(folded) if ending is None else ending.start()
        for piece in _PIECES.finditer(folded, start):
            for place in begins(folded, piece) if escapes else (piece.start(),):
                may_begin = piece.end() >= undecided or folded[place : piece.end()] in self._heads
                if (
                    may_begin
                    and (not within_word(text, place) or (escapes and is_escaped(folded, place)))
                    and self._is_open(folded, place, undecided)
                ):
                    return place
        return len(text)

    def _longest(self, text: str, folded: str, start: int, limit: int) -> Match[V] | None:
        best = None
        for end, spelled in self._walk(folded, start):
            if end <= limit and spelled in self.values and not within_word(text, end):
                inside = goes_on(text, start) or goes_on(text, end)
                if not (inside and is_number(spelled)):
                    best = Match(start, end, self.values[spelled])
        return best

    def _is_open(self, folded: str, start: int, undecided: int) -> bool:
        """Whether what stands from here to the end is the beginning of a text."""
        for end, spelled in self._walk(folded, start):
            blanks = _BLANKS.match(folded, end)
            if blanks is not None and blanks.end() >= undecided:
                surplus = end - undecided
                if 0 < surplus < len(spelled):
                    spelled = spelled[:-surplus]
                return self._begins(spelled + (" " if end < undecided else ""))
        return False

    def _begins(self, spelled: str) -> bool:
        if len(self._sorted) != len(self.values):
            self._sorted = sorted(self.values)
        place = bisect_left(self._sorted, spelled)
        return place < len(self._sorted) and self._sorted[place].startswith(spelled)

    def _walk(self, folded: str, place: int) -> Iterator[tuple[int, str]]:
        """What texts here may begin with, piece by piece, each with the offset behind it."""
        spelled = ""
        for piece in _PIECES.finditer(folded, place):
            if piece.start() > place:
                spelled += " "
                if spelled not in self._starts:
                    return
            spelled, place = spelled + piece.group(), piece.end()
            yield place, spelled
            if spelled not in self._starts:
                return


def fold(text: str) -> str:
    """Lower case and plain apostrophes and hyphens, sign by sign: offsets stay what they are."""
    lower = text.lower()
    if lower.isascii():
        return lower
    if len(lower) != len(text):
        lower = "".join(low if len(low := sign.lower()) == 1 else sign for sign in text)
    return lower.translate(_ALIKE)


def normal(text: str) -> str:
    """What equal texts have in common: :func:`fold`, and one blank for any."""
    folded = fold(text)
    return folded if folded.isalnum() else " ".join(folded.split())


def head(folded: str) -> str:
    """The first piece of a text that begins with no blank."""
    match = _PIECES.match(folded)
    return "" if match is None else match.group()


class Words:
    """A public text that is asked whether it holds others, which are :func:`normal`.

    Args:
        pieces: What lies between private places; nothing spans two of them.
    """

    def __init__(self, pieces: Iterable[str]) -> None:
        self._text = "\n".join(normal(piece) for piece in pieces)
        self._heads = frozenset(_PIECES.findall(self._text))

    def __contains__(self, spelled: object) -> bool:
        return isinstance(spelled, str) and head(spelled) in self._heads and spelled in self._text


def within_word(text: str, place: int) -> bool:
    """Whether the sign at an offset continues the word, or the digits, before it.

    Letters behind digits, or before them, are another word: a unit, a currency, an ordinal.
    """
    if not 0 < place < len(text):
        return False
    before, behind = text[place - 1], text[place]
    return is_word(before) and is_word(behind) and before.isdecimal() == behind.isdecimal()


def is_escaped(folded: str, place: int) -> bool:
    r"""Whether what stands before an offset may be an escape, such as ``\n`` or ``%0A``.

    Then a word may begin there, as well as with the letter of the escape.
    """
    return place > 1 and (
        (folded[place - 2] == "\\" and folded[place - 1] in "bfnrt")
        or (place > 2 and _ENCODED.match(folded, place - 3, place) is not None)
    )


def begins(folded: str, piece: re.Match[str]) -> Iterator[int]:
    """Where a word may begin in a piece."""
    place, end = piece.span()
    yield place
    if place + 1 < end and is_escaped(folded, place + 1):
        yield place + 1


def is_number(text: str) -> bool:
    """Whether a text is a number alone, which may go on behind a full stop or a comma."""
    return _NUMBER.fullmatch(text) is not None


def goes_on(text: str, place: int) -> bool:
    """Whether digits on both sides of an offset are of one number, by a sign that is beside it.

    A full stop makes one number of them, a comma where three digits follow it: "17,45" is two.
    """
    if not 0 < place < len(text):
        return False
    sign = place if text[place] in ".," else place - 1
    if sign < 1 or text[sign] not in ".," or not text[sign - 1].isdecimal():
        return False
    behind = text[sign + 1 : sign + 5]
    digits = next((n for n, sign in enumerate(behind) if not sign.isdecimal()), len(behind))
    return digits == 3 if text[sign] == "," else digits > 0


def overlapping(
    spans: Sequence[tuple[int, int]], start: int, end: int
) -> Sequence[tuple[int, int]]:
    """Returns those of sorted, disjoint spans that overlap a part of a text."""
    first = bisect_left(spans, (start,))
    first -= first > 0 and spans[first - 1][1] > start
    return spans[first : bisect_left(spans, (end,))]


def is_word(sign: str) -> bool:
    """Whether a sign is part of a word of a script with blanks, or of a number."""
    return sign.isalnum() and (sign < "\u0e00" or not _OF_UNSPACED.match(sign))
