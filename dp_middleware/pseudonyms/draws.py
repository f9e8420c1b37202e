"""How a mention is cut into parts, and how what may be used is drawn for one."""

from __future__ import annotations

import itertools
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

EDGES = "()[]{}<>\"'“”\u2018’«»„.,;:!?¡¿…"  # stay around what is replaced
_NO_EDGE = rf"[^\s{re.escape(EDGES)}]"
# a text without blanks and punctuation around
CORE = re.compile(rf"{_NO_EDGE}(?:.*{_NO_EDGE})?", re.DOTALL)
ALPHABETS = {
    "9": "0123456789",
    "1": "123456789",
    "A": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "a": "abcdefghijklmnopqrstuvwxyz",
}

# whether a pseudonym may be used: no other entity has it, and the public text does not hold it
Free = Callable[[str], bool]


class Draws:
    """The randomness of one session, and what is drawn with it."""

    agree: ClassVar[bool] = False  # whether others draw the same for a value

    def below(self, n: int) -> int:
        """Draws uniformly from 0 .. n - 1, anew at every call."""
        raise NotImplementedError

    def once(self, name: str, n: int) -> int:
        """Draws uniformly from 0 .. n - 1, once for a session, which keeps it secret."""
        raise NotImplementedError

    def first(self, name: str, value: int) -> int:
        """Returns what came first with this name in the session, which keeps it secret."""
        raise NotImplementedError

    def choice(self, values: Sequence[str]) -> str:
        """Draws a uniform one."""
        return values[self.below(len(values))]

    def pick(self, weights: Sequence[int]) -> int:
        """Draws a place with probability proportional to its weight, exactly."""
        ends = [*itertools.accumulate(weights)]
        return bisect_right(ends, self.below(ends[-1]))

    def left(self, values: Sequence[str], free: Free) -> str | None:
        """Draws a uniform one of those that may be used."""
        rest = [value for value in values if free(value)]
        return self.choice(rest) if rest else None

    def fill(self, shape: str) -> str:
        """Draws a uniform text of a pattern."""
        return "".join(self.choice(ALPHABETS[c]) if c in ALPHABETS else c for c in shape)


class Part(NamedTuple):
    """Characters of a mention, by their offsets in it, that are replaced by one pseudonym."""

    start: int
    end: int
    shape: str  # what of them is declared public and kept, such as the format of a number


def words(text: str) -> frozenset[str]:
    """Returns a list of words that are public."""
    return frozenset(text.split())


def core(text: str, start: int, end: int) -> tuple[int, int]:
    """Returns offsets without blanks and punctuation around; of punctuation alone nothing."""
    match = CORE.search(text, start, end)
    return match.span() if match else (end, end)


def whole(mention: str, shape: str = "") -> list[Part]:
    """Returns all but blanks and punctuation around; punctuation where there is nothing else."""
    start, end = core(mention, 0, len(mention))
    if start == end:
        end = len(mention.rstrip())
        start = len(mention) - len(mention.lstrip())
    return [Part(start, end, shape)] if start < end else []


def pattern(text: str) -> str:
    """Returns digits as 9, capitals as A, other letters and rare signs as a, the rest as it is."""
    return "".join(_class(character) for character in text)


def _class(character: str) -> str:
    if character.isdecimal():
        return "9"
    if character.isupper():
        return "A"
    if unicodedata.category(character)[0] in "PZ" or character in " \t\r\n+=$<>|~^`":
        return character
    return "a"
