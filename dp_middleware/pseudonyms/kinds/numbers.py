"""What stays near its value at an epsilon, or is uniform: amounts, ages and numbers."""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise, takewhile
from typing import ClassVar

from dp_middleware import _validate
from dp_middleware.pseudonyms.cues import CUES, KEEPS, words
from dp_middleware.pseudonyms.draws import Draws, Free, Part, whole
from dp_middleware.pseudonyms.kinds.ids import into
from dp_middleware.pseudonyms.mapping import Kind, tried
from dp_middleware.pseudonyms.matching import LABEL, normal

STEEPEST = 600.0  # nats; the exponential of some more is no number
LEADING = 3  # digits of a number that keep something of it
TRIES = 200
OLDEST = 99  # three digits behind a number and a comma would be a part of it
NUMERAL = re.compile(r"(?:[$€£¥₹]\s?)?\d+(?:[.,'’]\d+|[ \u00a0\u202f]\d{3}(?!\d))*%?")
WORD = re.compile(r"[^\W\d_]+")
UNIT_OF = {word: word for word in words("currencies")}
UNIT_OF |= {word: unit for unit, listed in CUES["unit_of"].items() for word in listed.split()}
SCALE_OF: dict[str, int] = CUES["scale_of"]  # powers of ten
DECIMALS = re.compile(r"([.,])([09]+)[^09]*$")


