"""Texts that are found again in another text, in any case and across any blanks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

V = TypeVar("V")

_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
"""Scripts whose words are not parted by blanks."""

_VALUE = object()  # the key in a node of what ends there


class Match(NamedTuple, Generic[V]):
    """Where a text was found, and what it stands for."""

    start: int
    end: int
    value: V


class Names(Generic[V]):
    """A set of texts, each with a value, that are looked for at the boundaries of words."""

    def __init__(self) -> None:
        self._root: dict[Any, Any] = {}

    def add(self, text: str, value: V) -> None:
        """Look for a text; the first value that it was given stays."""
        node = self._root
        for sign in " ".join(fold(text).split()):
            node = node.setdefault(sign, {})
        if node is not self._root:
            node.setdefault(_VALUE, value)

    def get(self, text: str) -> V | None:
        """The value of just this text."""
        node: Any = self._root
        for sign in " ".join(fold(text).split()):
            node = node.get(sign)
            if node is None:
                return None
        return node.get(_VALUE) if node is not self._root else None

    def find(self, text: str, start: int = 0) -> Iterator[Match[V]]:
        """The longest texts from left to right, none overlapping another.

        Args:
            text: Where to look.
            start: From which offset on; what stands before it is seen as the context of a word.
        """
        return self.find_in(text, [(start, len(text))])

    def find_in(self, text: str, parts: Iterable[tuple[int, int]]) -> Iterator[Match[V]]:
        """As :meth:`find`, in parts of a text, each with its first offset and that behind it."""
        folded = fold(text)
        for place, end in parts if self._root else ():
            while place < end:
                match = None
                if not within_word(text, place):
                    match = self._longest(text, folded, place, end)
                if match is not None:
                    yield match
                place = place + 1 if match is None else match.end

    def open_at(self, text: str, start: int = 0) -> int:
        """From which offset on the signs that follow a text decide what is found in it."""
        folded = fold(text)
        for place in range(start, len(text)):
            if not within_word(text, place) and self._reaches_end(folded, place):
                return place
        return len(text)

    def _longest(self, text: str, folded: str, start: int, limit: int) -> Match[V] | None:
        best = None
        for end, node in self._walk(folded, start):
            if end <= limit and _VALUE in node and not within_word(text, end):
                best = Match(start, end, node[_VALUE])
        return best

    def _reaches_end(self, folded: str, start: int) -> bool:
        end = max((end for end, _ in self._walk(folded, start)), default=start)
        undecided = len(folded) - folded.endswith((".", ","))  # of a number, or behind it
        return end > start and end >= undecided

    def _walk(self, folded: str, place: int) -> Iterator[tuple[int, dict[Any, Any]]]:
        """The nodes that a text leads to, each with the offset behind it."""
        node = self._root
        while place < len(folded):
            blank = folded[place].isspace()
            behind = node.get(" " if blank else folded[place])
            if behind is None:
                return
            node, place = behind, place + 1
            while blank and place < len(folded) and folded[place].isspace():
                place += 1
            yield place, node


def fold(text: str) -> str:
    """Lower case, sign by sign: offsets stay what they are."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(low if len(low := sign.lower()) == 1 else sign for sign in text)


def within_word(text: str, place: int) -> bool:
    """Whether the sign at an offset continues the word, or the number, before it.

    Letters behind digits, or before them, are another word: a unit, a currency, an ordinal.
    """
    if not 0 < place < len(text):
        return False
    before, behind = text[place - 1], text[place]
    if is_word(before):
        if is_word(behind):
            return before.isdigit() == behind.isdigit()
        return before.isdigit() and behind in ".," and text[place + 1 : place + 2].isdigit()
    return behind.isdigit() and before in ".," and place > 1 and text[place - 2].isdigit()


def is_word(sign: str) -> bool:
    """Whether a sign is part of a word of a script with blanks, or of a number."""
    return sign.isalnum() and (sign < "\u0e00" or not _UNSPACED.match(sign))
