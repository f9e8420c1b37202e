"""Laws that several kinds draw from, independent of the value but the staircase; public lists.

The lists are Faker's, of the extra ``detect``, loaded where they are used.
"""

from __future__ import annotations

import itertools
import math
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from dp_middleware.errors import ParameterError, library
from dp_middleware.pseudonyms.kinds.base import Draws, Free, Part

TRIES = 16  # draws from a list before entries are combined
PATTERN_TRIES = 500  # draws of a pattern before it counts as used up
LISTED = 2000  # patterns with at most so many texts are drawn from what is left of them
MOST_WORDS = 20
EDGES = frozenset("""()[]{}<>"'“”\u2018’«»„.,;:!?¡¿…""")  # stay around what is replaced
ALPHABETS = {
    "9": "0123456789",
    "1": "123456789",
    "A": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "a": "abcdefghijklmnopqrstuvwxyz",
}


def words(text: str) -> frozenset[str]:
    """A list of words that are public."""
    return frozenset(text.split())


def core(text: str, start: int, end: int) -> tuple[int, int]:
    """Offsets without blanks and punctuation around; nothing is left of punctuation alone."""
    while start < end and (text[start].isspace() or text[start] in EDGES):
        start += 1
    while start < end and (text[end - 1].isspace() or text[end - 1] in EDGES):
        end -= 1
    return start, end


def whole(mention: str, shape: str) -> list[Part]:
    """One part: all but blanks and punctuation around; punctuation where there is nothing else."""
    start, end = core(mention, 0, len(mention))
    if start == end:
        end = len(mention.rstrip())
        start = len(mention) - len(mention.lstrip())
    return [Part(start, end, shape)] if start < end else []


def choice(values: Sequence[str], draws: Draws) -> str:
    """A uniform one."""
    return values[draws.below(len(values))]


def combined(name: str, one: Callable[[], str], joint: str, free: Free) -> str:
    """A draw that may be used; where the list seems used up, two draws in one word, or more.

    Raises:
        ParameterError: Nothing of this kind may be used.
    """
    for length in range(1, MOST_WORDS):
        for _ in range(TRIES):
            text = joint.join(one() for _ in range(length))
            if free(text):
                return text
    raise ParameterError(f"no pseudonym of the kind {name} may be used; begin a new session")


def label(name: str, free: Free, draws: Draws) -> str:
    """Such as "NRP_47": a uniform number of two digits, of more where these are in use.

    Raises:
        ParameterError: Nothing of this kind may be used.
    """
    for digits in range(2, MOST_WORDS):
        low = 10 ** (digits - 1)
        for _ in range(TRIES):
            text = f"{name.upper()}_{low + draws.below(9 * low)}"
            if free(text):
                return text
    raise ParameterError(f"no pseudonym of the kind {name} may be used; begin a new session")


def left(values: Sequence[str], free: Free, draws: Draws) -> str | None:
    """A uniform one of those that may be used."""
    rest = [value for value in values if free(value)]
    return choice(rest, draws) if rest else None


def pattern(text: str) -> str:
    """Digits as 9, capitals as A, other letters and unusual characters as a, the rest as it is."""
    return "".join(_class(character) for character in text)


def _class(character: str) -> str:
    if character.isdecimal():
        return "9"
    if character.isupper():
        return "A"
    if unicodedata.category(character)[0] in "PZ" or character in " \t\r\n+=$<>|~^`":
        return character
    return "a"


def fill(shape: str, draws: Draws) -> str:
    """A uniform text of a pattern."""
    return "".join(
        choice(ALPHABETS[character], draws) if character in ALPHABETS else character
        for character in shape
    )


