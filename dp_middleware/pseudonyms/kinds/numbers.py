"""Amounts, ages and numbers: near their value at an epsilon, or uniform."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from dp_middleware import _validate
from dp_middleware.pseudonyms.kinds.base import Draws, Free, Kind, Part
from dp_middleware.pseudonyms.kinds.laws import Staircase, fill, label, pick, whole, words

LEADING = 3  # digits of a number that keep something of it
TRIES = 200
OLDEST = 99  # three digits behind a number and a comma would be a part of it
NUMERAL = re.compile(r"(?:[$€£¥₹]\s?)?\d+(?:[.,'’]\d+|[ \u00a0\u202f]\d{3}(?!\d))*%?")
WORD = re.compile(r"[^\W\d_]+")
CURRENCIES = (
    "usd eur gbp jpy chf cad aud nzd inr cny sek nok dkk pln brl mxn dollar dollars euro euros"
    " pound pounds sterling cent cents pence yen rupee rupees franc francs"
)
SCALES = "k m bn thousand million billion trillion hundred percent to and or between from"
UNITS = (
    "mg g kg ml l mm cm m km mi mile miles hour hours day days week weeks month months year years"
    " minute minutes second seconds times"
)
AGES = "year years yr yrs old month months age aged yo y o to and between"


@dataclass(frozen=True, kw_only=True)
class Numeral(Kind):
    """A number in digits among public words; a mention with another word becomes a label.

    Guarantee:
        ``near``: the leading digits (at most three) are points of a public grid; points that
        lead to no free pseudonym leave it before the law is made; a staircase on what is left
        gives exactly its loss between two values of one shape. Lower digits are uniform.

    Attributes:
        law: ``near`` its value, or ``uniform`` among numbers of this shape.
        epsilon: Nats between any two values of one shape, for ``near``. Positive.
    """

    keeps_digits: ClassVar[bool] = True
    numeric: ClassVar[bool] = True

    public: ClassVar[frozenset[str]]

    law: str = "near"
    epsilon: float = 1.0

    def __post_init__(self) -> None:
        _validate.one_of(("near", "uniform"), law=self.law)
        _validate.positive(epsilon=self.epsilon)

    @property
    def loss(self) -> float:
        """Nats per distinct value, between any two values of one shape."""
        return Staircase(self.epsilon).loss if self.law == "near" else 0.0

    def parts(self, mention: str) -> list[Part]:
        """Its numerals, currency signs included; all of it where a word is not public."""
        spans = [match.span() for match in NUMERAL.finditer(mention)]
        rest = NUMERAL.sub(" ", mention)
        named = {word.casefold() for word in WORD.findall(rest)}
        strange = [c for c in rest if not (c.isalpha() or c.isspace() or _is_sign(c))]
        if not spans or strange or not named <= self.public:
            return whole(mention, "")
        return [Part(a, b, self.shape(mention[a:b])) for a, b in spans]

    def shape(self, text: str) -> str:
        """Digits as 9, but a leading zero; signs and separators."""
        shape = "".join("9" if character.isdecimal() else character for character in text)
        digits = _digits(text)
        return shape.replace("9", "0", 1) if len(digits) > 1 and digits[0] == "0" else shape

    def draw(self, key: str, shape: str, free: Free, draws: Draws) -> str:
        """From :meth:`weights`, then uniform lower digits; a label where nothing is left."""
        places = shape.count("9")
        if not places:
            return label(self.name, free, draws)
        points = self.points(shape, free)
        if not points:
            return label(self.name, free, draws)
        point = points[pick(self.weights(key, shape, points), draws)]
        for _ in range(TRIES):  # of the point alone: what is drawn instead tells nothing more
            text = self.text(shape, point, lambda lower: fill("9" * lower, draws))
            if free(text):
                return text
        return label(self.name, free, draws)

    def grid(self, shape: str) -> range:
        """Values of the leading digits that numbers of a shape can have."""
        digits = shape.count("9")
        lowest = 0 if digits == 1 or "0" in shape else 10 ** (min(digits, LEADING) - 1)
        return range(lowest, 10 ** min(digits, LEADING))

    def points(self, shape: str, free: Free) -> list[int]:
        """The grid without points that are in use, where a point is all of the number."""
        if shape.count("9") > LEADING:
            return list(self.grid(shape))
        texts = _texts(self, shape)
        return [n for n, text in zip(self.grid(shape), texts, strict=True) if free(text)]

    def weights(self, key: str, shape: str, points: Sequence[int]) -> list[int]:
        """What a value's law gives to each of the points: integers, to be divided by their sum.

        Args:
            key: Of the value.
            shape: Its shape.
            points: What is left of the grid, ascending; not empty.
        """
        if self.law == "uniform":
            return [1] * len(points)
        value = self.value(key, shape)
        return Staircase(self.epsilon).row(bisect_left(points, value), len(points))

    def value(self, key: str, shape: str) -> int:
        """The point of the grid where a value lies."""
        digits = _digits(key)[1 if "0" in shape else 0 :]
        return int(digits[:LEADING])

    def text(self, shape: str, point: int, lower: Callable[[int], str]) -> str:
        """A number of a shape from its leading digits and a function that gives the lower ones."""
        places = shape.count("9")
        leading = min(places, LEADING)
        digits = iter(f"{point:0{leading}d}" + lower(places - leading))
        return "".join(next(digits) if c == "9" else c for c in shape)


@lru_cache(maxsize=64)
def _texts(kind: Numeral, shape: str) -> tuple[str, ...]:
    """What the points of a grid are written as, where there are no lower digits."""
    return tuple(kind.text(shape, point, lambda _: "") for point in kind.grid(shape))


def _is_sign(character: str) -> bool:
    return unicodedata.category(character)[0] in "PZ" or character in "+=<>~$€£¥₹"


def _digits(text: str) -> str:
    return "".join(str(unicodedata.decimal(c)) for c in text if c.isdecimal())


@dataclass(frozen=True, kw_only=True)
class Amount(Numeral):
    """An amount of money."""

    name: ClassVar[str] = "amount"
    keeps: ClassVar[str] = (
        "currency, number of digits, separators and decimals of an amount, a leading zero, and"
        " words such as million"
    )
    public: ClassVar[frozenset[str]] = words(f"{CURRENCIES} {SCALES}")


@dataclass(frozen=True, kw_only=True)
class Number(Numeral):
    """A number, with or without a unit."""

    name: ClassVar[str] = "number"
    keeps: ClassVar[str] = (
        "number of digits, separators and decimals of a number, a leading zero, and its unit"
    )
    public: ClassVar[frozenset[str]] = words(f"{SCALES} {UNITS}")


@dataclass(frozen=True, kw_only=True)
class Age(Numeral):
    """An age from 0 to 99; an older one becomes a label."""

    name: ClassVar[str] = "age"
    keeps: ClassVar[str] = "words around an age, such as years old"
    public: ClassVar[frozenset[str]] = words(AGES)

    def shape(self, text: str) -> str:
        """One for all ages."""
        readable = len(text) <= LEADING and text.isdecimal() and int(text) <= OLDEST
        return "9" if readable else ""

    def grid(self, shape: str) -> range:
        """All ages."""
        return range(OLDEST + 1)

    def text(self, shape: str, point: int, lower: Callable[[int], str]) -> str:
        """The age alone."""
        return str(point)
