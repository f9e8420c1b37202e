"""Amounts, ages and numbers: near their value at an epsilon, or uniform."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, takewhile
from typing import ClassVar

from dp_middleware.pseudonyms import cues
from dp_middleware.pseudonyms.draws import Draws, Free, Part, whole, words
from dp_middleware.pseudonyms.kinds.staircase import NearKind
from dp_middleware.pseudonyms.mapping import tried
from dp_middleware.pseudonyms.matching import LABEL, normal

LEADING = 3  # digits of a number that keep something of it
TRIES = 200
OLDEST = 99  # three digits behind a number and a comma would be a part of it
NUMERAL = re.compile(r"(?:[$€£¥₹]\s?)?\d+(?:[.,'’]\d+|[ \u00a0\u202f]\d{3}(?!\d))*%?")
WORD = re.compile(r"[^\W\d_]+")
CURRENCIES = cues.CUES["currencies"]
SCALES = "k m bn thousand million billion trillion hundred percent to and or between from"
UNITS = cues.CUES["units"]
UNIT_OF = {"$": "usd", "€": "eur", "£": "gbp", "¥": "jpy", "₹": "inr", "%": "percent"}
UNIT_OF |= {word: word for word in (*CURRENCIES.split(), "percent")}
UNIT_OF |= {"dollar": "usd", "dollars": "usd", "euro": "eur", "euros": "eur", "yen": "jpy"}
UNIT_OF |= {"pound": "gbp", "pounds": "gbp", "sterling": "gbp", "rupee": "inr", "rupees": "inr"}
UNIT_OF |= {"franc": "chf", "francs": "chf", "cent": "cents"}
SCALE_OF = {"hundred": 2, "k": 3, "thousand": 3, "million": 6, "bn": 9, "billion": 9}
SCALE_OF |= {"trillion": 12}  # powers of ten
DECIMALS = re.compile(r"([.,])([09]+)[^09]*$")
AGES = "year years yr yrs old month months age aged yo y o to and between"


@dataclass(frozen=True, kw_only=True)
class Numeral(NearKind):
    """A number in digits among public words; a mention with another word becomes a label.

    Guarantee:
        ``near``: the leading digits (at most three) are points of a public grid; points that
        lead to no free pseudonym leave it before the law is made; a staircase on what is left
        gives exactly its loss between two values of one shape. Lower digits are uniform.

    Attributes:
        law: ``near`` its value, or ``uniform`` among numbers of this shape.
        epsilon: Nats between any two values of one shape, for ``near``. Positive.
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
        layout = shape.partition("|")[0]
        places = layout.count("9") + layout.count("0")
        digits = _shifted(_digits(pseudonym), self._power(was) - self._power(shape)).zfill(places)
        if len(digits) == places:
            rest = iter(digits)
            text = "".join(next(rest) if c in "09" else c for c in layout)
            if free(text):
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

        def candidate() -> str:  # of the point alone: what is drawn instead tells nothing more
            return self._text(shape, point, lambda lower: draws.fill("9" * lower))

        return tried(candidate, free, TRIES)

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
        """The point of the grid where a value lies."""
        short, _, power = key.split()[1].partition("e")
        digits = _shifted(short, int(power) - self._power(shape))
        return int(digits.zfill(shape.count("9"))[:LEADING])

    def _text(self, shape: str, point: int, lower: Callable[[int], str]) -> str:
        """A number of a shape from its leading digits and a function that gives the lower ones."""
        places = shape.count("9")
        leading = min(places, LEADING)
        digits = iter(f"{point:0{leading}d}" + lower(places - leading))
        return "".join(next(digits) if c == "9" else c for c in shape.partition("|")[0])


@lru_cache(maxsize=64)
def _texts(kind: Numeral, shape: str) -> tuple[str, ...]:
    """What the points of a grid are written as, where there are no lower digits."""
    return tuple(kind._text(shape, point, lambda _: "") for point in kind._grid(shape))


def _is_sign(character: str) -> bool:
    return unicodedata.category(character)[0] in "PZ" or character in "+=<>~$€£¥₹"


def _shifted(digits: str, power: int) -> str:
    """A whole number times a power of ten, without zeros before it."""
    return (digits + "0" * power if power >= 0 else digits[:power]).lstrip("0")


def _digits(text: str) -> str:
    return "".join(str(unicodedata.decimal(c)) for c in text if c.isdecimal())


@dataclass(frozen=True, kw_only=True)
class Amount(Numeral):
    """An amount of money."""

    name = "amount"
    keeps = (
        "currency, number of digits, separators and decimals of an amount, a leading zero, and"
        " words such as million; whether it is a number among such words"
    )
    public = words(f"{CURRENCIES} {SCALES}")
    scales: ClassVar[Mapping[str, int]] = {**SCALE_OF, "m": 6}


@dataclass(frozen=True, kw_only=True)
class Number(Numeral):
    """A number, with or without a unit."""

    name = "number"
    keeps = (
        "number of digits, separators and decimals of a number, a leading zero, and its unit;"
        " whether it is a number among such words"
    )
    public = words(f"{SCALES} {UNITS}")


@dataclass(frozen=True, kw_only=True)
class Age(Numeral):
    """An age from 0 to 99; an older one becomes a label."""

    name = "age"
    keeps = "words around an age, such as years old; whether it is a number up to 99"
    public = words(AGES)

    def _shape(self, text: str) -> str:
        readable = len(text) <= LEADING and text.isdecimal() and int(text) <= OLDEST
        return "9" if readable else ""

    def _meaning(self, text: str, before: Sequence[str], behind: Sequence[str]) -> str:
        return ""

    def _grid(self, shape: str) -> range:
        return range(OLDEST + 1)

    def _text(self, shape: str, point: int, lower: Callable[[int], str]) -> str:
        return str(point)
