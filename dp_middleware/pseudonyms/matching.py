"""Texts that are found again in another text, in any case and across any blanks, and restored."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Generic, TypeVar

from dp_middleware.pseudonyms.addresses import POSSIBLE, Hosts, opening, stays

V = TypeVar("V")
Span = tuple[int, int]
Spans = Sequence[Span]

# scripts whose words are not parted by blanks
_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
_OF_UNSPACED = re.compile(f"[{_UNSPACED}]")
# words and digits up to where within_word sees an end, and other signs alone
_PIECES = re.compile(rf"[^\W\d_{_UNSPACED}]+|(?:(?![{_UNSPACED}])\d)+|\S")
_BLANKS = re.compile(r"\s*")
NUMERAL = re.compile(  # alone, which may go on behind a sign; no address of the internet
    r"(?!\d{1,3}(?:\.\d{1,3}){3}\Z)[$€£¥₹]?\s?"
    r"(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,3}(?:\.\d{3})+(?:,\d+)?|\d+(?:[.,]\d+)?)%?"
)
_ENCODED = re.compile(r"%\d[a-f]")
_DIGITS = re.compile(r"\d*")
_UNDECIDED = re.compile(r"[.,]\d{0,3}\Z")  # of a number, or behind it
# apostrophes and hyphens that a model or a word processor writes for one another
_ALIKE = str.maketrans("\u2018\u2019\u02bc\u2010\u2011\u2012\u2013\u2212", "'''-----")
# what stands for a value that no law of its kind can replace
LABEL = re.compile(r"[A-Z][A-Z_ -]*_[0-9]+")
_BEGINNING = 80  # signs before a place that tell whether it continues a word or begins an address
_ADDRESS = 300  # signs at the beginning and at the end of an open address that tell what it is


class Names(Generic[V]):
    """A set of texts, each with a value, that are looked for at the boundaries of words."""

    def __init__(self, entries: Iterable[tuple[str, V]] = ()) -> None:
        self.values: dict[str, V] = {}  # by what equal texts have in common
        self._heads: set[str] = set()  # the first pieces of all texts
        self._starts: set[str] = set()  # what a text begins with, up to the end of any piece
        self._sorted: list[str] = []
        for text, value in entries:
            self.add(text, value)

    def add(self, text: str, value: V) -> None:
        """Looks for a text; the first value that it was given stays."""
        spelled = normal(text)
        if not spelled or spelled in self.values:
            return
        self.values[spelled] = value
        pieces = [piece.span() for piece in _PIECES.finditer(spelled)]
        self._heads.add(spelled[: pieces[0][1]])
        for (_, end), (start, _) in pairwise(pieces):
            self._starts |= {spelled[:end], spelled[:start]}

    def find(
        self, text: str, parts: Spans | None = None, folded: str | None = None
    ) -> Iterator[tuple[int, int, V]]:
        """Yields ends and values of the longest texts in parts; ``folded`` is by :func:`fold`."""
        if not self.values:
            return
        folded, done = folded or fold(text), 0
        parts = [(0, len(text))] if parts is None else parts
        for place, limit in self._places(text, folded, parts, len(text) + 1):
            longest = self._longest(text, folded, place, limit) if place >= done else None
            if longest is not None:
                done, spelled = longest
                yield place, done, self.values[spelled]

    def open_at(self, text: str, start: int, folded: str) -> int:
        """Tells from which offset on the signs that follow a text decide what is found in it."""
        ending = _UNDECIDED.search(folded, max(0, len(folded) - 4))
        undecided = len(folded) if ending is None else ending.start()
        for place, _ in self._places(text, folded, [(start, len(folded))], undecided):
            if self._is_open(folded, place, undecided):
                return place
        return len(text)

    def _places(self, text: str, folded: str, parts: Spans, undecided: int) -> Iterator[Span]:
        """Where a text may begin, with a known or an undecided piece, and where its part ends."""
        escapes, heads, decided = "\\" in text or "%" in text, self._heads, undecided > len(text)
        for start, end in parts:
            for piece in _PIECES.finditer(folded, start, end):
                is_head = escapes or piece.group() in heads
                if not is_head and (decided or piece.end() < undecided):
                    continue
                first, behind = piece.span()
                for place in range(first, min(first + 1 + escapes, behind)):  # behind an escape
                    if (folded[place:behind] in heads or behind >= undecided) and (
                        (place == first and not within_word(text, place))
                        or is_escaped(folded, place)
                    ):
                        yield place, end

    def _longest(self, text: str, folded: str, start: int, limit: int) -> tuple[int, str] | None:
        best = None
        for end, spelled in self._walk(folded, start):
            if end <= limit and spelled in self.values and not within_word(text, end):
                inside = goes_on(text, start) or goes_on(text, end)
                if not (inside and NUMERAL.fullmatch(spelled)):
                    best = end, spelled
        return best

    def _is_open(self, folded: str, start: int, undecided: int) -> bool:
        """Whether what stands from here to the end is the beginning of a text."""
        for end, spelled in self._walk(folded, start):
            blanks = _BLANKS.match(folded, end)
            if blanks is not None and blanks.end() >= undecided:
                surplus = end - undecided
                if 0 < surplus < len(spelled):
                    spelled = spelled[:-surplus]
                spelled += " " if end < undecided else ""
                if len(self._sorted) != len(self.values):
                    self._sorted = sorted(self.values)
                after = bisect_left(self._sorted, spelled)
                return after < len(self._sorted) and self._sorted[after].startswith(spelled)
        return False

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


class Restorer:
    """Restores a text in pieces, but for pseudonyms in addresses of other hosts than are given."""

    def __init__(self, names: Names[Any], *, hosts: Hosts | None = None) -> None:
        self._names, self._hosts = names, hosts
        self._text, self._done = "", 0

    def close(self) -> str:
        """Returns the rest."""
        return self.feed("", more=False)

    def feed(self, piece: str, more: bool = True) -> str:
        """Returns what is certain after a further piece, and whether there may be more."""
        context = self._context()
        self._text, self._done = context + self._text[self._done :] + piece, len(context)
        names, text, out = self._names, self._text, list[str]()
        folded, hosts = fold(text), self._hosts if POSSIBLE.search(text) else None
        limit = names.open_at(text, self._done, folded) if more else len(text)
        for start, end, pair in list(names.find(text, [(self._done, len(text))], folded)):
            if start >= limit:
                break
            like = text[start:end]
            foreign = hosts is not None and stays(text, start, end, hosts, more)
            if foreign is None:
                limit = start
                break
            if not foreign:
                like = pair.original if pair.kind.exact else cased(pair.original, like)
            out += [text[self._done : start], like]
            self._done = end
            if end > limit:  # what was undecided has been decided by this match
                limit = names.open_at(text, end, folded)
        out.append(text[self._done : max(limit, self._done)])
        self._done = max(limit, self._done)
        return "".join(out)

    def _context(self) -> str:
        """What stands before the place where it goes on, as far as it matters."""
        begun = None
        if self._hosts is not None and POSSIBLE.search(self._text):
            begun = opening(self._text, self._done)
        start = self._done if begun is None else begun
        context = self._text[max(0, start - _BEGINNING) : self._done]
        return context if len(context) <= 2 * _ADDRESS else context[:_ADDRESS] + context[-_ADDRESS:]


def restore(text: str, names: Names[Any]) -> str:
    """Returns a whole text with the originals in place of their pseudonyms."""
    return Restorer(names).feed(text, more=False)


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


class Words:
    """Public texts between private places, asked whether they hold others, as of :func:`normal`."""

    def __init__(self, pieces: Iterable[str]) -> None:
        self._text = "\n".join(normal(piece) for piece in pieces)
        self._heads = frozenset(_PIECES.findall(self._text))

    def __contains__(self, spelled: object) -> bool:
        first = _PIECES.match(spelled) if isinstance(spelled, str) else None
        return first is not None and first.group() in self._heads and first.string in self._text


def cased(text: str, like: str) -> str:
    """Returns a pseudonym, or an original, in the case of another spelling; labels have one."""
    if LABEL.fullmatch(text) or LABEL.fullmatch(like):
        return text
    if len(like) > 1 and like.isupper():
        return text.upper()
    return text.lower() if like.islower() else text


def within_word(text: str, place: int) -> bool:
    """Tells whether the sign at an offset continues the word, or the digits, before it."""
    if not 0 < place < len(text):
        return False
    before, behind = text[place - 1], text[place]
    return is_word(before) and is_word(behind) and before.isdecimal() == behind.isdecimal()


def is_escaped(folded: str, place: int) -> bool:
    r"""Tells whether before an offset may stand an escape, such as ``\n`` or ``%0A``."""
    return place > 1 and (
        (folded[place - 2] == "\\" and folded[place - 1] in "bfnrt")
        or (place > 2 and _ENCODED.match(folded, place - 3, place) is not None)
    )


def goes_on(text: str, place: int) -> bool:
    """Tells whether digits around an offset are of one number, by a point, or a comma and three."""
    if not 0 < place < len(text):
        return False
    sign = place if text[place] in ".," else place - 1
    if sign < 1 or text[sign] not in ".," or not text[sign - 1].isdecimal():
        return False
    digits = len(_DIGITS.findall(text, sign + 1, sign + 5)[0])
    return digits == 3 if text[sign] == "," else digits > 0


def is_word(sign: str) -> bool:
    """Whether a sign is part of a word of a script with blanks, or of a number."""
    return sign.isalnum() and (sign < "\u0e00" or not _OF_UNSPACED.match(sign))
