"""A kind of entity: how a mention is cut into parts, and from which law a part is replaced.

Laws do not depend on the value but for those that stay near it. Public lists are Faker's, of the
extra ``detect``, loaded where they are used.
"""

from __future__ import annotations

import itertools
import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, NamedTuple, Protocol

from dp_middleware.errors import ParameterError, library
from dp_middleware.pseudonyms.matching import normal

LABEL = re.compile(r"[A-Z][A-Z_ -]*_[0-9]+")
"""What stands for a value that no law of its kind can replace."""

TRIES = 16  # draws from a list before entries are combined
PATTERN_TRIES = 500  # draws of a pattern before it counts as used up
LISTED = 2000  # patterns with at most so many texts are drawn from what is left of them
MOST_WORDS = 20
EDGES = "()[]{}<>\"'“”\u2018’«»„.,;:!?¡¿…"  # stay around what is replaced
_NO_EDGE = rf"[^\s{re.escape(EDGES)}]"
CORE = re.compile(rf"{_NO_EDGE}(?:.*{_NO_EDGE})?", re.DOTALL)
"""A text without blanks and punctuation around."""

ALPHABETS = {
    "9": "0123456789",
    "1": "123456789",
    "A": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "a": "abcdefghijklmnopqrstuvwxyz",
}

Free = Callable[[str], bool]
"""Whether a pseudonym may be used: no other entity has it, and the public text does not hold it."""


class Draws(Protocol):
    """The randomness of one session."""

    def below(self, n: int) -> int:
        """Uniform in 0 .. n - 1, new at every call."""

    def once(self, name: str, n: int) -> int:
        """Uniform in 0 .. n - 1, secret, drawn once for a session and then the same."""

    def first(self, name: str, value: int) -> int:
        """The value that came first with this name in the session, which keeps it secret."""


class Part(NamedTuple):
    """Characters of a mention that are replaced by one pseudonym.

    Attributes:
        start: Offset of the first in the mention.
        end: Offset behind the last.
        shape: What of them is declared public and kept, such as the format of a number.
    """

    start: int
    end: int
    shape: str


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What stands for the entities of one public kind.

    Guarantee:
        Given the kind, the shapes and which parts are equal, the law of all pseudonyms of a
        session is the same whatever the values are, so nothing is lost (0 nats); for a kind that
        keeps something near its value, the loss is exactly :attr:`loss` per distinct value.
    """

    name: ClassVar[str]
    keeps: ClassVar[str]  # what is revealed beside the kind, for the certificate's assumptions
    keeps_digits: ClassVar[bool] = False  # parts that end in digits get pseudonyms that do
    numeric: ClassVar[bool] = False  # a number alone gets a pseudonym that is one
    loss: ClassVar[float] = 0.0
    """Nats per distinct value, between any two values of one shape."""

    def parts(self, mention: str) -> list[Part]:
        """Returns what is replaced in a mention, in reading order; the rest of it stays."""
        return [Part(a, b, self._shape(mention[a:b])) for a, b, _ in whole(mention)]

    def key(self, text: str, shape: str) -> str:
        """Returns what equal values have in common: they get one pseudonym. Private."""
        return normal(text)

    def draw(self, key: str, shape: str, free: Free, draws: Draws) -> str:
        """Draws the pseudonym of a value, as it is written in the middle of a sentence.

        A label where nothing is left of the law.

        Args:
            key: Of the value, private; only a kind with a loss or a secret shift reads it.
            shape: Public.
            free: Refuses what is in use; what is drawn instead depends on public things only.
            draws: The randomness.
        """
        return self._drawn(key, shape, free, draws) or label(self.name, free, draws)

    def respelled(self, pseudonym: str, was: str, shape: str, free: Free, draws: Draws) -> str:
        """Returns the pseudonym of a known value in another shape; made of public things.

        Args:
            pseudonym: What was drawn for the value.
            was: The shape that it was drawn for.
            shape: Of the value as it is written now.
            free: As of :meth:`draw`.
            draws: The randomness.
        """
        return pseudonym

    def written(self, text: str, like: str) -> str:
        """Returns a pseudonym, or a restored value, in the case of another spelling of it.

        Labels such as "DATE_46" have one spelling, and their capitals are nobody's.
        """
        if LABEL.fullmatch(text) or LABEL.fullmatch(like):
            return text
        if len(like) > 1 and like.isupper():
            return text.upper()
        return text.lower() if like.islower() else text

    def _shape(self, text: str) -> str:
        return ""

    def _drawn(self, key: str, shape: str, free: Free, draws: Draws) -> str | None:
        return None


# parts of mentions -------------------------------------------------------------------------------


def words(text: str) -> frozenset[str]:
    """Returns a list of words that are public."""
    return frozenset(text.split())


def core(text: str, start: int, end: int) -> tuple[int, int]:
    """Returns offsets without blanks and punctuation around; of punctuation alone nothing."""
    match = CORE.search(text, start, end)
    return (end, end) if match is None else match.span()


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


# draws -------------------------------------------------------------------------------------------


def choice(values: Sequence[str], draws: Draws) -> str:
    """Draws a uniform one."""
    return values[draws.below(len(values))]


def left(values: Sequence[str], free: Free, draws: Draws) -> str | None:
    """Draws a uniform one of those that may be used."""
    rest = [value for value in values if free(value)]
    return choice(rest, draws) if rest else None


def tried(draw: Callable[[], str | None], free: Free, tries: int = PATTERN_TRIES) -> str | None:
    """Returns the first of so many draws that may be used."""
    for _ in range(tries):
        text = draw()
        if text is not None and free(text):
            return text
    return None


def combined(name: str, one: Callable[[], str], joint: str, free: Free) -> str:
    """Draws what may be used; where a list seems used up, two draws in one word, or more.

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
    """Draws such as "NRP_47": a uniform number of two digits, of more where these are in use.

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


def fill(shape: str, draws: Draws) -> str:
    """Draws a uniform text of a pattern."""
    return "".join(
        choice(ALPHABETS[character], draws) if character in ALPHABETS else character
        for character in shape
    )


def draw_pattern(shape: str, free: Free, draws: Draws) -> str | None:
    """Draws a uniform text of a pattern that may be used; none where none seems left."""
    if not any(character in ALPHABETS for character in shape):
        return None
    sets = [ALPHABETS.get(character, character) for character in shape]
    if math.prod(map(len, sets)) <= LISTED:
        return left(["".join(signs) for signs in itertools.product(*sets)], free, draws)
    return tried(lambda: fill(shape, draws), free)


# public lists ------------------------------------------------------------------------------------


@cache
def names(attribute: str, locale: str = "en_US") -> tuple[str, ...]:
    """Returns Faker's names of people whose list's name starts so: each once, in its order."""
    provider = library(f"faker.providers.person.{locale}", "detect").Provider
    lists = [getattr(provider, name) for name in dir(provider) if name.startswith(attribute)]
    every = (word for listed in lists for word in listed if isinstance(word, str))
    return tuple(dict.fromkeys(word for word in every if word and " " not in word))


def given_names(locale: str = "en_US") -> tuple[str, ...]:
    """Returns those of all genders."""
    return names("first_names", locale)


def family_names(locale: str = "en_US") -> tuple[str, ...]:
    """Returns those of all genders."""
    return names("last_names", locale)
