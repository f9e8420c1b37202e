"""People, organisations, places and postal addresses, by names of Faker's public lists."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache, partial
from itertools import accumulate, pairwise
from typing import NamedTuple

from dp_middleware.errors import library
from dp_middleware.pseudonyms import cues
from dp_middleware.pseudonyms.draws import CORE, Draws, Free, Part, core, whole, words
from dp_middleware.pseudonyms.mapping import Spoken, combined

TITLES, SUFFIXES, PARTICLES, LEGAL = (
    cues.words(name) for name in ("titles", "name_suffixes", "particles", "legal_forms")
)
SMALL_PARTICLES = words("y e i a o")  # capital ones are initials
HYPHENS = ("\u2010", "\u2011", "-")
PREFIX, NAME, POSSESSIVE, INITIALS, ENDED, _BEFORE = cues.rules(
    "names", "prefix", "name", "possessive", "initials", "ended", "before"
)
WORD = re.compile(r"\S+")
# Faker's names of the lists to draw from, by language and by script
LOCALES: dict[str, str] = cues.CUES["locales"]
SCRIPTS: dict[str, str] = cues.CUES["scripts"]
# words behind, and before, the name of a street, and of a flat
AVENUES = words("st ave rd blvd dr ln ct pl sq hwy pkwy ter cir")
STREETS, FLATS = cues.words("streets"), cues.words("flats")
# what is put behind a family name, or before it, so that it is a town's
TOWNS = {language: parts.split() for language, parts in cues.CUES["town_parts"].items()}


class _Word(NamedTuple):
    """A word of a mention without the punctuation around it."""

    start: int
    end: int
    text: str
    comma: bool  # behind it

    def is_in(self, public: frozenset[str]) -> bool:
        return _plain(self.text) in public


def _plain(word: str) -> str:
    return word.casefold().rstrip(".")


def _words_of(mention: str, pattern: re.Pattern[str] = WORD) -> list[_Word]:
    every = []
    for match in pattern.finditer(mention):
        inner = CORE.search(mention, *match.span())
        if inner is None:
            continue
        start, end = inner.span()
        comma = "," in mention[end : match.end() + 1]
        if possessive := POSSESSIVE.search(mention, start, end):
            end = possessive.start()
        dotted = mention[start : end + 1]
        if dotted.endswith(".") and end < match.end() and INITIALS.fullmatch(dotted):
            behind = mention[match.end() : match.end() + 1]
            end += not behind.isalpha()  # else two pseudonyms would touch
        if start < end:
            every.append(_Word(start, end, mention[start:end], comma))
    return every


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
        _plain(title[1]) in TITLES
    ):
        start = title.start(1)
    return start


@dataclass(frozen=True, kw_only=True)
class Person(Spoken):
    """Words of a name, each by a uniform one from Faker's given or family names of a country.

    Attributes:
        keep_gender: Whether a given name that is public for one gender gets one of that gender.
        keep_script: Whether a name in another script gets one in that script.
    """

    name = "person"
    keeps = cues.KEEPS["person"]

    keep_gender: bool = False
    keep_script: bool = False

    def parts(self, mention: str) -> list[Part]:
        """Returns its words; titles, particles, suffixes and possessives stay."""
        named = _words_of(mention, NAME)
        units = _units(named)
        if not units:
            return whole(mention, "given")
        gaps = (mention[one.end : other.start] for one, other in pairwise(units))
        group = [*accumulate((gap not in HYPHENS for gap in gaps), initial=0)]
        family = group[-1] if group[-1] or named[0].is_in(TITLES) else -1
        if family > 0 and any(word.comma for n, word in zip(group, units, strict=True) if n == 0):
            family = 0  # Lopez, Maria
        return [self._part(word, n == family) for n, word in zip(group, units, strict=True)]

    def _part(self, word: _Word, family: bool) -> Part:
        if (word.text.isupper() or "." in word.text) and INITIALS.fullmatch(word.text):
            return Part(word.start, word.end, re.sub(r"[^\W\d_]", "A", word.text))
        prefix = PREFIX.match(word.text)
        shape = "family" if family else "given"
        script = _script(word.text) if self.keep_script else ""
        if script in SCRIPTS:
            shape = f"{shape} {script}"
        elif self.keep_gender and not family:
            for gender in ("female", "male"):
                if word.is_in(gendered_names(gender, locale_of(self))):
                    shape = f"{gender} given"
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


class Organisation(Spoken):
    """Two uniform family names, such as "Hart-Ortiz", for all but the legal form."""

    name = "organisation"
    keeps = cues.KEEPS["organisation"]

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


class Place(Spoken):
    """A town such as "Hartville" for any place."""

    name = "place"
    keeps = cues.KEEPS["place"]

    def _spans(self, mention: str) -> list[tuple[int, int]]:
        spans = []
        for start, end, _ in whole(mention):
            if "." in mention[start:end]:  # U.S.
                end += mention[end:].startswith(".")
            possessive = POSSESSIVE.search(mention, start, end)
            spans.append((start, possessive.start() if possessive else end))
        return spans

    def _drawn(self, key: str, shape: str, free: Free, draws: Draws) -> str:
        names = family_names(locale_of(self))
        ends = TOWNS[self.language or "en"]

        def town() -> str:
            name, end = draws.choice(names), draws.choice(ends)
            return end + name.lower() if end[0].isupper() else name + end

        return combined(self.name, town, "-", free, twice=draws.agree)


class Address(Spoken):
    """Lines of an address, such as "742 Evergreen Terrace" by "519 Hart Terrace".

    What stands between commas or line breaks is one unit: a bare number would be restored where
    it means something else.
    """

    name = "address"
    numeric = True
    keeps = cues.KEEPS["address"]

    def parts(self, mention: str) -> list[Part]:
        """Returns what stands between commas or line breaks."""
        every = [core(mention, *match.span()) for match in re.finditer(r"[^,;\n\r]+", mention)]
        parts = [Part(a, b, self._shape(mention[a:b])) for a, b in every if a < b]
        return parts or whole(mention, "*")

    def _shape(self, line: str) -> str:
        items, words = list[str](), line.split()
        plain = [word.casefold().strip(".") for word in words]
        last = max((n for n, word in enumerate(plain) if word in _avenues()), default=-1)
        for n, word in enumerate(words):
            named = any(item[0] != "=" and not item.isdecimal() for item in items)
            if any(character.isdecimal() for character in word):
                items.append("".join(map(_house_class, word)))
            elif plain[n] in FLATS or (n == last if named else plain[n] in STREETS):
                items.append(f"={word}")
            elif ended := ENDED.search(word):
                items[-(items[-1:] == ["*"]) or len(items) :] = [f"*{word[ended.start() :]}"]
            elif not items or items[-1] != "*":
                items.append("*")
        return " ".join(items) if any(item[0] != "=" for item in items) else "*"

    def _drawn(self, key: str, shape: str, free: Free, draws: Draws) -> str:
        names = family_names(locale_of(self))

        def drawn(word: str) -> str:
            if word.startswith("*"):
                return draws.choice(names) + word[1:]
            return word[1:] if word.startswith("=") else draws.fill(word)

        return combined(self.name, lambda: " ".join(map(drawn, shape.split(" "))), ", ", free)


def _house_class(character: str) -> str:
    if character.isdecimal():
        return "9"
    if character.isalnum() and character not in "ºª":
        return "A" if character.isupper() else "a"
    return character if character in "-/#.&'()º°ª" else "a"


def _script(text: str) -> str:
    first = next((unicodedata.name(sign, "") for sign in text if sign.isalpha()), "")
    return re.split("[ -]", first)[0]


def locale_of(kind: Spoken) -> str:
    """Returns the name of Faker's lists of a kind's language."""
    return LOCALES[kind.language or "en"]


@cache
def _avenues() -> frozenset[str]:
    provider = library("faker.providers.address.en_US", "detect").Provider
    return AVENUES | {word.casefold() for word in provider.street_suffixes}


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
    other = "male" if gender == "female" else "female"
    own, others = (names(f"first_names_{each}", locale) for each in (gender, other))
    return frozenset(map(str.casefold, own)) - {*map(str.casefold, others)}
