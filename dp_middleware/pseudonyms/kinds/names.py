"""Names of people, organisations and places."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from dp_middleware.pseudonyms.kinds import libraries
from dp_middleware.pseudonyms.kinds.base import Draws, Free, Kind, Part
from dp_middleware.pseudonyms.kinds.laws import (
    choice,
    combined,
    core,
    fill,
    whole,
    words,
)

TITLES = words(
    "mr mrs ms miss mx messrs dr prof professor doctor sir madam rev reverend hon capt lt sgt col"
    " maj gen herr frau señor señora señorita sr sra srta monsieur madame mme mlle signor signora"
)
SUFFIXES = words("jr sr ii iii iv phd ph.d md m.d esq mba dds rn cpa")
PARTICLES = words(
    "van von de der den del della di da dos das du la le los las el bin bint ibn al ter ten zu zur"
    " and &"
)
SMALL_PARTICLES = words("y e i a o")  # capital ones are initials
LEGAL = words(
    "inc incorporated ltd limited llc llp lp plc corp corporation co company gmbh ag kg se sa s.a"
    " sas sarl s.a.r.l spa s.p.a srl s.r.l bv b.v nv n.v ab as oy aps pty pte kk k.k & co.kg l.l.c"
)
PREFIX = re.compile(r"(?:al|el|ad|as|ash|ur|ul)[-\u2010\u2011](?=\w)", re.IGNORECASE)
POSSESSIVE = re.compile(r"(?<=\w)['’]s$", re.IGNORECASE)
INITIALS = re.compile(r"(?:[^\W\d_]\.-?)*[^\W\d_]\.?")
SCRIPTS = {
    "ARABIC": "ar_AA",
    "ARMENIAN": "hy_AM",
    "BENGALI": "bn_BD",
    "CJK": "zh_CN",
    "CYRILLIC": "ru_RU",
    "DEVANAGARI": "hi_IN",
    "GEORGIAN": "ka_GE",
    "GREEK": "el_GR",
    "HANGUL": "ko_KR",
    "HEBREW": "he_IL",
    "HIRAGANA": "ja_JP",
    "KATAKANA": "ja_JP",
    "TAMIL": "ta_IN",
    "THAI": "th_TH",
}


class _Word:
    """A word of a mention without the punctuation around it."""

    def __init__(self, mention: str, start: int, end: int) -> None:
        self.start, self.end = core(mention, start, end)
        self.comma = "," in mention[self.end : end]
        if match := POSSESSIVE.search(mention, self.start, self.end):
            self.end = match.start()
        dotted = mention[self.start : self.end + 1]
        if dotted.endswith(".") and self.end < end and INITIALS.fullmatch(dotted):
            self.end += 1
        self.text = mention[self.start : self.end]

    def is_in(self, public: frozenset[str]) -> bool:
        return self.text.casefold().rstrip(".") in public

    @property
    def initials(self) -> bool:
        return INITIALS.fullmatch(self.text) is not None and (
            self.text.isupper() or "." in self.text
        )


def _words_of(mention: str) -> list[_Word]:
    every = [_Word(mention, *match.span()) for match in re.finditer(r"\S+", mention)]
    return [word for word in every if word.text]


def _units(named: list[_Word]) -> list[_Word]:
    """The words of a name that are replaced: no title, particle or suffix."""
    first = next((n for n, word in enumerate(named) if not word.is_in(TITLES)), len(named))
    while len(named) > first + 1 and named[-1].is_in(SUFFIXES):
        named = named[:-1]
    units = named[first:]
    return [
        word
        for n, word in enumerate(units)
        if n == len(units) - 1
        or not (word.is_in(PARTICLES) or word.text in SMALL_PARTICLES)
        or (n == 0 and not word.text.islower())
    ]


def _script(text: str) -> str:
    for character in text:
        if character.isalpha():
            return unicodedata.name(character, "").partition(" ")[0].partition("-")[0]
    return ""


@dataclass(frozen=True, kw_only=True)
class Person(Kind):
    """Words of a name, each by a uniform one from Faker's American given or family names.

    Attributes:
        keep_gender: Whether a given name that is public for one gender gets one of that gender.
        keep_script: Whether a name in another script gets one in that script.
    """

    name: ClassVar[str] = "person"
    lettered: ClassVar[bool] = True
    keeps: ClassVar[str] = (
        "number and places of the words of a name, titles, particles, suffixes such as Jr, which"
        " words are initials; gender and script where it is asked for"
    )

    keep_gender: bool = False
    keep_script: bool = False

    def parts(self, mention: str) -> list[Part]:
        """Its words; titles, particles, suffixes and possessives stay."""
        named = _words_of(mention)
        units = _units(named)
        if not units:
            return whole(mention, "given")
        family = len(units) - 1 if len(units) > 1 or named[0].is_in(TITLES) else -1
        if len(units) > 1 and units[0].comma:  # Lopez, Maria
            family = 0
        return [self._part(word, n == family) for n, word in enumerate(units)]

    def _part(self, word: _Word, family: bool) -> Part:
        if word.initials:
            return Part(word.start, word.end, re.sub(r"[^\W\d_]", "A", word.text))
        prefix = PREFIX.match(word.text)
        shape = "family" if family else "given"
        if self.keep_gender and not family:
            for gender in ("female", "male"):
                if word.is_in(libraries.gendered_names(gender)):
                    shape = f"{gender} given"
        if self.keep_script and (script := _script(word.text)) in SCRIPTS:
            shape = f"{'family' if family else 'given'} {script}"
        return Part(word.start + (prefix.end() if prefix else 0), word.end, shape)

    def draw(self, key: str, shape: str, free: Free, draws: Draws) -> str:
        """Uniform in the list of the shape."""
        first, _, last = shape.partition(" ")
        if first not in ("given", "family", "female", "male"):
            return combined(self.name, lambda: fill(shape, draws), "", free)
        if last == "given":
            listed = libraries.names(f"first_names_{first}")
        elif first == "family":
            listed = libraries.family_names(SCRIPTS.get(last, "en_US"))
        else:
            listed = libraries.given_names(SCRIPTS.get(last, "en_US"))
        return combined(self.name, lambda: choice(listed, draws), "-", free)


def _two_families(draws: Draws) -> Callable[[], str]:
    families = libraries.family_names()
    return lambda: f"{choice(families, draws)}-{choice(families, draws)}"


@dataclass(frozen=True, kw_only=True)
class Organisation(Kind):
    """Two uniform family names, such as "Hart-Ortiz", for all but the legal form."""

    name: ClassVar[str] = "organisation"
    lettered: ClassVar[bool] = True
    keeps: ClassVar[str] = "the legal form of an organisation, such as Inc, and a leading The"

    def parts(self, mention: str) -> list[Part]:
        """One; a leading "The", the legal form and a possessive stay."""
        named = _words_of(mention)
        if len(named) > 1 and named[0].is_in(words("the")):
            named = named[1:]
        while len(named) > 1 and named[-1].is_in(LEGAL):
            named = named[:-1]
        return [Part(named[0].start, named[-1].end, "")] if named else whole(mention, "")

    def draw(self, key: str, shape: str, free: Free, draws: Draws) -> str:
        """Uniform among pairs of names."""
        return combined(self.name, _two_families(draws), "-", free)


def town(draws: Draws) -> str:
    """Made as Faker makes towns, such as "Hartville"."""
    return choice(libraries.family_names(), draws) + choice(libraries.town_endings(), draws)


@dataclass(frozen=True, kw_only=True)
class Place(Kind):
    """A town such as "Hartville" for any place."""

    name: ClassVar[str] = "place"
    lettered: ClassVar[bool] = True
    keeps: ClassVar[str] = "nothing"

    def parts(self, mention: str) -> list[Part]:
        """One; a possessive stays."""
        parts = whole(mention, "")
        if parts and (match := POSSESSIVE.search(mention, parts[0].start, parts[0].end)):
            parts = [parts[0]._replace(end=match.start())]
        return parts

    def draw(self, key: str, shape: str, free: Free, draws: Draws) -> str:
        """Uniform among names with an ending."""
        return combined(self.name, lambda: town(draws), "-", free)
