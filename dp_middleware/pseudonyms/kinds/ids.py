"""Numbers and codes that name somebody: ids, cards, bank accounts, social security numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

from dp_middleware.errors import library
from dp_middleware.pseudonyms.cues import KEEPS
from dp_middleware.pseudonyms.draws import Draws, Free, Keyed, pattern, slots_of
from dp_middleware.pseudonyms.mapping import PATTERN_TRIES, Kind, of_pattern, tried

WHOLE = re.compile(r"-?[1-9][0-9]+")
IBAN = re.compile(r"[A-Za-z]{2}[0-9]{2}[A-Za-z0-9 ]*")


class Exact(Kind):
    """A kind whose values and pseudonyms are written, and mostly compared, in their very signs."""

    exact = True
    cased = True  # whether values that differ in case are two values

    def key(self, text: str, shape: str) -> str:
        """Returns, where case counts, the text for this kind alone: a user "ana" is not Ana."""
        return f"{self.name}: {text}" if self.cased else super().key(text, shape)


class Id(Exact):
    """A uniform digit for each digit and a uniform letter for each letter."""

    name = "id"
    numeric = True
    keeps = KEEPS["id"]

    def _shape(self, text: str) -> str:
        shape = pattern(text)  # a whole number stays one, without a leading zero
        return shape.replace("9", "1", 1) if WHOLE.fullmatch(text) else shape

    def _drawn(self, key: str, shape: str, free: Free, draws: Draws) -> str | None:
        return of_pattern(shape, free, draws)

    def ciphered(self, text: str, shape: str, law: Keyed, *, back: bool) -> str | None:
        """Does as that of a kind, for formats of a million texts and more."""
        fits, tweak = (lambda other: self._shape(other) == shape), f"{self.name} {shape}"
        return law.permuted(text, slots_of(shape), fits, tweak, back)


class Zip(Id):
    """A postal code of the same pattern."""

    name = "zip"


class Checked(Id):
    """A pattern with a rule: candidates are uniform among those that keep it."""

    lengths: ClassVar[range]  # of its digits

    def ciphered(self, text: str, shape: str, law: Keyed, *, back: bool) -> str | None:
        """Encrypts none: what nobody has is less than what stands for it."""
        return None

    def _obeys(self, text: str) -> bool:  # else it is an id with a pattern
        shape = pattern(text)
        return shape.count("9") in self.lengths and not {"a", "A"} & {*shape}

    def _candidate(self, shape: str, draws: Draws) -> str:
        raise NotImplementedError  # a uniform text of the pattern that mostly keeps the rule

    def _shape(self, text: str) -> str:
        return pattern(text) if self._obeys(text) else f"?{pattern(text)}"

    def _drawn(self, key: str, shape: str, free: Free, draws: Draws) -> str | None:
        if shape.startswith("?"):
            return of_pattern(shape[1:], free, draws)
        return tried(lambda: self._candidate(shape, draws), free)


def into(shape: str, digits: str, sign: str = "9") -> str:
    """Returns a shape with these digits for one of its signs, in order."""
    rest = iter(digits)
    return "".join(next(rest) if character == sign else character for character in shape)


class Card(Checked):
    """A number with a valid check digit in a range that nobody issues.

    It starts with 99. A first digit 9 is for national numbering, and the country's code of
    ISO 3166-1 follows: codes from 900 on are for private use and never a country's.
    """

    name = "card"
    keeps = KEEPS["card"]
    lengths = range(12, 20)  # its own check digit may be wrong

    def _candidate(self, shape: str, draws: Draws) -> str:
        digits = "99" + draws.fill("9" * (shape.count("9") - 3))
        check: str = library("stdnum.luhn", "detect", "python-stdnum").calc_check_digit(digits)
        return into(shape, digits + check)


class Ssn(Checked):
    """A social security number in an area, 000 or 666, that is never assigned."""

    name = "ssn"
    keeps = KEEPS["ssn"]
    lengths = range(9, 10)

    def _candidate(self, shape: str, draws: Draws) -> str:
        return into(shape, draws.choice(("000", "666")) + draws.fill("999999"))


class Iban(Checked):
    """A bank account in the same country, with valid check digits."""

    name = "iban"
    keeps = KEEPS["iban"]

    def _obeys(self, text: str) -> bool:
        compact = "".join(text.split()).upper()
        return IBAN.fullmatch(text) is not None and bool(_iban().is_valid(compact))

    def _shape(self, text: str) -> str:
        if not self._obeys(text):
            return super()._shape(text)
        return text[:2].upper() + "00" + pattern(text[4:].upper())

    def ciphered(self, text: str, shape: str, law: Keyed, *, back: bool) -> str | None:
        """Encrypts the account, in capitals; check digits follow."""
        if shape.startswith("?"):
            return None
        country, account, tweak = shape[:2], text[4:].upper(), f"{self.name} {shape}"
        fits = lambda other: bool(_iban().is_valid(_checked(country, other)))  # noqa: E731
        moved = law.permuted(account, slots_of(shape[4:]), fits, tweak, back)
        return _checked(country, moved) if moved else moved

    def _candidate(self, shape: str, draws: Draws) -> str:
        """Uniform characters with check digits; those inside it are right if they come up."""
        text, valid = "", _iban().is_valid
        for _ in range(PATTERN_TRIES):
            if valid(text := _checked(shape[:2], draws.fill(shape[4:]))):
                break
        return text


def _iban() -> Any:
    return library("stdnum.iban", "detect", "python-stdnum")


def _checked(country: str, account: str) -> str:
    check: str = _iban().calc_check_digits(f"{country}00{account.replace(' ', '')}")
    return country + check + account


@dataclass(frozen=True, kw_only=True)
class Label(Exact):
    """Labels such as "NRP_47", for kinds without a law of their own."""

    name = "label"
    keeps = KEEPS["label"]
    cased = False

    of: str = "LABEL"

    def _drawn(self, key: str, shape: str, free: Free, draws: Draws) -> str:
        return self.label(free, draws, self.of)
