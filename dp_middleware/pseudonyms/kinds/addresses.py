"""Places and postal addresses."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from dp_middleware.errors import library
from dp_middleware.pseudonyms import cues
from dp_middleware.pseudonyms.draws import Draws, Free, Part, core, whole, words
from dp_middleware.pseudonyms.kinds.names import LOCALES, POSSESSIVE, family_names, locale_of
from dp_middleware.pseudonyms.mapping import Spoken, combined

FLATS = cues.words("flats")
# words that stand before the name of a street
STREETS = cues.words("streets")
# how names of streets end, in one word with them
ENDED = re.compile(
    r"(?<=\w{3})(?:stra(?:ß|ss)e|str\.?|gasse|weg|platz|allee|ring|ufer|straat|laan|gracht|plein"
    r"|kade|singel|dijk)",
    re.IGNORECASE,
)
# what is put behind a family name, or before it, so that it is a town's
TOWNS = {language: parts.split() for language, parts in cues.CUES["town_parts"].items()}


@dataclass(frozen=True, kw_only=True)
class Place(Spoken):
    """A town such as "Hartville" for any place."""

    name = "place"
    keeps = "a possessive of a place, and whether it has full stops and ends in one"

    def _spans(self, mention: str) -> list[tuple[int, int]]:
        """One; a possessive stays, and a full stop that ends no abbreviation."""
        spans = []
        for start, end, _ in whole(mention):
            if "." in mention[start:end]:  # U.S.
                end += mention[end:].startswith(".")
            possessive = POSSESSIVE.search(mention, start, end)
            spans.append((start, possessive.start() if possessive else end))
        return spans

    def _drawn(self, key: str, shape: str, free: Free, draws: Draws) -> str:
        language = self.language or "en"
        names = family_names(LOCALES[language])
        ends = _town_endings() if language == "en" else TOWNS[language]

        def town() -> str:
            name, end = draws.choice(names), draws.choice(ends)
            return end + name.lower() if end[0].isupper() else name + end

        return combined(self.name, town, "-", free, twice=draws.agree)


@dataclass(frozen=True, kw_only=True)
class Address(Spoken):
    """Lines of an address, such as "742 Evergreen Terrace" by "519 Hart Terrace".

    What stands between commas or line breaks is one unit: a bare number would be restored where
    it means something else.
    """

    name = "address"
    numeric = True
    keeps = (
        "lines of an address, the places, lengths, letters and signs of their numbers, words such"
        " as Suite, the last word such as Street behind a name, the first such as rue before one,"
        " and an ending such as straße"
    )

    def parts(self, mention: str) -> list[Part]:
        """Returns what stands between commas or line breaks."""
        every = [core(mention, *match.span()) for match in re.finditer(r"[^,;\n\r]+", mention)]
        parts = [Part(a, b, self._shape(mention[a:b])) for a, b in every if a < b]
        return parts or whole(mention, "*")

    def _shape(self, line: str) -> str:
        items, words = list[str](), line.split()
        streets = [n for n, word in enumerate(words) if _bare(word) in _street_words()]
        last = streets[-1] if streets else -1
        for n, word in enumerate(words):
            named = any(item[0] != "=" and not item.isdecimal() for item in items)
            if any(character.isdecimal() for character in word):
                items.append("".join(_house_class(character) for character in word))
            elif _bare(word) in FLATS or (n == last if named else _bare(word) in STREETS):
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

        line = lambda: " ".join(map(drawn, shape.split(" ")))  # noqa: E731
        return combined(self.name, line, ", ", free)


def _bare(word: str) -> str:
    return word.casefold().strip(".")


def _house_class(character: str) -> str:
    if character.isdecimal():
        return "9"
    if character.isalnum() and character not in "ºª":
        return "A" if character.isupper() else "a"
    return character if character in "-/#.&'()º°ª" else "a"


@cache
def _street_words() -> frozenset[str]:
    """Kinds of street in lower case, such as "avenue", and short forms of the usual ones."""
    provider = library("faker.providers.address.en_US", "detect").Provider
    short = words("st ave rd blvd dr ln ct pl sq hwy pkwy ter cir")
    return frozenset(word.casefold() for word in provider.street_suffixes) | short


@cache
def _town_endings() -> tuple[str, ...]:
    """With which Faker makes towns of names, such as "ville"."""
    provider = library("faker.providers.address.en_US", "detect").Provider
    return tuple(dict.fromkeys(provider.city_suffixes))
