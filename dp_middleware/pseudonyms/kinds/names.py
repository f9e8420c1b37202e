"""Names of people and organisations, from Faker's public lists."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise

from dp_middleware.errors import library
from dp_middleware.pseudonyms import cues
from dp_middleware.pseudonyms.draws import CORE, Draws, Free, Part, whole, words
from dp_middleware.pseudonyms.mapping import Spoken, combined

TITLES, SUFFIXES, PARTICLES, LEGAL = (
    cues.words(name) for name in ("titles", "name_suffixes", "particles", "legal_forms")
)
SMALL_PARTICLES = words("y e i a o")  # capital ones are initials
HYPHENS = "\u2010\u2011-"  # the last one ends a class of signs
PREFIX = re.compile(rf"(?:al|el|ad|as|ash|ur|ul)[{HYPHENS}](?=\w)", re.IGNORECASE)
WORD = re.compile(r"\S+")
NAME = re.compile(  # initials and titles without a blank behind them; no hyphen but that of "al-"
    rf"(?:(?:[^\W\d_]\.)+|(?:mrs?|ms|dr|prof)\.)(?=[^\W\d_]{{2}})"
    rf"|(?:{PREFIX.pattern})?[^\s,;/{HYPHENS}]+",
    re.IGNORECASE,
)
POSSESSIVE = re.compile(r"(?<=\w)['’]s$", re.IGNORECASE)
INITIALS = re.compile(r"(?:[^\W\d_]\.-?)*[^\W\d_]\.?")
_BEFORE = re.compile(r"(?<![\w.])([^\W\d_][\w.]*) \Z")
# Faker's names of the lists to draw from, by language and by script
LOCALES: dict[str, str] = cues.CUES["locales"]
SCRIPTS: dict[str, str] = cues.CUES["scripts"]


class _Word:
    """A word of a mention without the punctuation around it."""

    def __init__(self, mention: str, start: int, end: int) -> None:
        inner = CORE.search(mention, start, end)
        self.start, self.end = (end, end) if inner is None else inner.span()
        self.comma = "," in mention[self.end : end + 1]
        if match := POSSESSIVE.search(mention, self.start, self.end):
            self.end = match.start()
        dotted = mention[self.start : self.end + 1]
        is_apart = not mention[end : end + 1].isalpha()  # else two pseudonyms would touch
        if dotted.endswith(".") and self.end < end and is_apart and INITIALS.fullmatch(dotted):
            self.end += 1
        self.text = mention[self.start : self.end]

    def is_in(self, public: frozenset[str]) -> bool:
        return self.text.casefold().rstrip(".") in public

    @property
    def initials(self) -> bool:
        is_written = self.text.isupper() or "." in self.text
        return is_written and INITIALS.fullmatch(self.text) is not None


def _words_of(mention: str, pattern: re.Pattern[str] = WORD) -> list[_Word]:
    every = [_Word(mention, *match.span()) for match in pattern.finditer(mention)]
    return [word for word in every if word.text]


def _units(named: list[_Word]) -> list[_Word]:
    """The words of a name that are replaced: no title, particle or suffix."""
    first = next((n for n, word in enumerate(named) if not word.is_in(TITLES)), len(named))
    while len(named) > first + 1 and named[-1].is_in(SUFFIXES):
        named = named[:-1]

    def stays(word: _Word) -> bool:
        is_particle = word.is_in(PARTICLES) or word.text in SMALL_PARTICLES
        return is_particle and (word.text.islower() or word is not named[first])

    return [*(word for word in named[first:-1] if not stays(word)), *named[first:][-1:]]


def titled(text: str, start: int, least: int) -> int:
    """Returns where a name begins with its titles, behind ``least``: they tell a surname."""
    while (title := _BEFORE.search(text, max(least, start - 20), start)) and (
        title[1].casefold().rstrip(".") in TITLES
    ):
        start = title.start(1)
    return start


def _script(text: str) -> str:
    names = (unicodedata.name(sign, "") for sign in text if sign.isalpha())
    return re.split("[ -]", next(names, ""))[0]


@dataclass(frozen=True, kw_only=True)
class Person(Spoken):
    """Words of a name, each by a uniform one from Faker's given or family names of a country.

    Attributes:
        keep_gender: Whether a given name that is public for one gender gets one of that gender.
        keep_script: Whether a name in another script gets one in that script.
    """

    name = "person"
    keeps = (
        "number and places of the words of a name, titles, particles, suffixes such as Jr, which"
        " words are initials, prefixes such as al-, possessives; gender and script where it is"
        " asked for"
    )

    keep_gender: bool = False
    keep_script: bool = False

    def parts(self, mention: str) -> list[Part]:
        """Returns its words; titles, particles, suffixes and possessives stay."""
        named = _words_of(mention, NAME)
        units = _units(named)
        if not units:
            return whole(mention, "given")
        group = [0]  # of words joined by hyphens
        for one, other in pairwise(units):
            joined = mention[one.end : other.start] in tuple(HYPHENS)
            group.append(group[-1] + (not joined))
        family = group[-1] if group[-1] or named[0].is_in(TITLES) else -1
        if family > 0 and any(word.comma for n, word in zip(group, units, strict=True) if n == 0):
            family = 0  # Lopez, Maria
        return [self._part(word, n == family) for n, word in zip(group, units, strict=True)]

    def _part(self, word: _Word, family: bool) -> Part:
        if word.initials:
            return Part(word.start, word.end, re.sub(r"[^\W\d_]", "A", word.text))
        prefix = PREFIX.match(word.text)
        shape = "family" if family else "given"
        if self.keep_gender and not family:
            for gender in ("female", "male"):
                if word.is_in(gendered_names(gender, locale_of(self))):
                    shape = f"{gender} given"
        if self.keep_script and (script := _script(word.text)) in SCRIPTS:
            shape = f"{'family' if family else 'given'} {script}"
        return Part(word.start + (prefix.end() if prefix else 0), word.end, shape)

    def _drawn(self, key: str, shape: str, free: Free, draws: Draws) -> str:
        """Uniform from the list of the shape; where others shall agree, two family names."""
        first, _, last = shape.partition(" ")
        if first not in ("given", "family", "female", "male"):
            return combined(self.name, lambda: draws.fill(shape), "", free, twice=draws.agree)
        if last == "given":
            listed = names(f"first_names_{first}", locale_of(self))
        else:
            lists = family_names if first == "family" or draws.agree else given_names
            listed = lists(SCRIPTS.get(last, locale_of(self)))
        one = lambda: listed[draws.below(len(listed))]  # noqa: E731
        return combined(self.name, one, "-", free, twice=draws.agree)


@dataclass(frozen=True, kw_only=True)
class Organisation(Spoken):
    """Two uniform family names, such as "Hart-Ortiz", for all but the legal form."""

    name = "organisation"
    keeps = "the legal form of an organisation, such as Inc, a leading The, and a possessive"

    def _spans(self, mention: str) -> list[tuple[int, int]]:
        named = _words_of(mention)
        if len(named) > 1 and named[0].is_in(words("the")):
            named = named[1:]
        while len(named) > 1 and named[-1].is_in(LEGAL):
            named = named[:-1]
        return [(named[0].start, named[-1].end)] if named else super()._spans(mention)

    def _drawn(self, key: str, shape: str, free: Free, draws: Draws) -> str:
        names = family_names(locale_of(self))
        pair = lambda: f"{draws.choice(names)}-{draws.choice(names)}"  # noqa: E731
        return combined(self.name, pair, "-", free)


def locale_of(kind: Spoken) -> str:
    """Returns the name of Faker's lists of a kind's language."""
    return LOCALES[kind.language or "en"]


@cache
def names(attribute: str, locale: str = "en_US") -> tuple[str, ...]:
    """Returns Faker's names of people whose lists are named so: each once, in their order."""
    base = library("faker.providers.person", "detect").Provider
    provider = library(f"faker.providers.person.{locale}", "detect").Provider
    lists = [getattr(provider, name) for name in dir(provider) if attribute in name]
    lists = [listed for listed in lists if listed not in (base.first_names, base.last_names)]
    every = (word for listed in lists for word in listed if isinstance(word, str))
    return tuple(dict.fromkeys(word for word in every if word and " " not in word))


# those of all genders
given_names, family_names = partial(names, "first_names"), partial(names, "last_names")


@cache
def gendered_names(gender: str, locale: str = "en_US") -> frozenset[str]:
    """Returns given names of one gender alone, in lower case."""
    female, male = (
        frozenset(name.casefold() for name in names(f"first_names_{either}", locale))
        for either in ("female", "male")
    )
    return female - male if gender == "female" else male - female
