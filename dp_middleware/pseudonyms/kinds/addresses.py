"""Postal addresses."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from dp_middleware.errors import library
from dp_middleware.pseudonyms.draws import Draws, Free, Part, choice, core, fill, whole, words
from dp_middleware.pseudonyms.kinds.names import family_names
from dp_middleware.pseudonyms.mapping import Kind, combined

FLATS = words("apt suite ste unit floor box po no")


@dataclass(frozen=True, kw_only=True)
class Address(Kind):
    """Lines of an address, such as "742 Evergreen Terrace" by "519 Hart Terrace".

    What stands between commas or line breaks is one unit: a bare number would be restored where
    it means something else.
    """

    name: ClassVar[str] = "address"
    numeric: ClassVar[bool] = True
    keeps: ClassVar[str] = (
        "lines of an address, the places, lengths, letters and signs of their numbers, words such"
        " as Suite, and the last word such as Street behind a name"
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
            elif _bare(word) in FLATS or (n == last and named):
                items.append(f"={word}")
            elif not items or items[-1] != "*":
                items.append("*")
        return " ".join(items) if any(item[0] != "=" for item in items) else "*"

    def draw(self, key: str, shape: str, free: Free, draws: Draws) -> str:
        """Draws uniform digits and letters, and a uniform family name for other words."""
        return combined(self.name, lambda: self._line(shape, draws), ", ", free)

    def _line(self, shape: str, draws: Draws) -> str:
        written = []
        for word in shape.split(" "):
            if word == "*":
                written.append(choice(family_names(), draws))
            elif word.startswith("="):
                written.append(word[1:])
            else:
                written.append(fill(word, draws))
        return " ".join(written)


def _bare(word: str) -> str:
    return word.casefold().strip(".")


def _house_class(character: str) -> str:
    if character.isdecimal():
        return "9"
    if character.isalnum():
        return "A" if character.isupper() else "a"
    return character if character in "-/#.&'()" else "a"


@cache
def _street_words() -> frozenset[str]:
    """Kinds of street in lower case, such as "avenue", and short forms of the usual ones."""
    provider = library("faker.providers.address.en_US", "detect").Provider
    short = words("st ave rd blvd dr ln ct pl sq hwy pkwy ter cir")
    return frozenset(word.casefold() for word in provider.street_suffixes) | short