def draw_pattern(name: str, shape: str, free: Free, draws: Draws) -> str:
    """A uniform text of a pattern that may be used; a label where none seems left."""
    if not any(character in ALPHABETS for character in shape):
        return label(name, free, draws)
    sets = [ALPHABETS.get(character, character) for character in shape]
    if math.prod(map(len, sets)) <= LISTED:
        text = left(["".join(each) for each in itertools.product(*sets)], free, draws)
        return label(name, free, draws) if text is None else text
    for _ in range(PATTERN_TRIES):
        text = fill(shape, draws)
        if free(text):
            return text
    return label(name, free, draws)


STEEPEST = 600.0
"""Nats; the exponential of some more is no number."""


@dataclass(frozen=True)
class Staircase:
    """Of the points of a public grid, the nearest ones are more likely by one factor.

    Guarantee:
        Every row has the same number of near points (windows move inside at the ends), so all
        normalisers are equal and two rows differ by :attr:`loss` at most; exactly by it where
        not all points are near.

    Attributes:
        epsilon: Nats between any two values. Positive; above :data:`STEEPEST` the law is that of
            this number.
    """

    epsilon: float

    @property
    def weights(self) -> tuple[int, int]:
        """Of a near point and of another: e^epsilon, rounded down."""
        other = 1 << 20
        return max(
            other, math.floor(math.exp(min(self.epsilon, STEEPEST)) * (1 - 2**-50) * other)
        ), other

    @property
    def loss(self) -> float:
        """Nats, at most epsilon."""
        near, other = self.weights
        return math.log(near / other)

    def near_points(self, points: int) -> int:
        """How many points of a grid are near.

        With a share x of the points, a long grid and a uniform value, the mean error is
        (a x^2 / 4 + 1/3) / (a x + 1) of its length, a = e^epsilon - 1; this share makes it least.
        """
        a = math.expm1(min(self.epsilon, STEEPEST))
        share = (math.sqrt(1 + 4 * a / 3) - 1) / a
        return min(points, max(1, round(share * points)))

    def row(self, below: int, points: int) -> list[int]:
        """Weights of all points for a value.

        Args:
            below: How many points are smaller than the value.
            points: At least one.
        """
        near, other = self.weights
        width = self.near_points(points)
        start = min(max(below - width // 2, 0), points - width)
        return [other] * start + [near] * width + [other] * (points - width - start)


def pick(weights: Sequence[int], draws: Draws) -> int:
    """A place with probability proportional to its weight, exactly."""
    ends = [*itertools.accumulate(weights)]
    return bisect_right(ends, draws.below(ends[-1]))


@cache
def names(attribute: str, locale: str = "en_US") -> tuple[str, ...]:
    """Faker's names of people whose list's name starts so: every name once, in Faker's order."""
    provider = library(f"faker.providers.person.{locale}", "detect").Provider
    lists = [getattr(provider, name) for name in dir(provider) if name.startswith(attribute)]
    every = (word for each in lists for word in each if isinstance(word, str))
    return tuple(dict.fromkeys(word for word in every if word and " " not in word))


def given_names(locale: str = "en_US") -> tuple[str, ...]:
    """Of all genders."""
    return names("first_names", locale)


def family_names(locale: str = "en_US") -> tuple[str, ...]:
    """Of all genders."""
    return names("last_names", locale)


@cache
def gendered_names(gender: str) -> frozenset[str]:
    """American given names of one gender alone, in lower case."""
    other = "male" if gender == "female" else "female"
    lists = [{name.casefold() for name in names(f"first_names_{each}")} for each in (gender, other)]
    return frozenset(lists[0] - lists[1])


@cache
def town_endings() -> tuple[str, ...]:
    """With which Faker makes towns of names, such as "ville"."""
    provider = library("faker.providers.address.en_US", "detect").Provider
    return tuple(dict.fromkeys(provider.city_suffixes))


@cache
def street_words() -> frozenset[str]:
    """Kinds of street in lower case, such as "avenue", and short forms of the usual ones."""
    provider = library("faker.providers.address.en_US", "detect").Provider
    short = words("st ave rd blvd dr ln ct pl sq hwy pkwy ter cir")
    return frozenset(word.casefold() for word in provider.street_suffixes) | short