@dataclass(frozen=True)
class Staircase:
    """Of the points of a public grid, the nearest ones are more likely by one factor.

    Guarantee:
        Every row has the same number of near points (windows move inside at the ends), so all
        normalisers are equal and two rows differ by :attr:`loss` at most; exactly by it where
        not all points are near.

    Attributes:
        epsilon: Nats between any two values. Positive; at most :data:`STEEPEST` counts.
    """

    epsilon: float

    @property
    def weights(self) -> tuple[int, int]:
        """Of a near point and of another: e^epsilon, rounded down."""
        other = 1 << 20
        near = math.floor(math.exp(min(self.epsilon, STEEPEST)) * (1 - 2**-50) * other)
        return max(other, near), other

    @property
    def loss(self) -> float:
        """Nats, at most epsilon."""
        near, other = self.weights
        return math.log(near / other)

    def near_points(self, points: int) -> int:
        """Returns how many points of a grid are near.

        With a share x of the points, a long grid and a uniform value, the mean error is
        (a x^2 / 4 + 1/3) / (a x + 1) of its length, a = e^epsilon - 1; this share makes it least.
        """
        a = math.expm1(min(self.epsilon, STEEPEST))
        share = (math.sqrt(1 + 4 * a / 3) - 1) / a
        return min(points, max(1, round(share * points)))

    def row(self, below: int, points: int) -> list[int]:
        """Returns the weights of all points for a value, which so many are below."""
        near, other = self.weights
        width = self.near_points(points)
        start = min(max(below - width // 2, 0), points - width)
        return [other] * start + [near] * width + [other] * (points - width - start)


@dataclass(frozen=True, kw_only=True)
class NearKind(Kind):
    """A kind whose pseudonyms may stay near their values, at epsilon nats between any two."""

    laws: ClassVar[tuple[str, ...]] = ("near", "uniform")

    law: str = "near"
    epsilon: float = 1.0

    def __post_init__(self) -> None:
        _validate.one_of(self.laws, law=self.law)
        _validate.positive(epsilon=self.epsilon)

    @cached_property
    def loss(self) -> float:  # type: ignore[override]
        """Nats per distinct value, between any two values of one shape."""
        return Staircase(self.epsilon).loss if self.law == "near" else 0.0

    def weights(self, key: str, shape: str, points: Sequence[int]) -> list[int]:
        """Returns what a value's law gives to each of the ascending points, as integers."""
        if self.law == "uniform":
            return [1] * len(points)
        below = bisect_left(points, self._value(key, shape))
        return Staircase(self.epsilon).row(below, len(points))

    def _value(self, key: str, shape: str) -> int:
        raise NotImplementedError  # the point of a value


class Numeral(NearKind):
    """A number in digits among public words; a mention with another word becomes a label.

    Guarantee:
        ``near``: the leading digits (at most three) are points of a public grid; points that
        lead to no free pseudonym leave it before the law is made; a staircase on what is left
        gives exactly its loss between two values of one shape. Lower digits are uniform.
    """

    keeps_digits = True
    numeric = True

    public: ClassVar[frozenset[str]]
    scales: ClassVar[Mapping[str, int]] = SCALE_OF

    def parts(self, mention: str) -> list[Part]:
        """Returns its numerals, with currency signs; all of it where a word is not public."""
        spans = [match.span() for match in NUMERAL.finditer(mention)]
        rest = NUMERAL.sub(" ", mention)
        named = {word.casefold() for word in WORD.findall(rest)}
        strange = [c for c in rest if not (c.isalpha() or c.isspace() or _is_sign(c))]
        if not spans or strange or not named <= self.public:
            return whole(mention)
        ends, starts = [0, *(b for _, b in spans)], [*(a for a, _ in spans), len(mention)]
        gaps = [WORD.findall(mention[a:b].casefold()) for a, b in zip(ends, starts, strict=True)]
        return [
            Part(a, b, self._shape(mention[a:b]) + self._meaning(mention[a:b], *beside))
            for (a, b), beside in zip(spans, pairwise(gaps), strict=True)
        ]

    def _meaning(self, text: str, before: Sequence[str], behind: Sequence[str]) -> str:
        """Unit and scale of a numeral by its signs and the public words beside it; else empty."""
        scale = " ".join(takewhile(self.scales.__contains__, behind))
        unit = next((UNIT_OF[sign] for sign in (*text, *behind, *before) if sign in UNIT_OF), "")
        return f"|{unit}|{scale}" if unit or scale else ""

    def key(self, text: str, shape: str) -> str:
        """Returns the value and its unit, in whatever way they are written."""
        if "9" not in shape:
            return normal(text)
        digits = _digits(text).lstrip("0")
        short = digits.rstrip("0")
        power = self._power(shape) + len(digits) - len(short) if short else 0
        return f"{self.name}: {short}e{power} {shape.partition('|')[2].partition('|')[0]}"

    def _power(self, shape: str) -> int:
        """Of ten, what a one in the last digit of a shape means."""
        layout, _, meaning = shape.partition("|")
        power = sum(self.scales[word] for word in meaning.partition("|")[2].split())
        if (match := DECIMALS.search(layout)) is None:
            return power
        sign, digits, before = match[1], match[2], layout[: match.start()]
        groups = sign == "," and len(digits) == 3 and "." not in before and "0" not in before
        return power if groups or sign in before else power - len(digits)

    def respelled(self, pseudonym: str, was: str, shape: str, free: Free, draws: Draws) -> str:
        """Returns the same number in another shape, cut off; a label where that is in use."""
        if LABEL.fullmatch(pseudonym):
            return pseudonym
        layout = shape.partition("|")[0].replace("0", "9")
        digits = _shifted(_digits(pseudonym), self._power(was) - self._power(shape))
        digits = digits.zfill(layout.count("9"))
        if len(digits) == layout.count("9") and free(text := into(layout, digits)):
            return text
        return self.label(free, draws)

    def _shape(self, text: str) -> str:
        """Digits as 9, but a leading zero; signs and separators."""
        shape = "".join("9" if character.isdecimal() else character for character in text)
        digits = _digits(text)
        return shape.replace("9", "0", 1) if len(digits) > 1 and digits[0] == "0" else shape

    def _drawn(self, key: str, shape: str, free: Free, draws: Draws) -> str | None:
        """From :meth:`weights`, then uniform lower digits."""
        points = self.points(shape, free) if "9" in shape else []
        if not points:
            return None
        point = points[draws.pick(self.weights(key, shape, points))]
        lower = "9" * (shape.count("9") - LEADING)
        # of the point alone: what is drawn instead tells nothing more
        return tried(lambda: self._text(shape, point, draws.fill(lower)), free, TRIES)

    def _grid(self, shape: str) -> range:
        """Values of the leading digits that numbers of a shape can have."""
        digits = shape.count("9")
        lowest = 0 if digits == 1 or "0" in shape else 10 ** (min(digits, LEADING) - 1)
        return range(lowest, 10 ** min(digits, LEADING))

    def points(self, shape: str, free: Free) -> list[int]:
        """Returns the grid without points in use, where a point is all of the number."""
        if shape.count("9") > LEADING:
            return list(self._grid(shape))
        texts = _texts(self, shape)
        return [n for n, text in zip(self._grid(shape), texts, strict=True) if free(text)]

    def _value(self, key: str, shape: str) -> int:
        short, _, power = key.split()[1].partition("e")
        digits = _shifted(short, int(power) - self._power(shape))
        return int(digits.zfill(shape.count("9"))[:LEADING])

    def _text(self, shape: str, point: int, lower: str = "") -> str:
        """A number of a shape from its leading digits and the lower ones."""
        leading = min(shape.count("9"), LEADING)
        return into(shape.partition("|")[0], f"{point:0{leading}d}{lower}")


@lru_cache(maxsize=64)
def _texts(kind: Numeral, shape: str) -> tuple[str, ...]:
    """What the points of a grid are written as, where there are no lower digits."""
    return tuple(kind._text(shape, point) for point in kind._grid(shape))


def _is_sign(character: str) -> bool:
    return unicodedata.category(character)[0] in "PZ" or character in "+=<>~$€£¥₹"


def _shifted(digits: str, power: int) -> str:
    """A whole number times a power of ten, without zeros before it."""
    return (digits + "0" * power if power >= 0 else digits[:power]).lstrip("0")


def _digits(text: str) -> str:
    return "".join(str(unicodedata.decimal(c)) for c in text if c.isdecimal())


class Amount(Numeral):
    """An amount of money."""

    name = "amount"
    keeps = KEEPS["amount"]
    public = words("currencies") | words("scales")
    scales: ClassVar[Mapping[str, int]] = {**SCALE_OF, "m": 6}


class Number(Numeral):
    """A number, with or without a unit."""

    name = "number"
    keeps = KEEPS["number"]
    public = words("scales") | words("units")


class Age(Numeral):
    """An age from 0 to 99; an older one becomes a label."""

    name = "age"
    keeps = KEEPS["age"]
    public = words("ages")

    def _shape(self, text: str) -> str:
        return "9" if len(text) <= LEADING and text.isdecimal() and int(text) <= OLDEST else ""

    def _meaning(self, text: str, before: Sequence[str], behind: Sequence[str]) -> str:
        return ""

    def _grid(self, shape: str) -> range:
        return range(OLDEST + 1)

    def _text(self, shape: str, point: int, lower: str = "") -> str:
        return str(point)
