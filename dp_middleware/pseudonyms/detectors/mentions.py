"""Further mentions of people whose names were found."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from dp_middleware.pseudonyms.detection import Entity
from dp_middleware.pseudonyms.detectors.words import Listed, ascii_of, common, lists_of

_LEAST = 3  # letters of a part of a name that stands for it
_BEGIN = re.compile(r"(?:\A|[.!?:;\n|>•*#\"“(])[\s\"“„«'(\[*_¿¡-]*\Z")
_LETTERS = re.compile(r"[^\W\d_]+")


def mentions(text: str, claims: Collection[Entity], language: str) -> Iterator[Entity]:
    """Yields words of a text that are parts of the names of its people, in any case of letters.

    A part that is a word too is one only with a capital letter within a sentence. A capital word
    may have an s behind the name: "the Soods", "Annas Brief".

    Args:
        text: Private.
        claims: What is found of it.
        language: Of it.
    """
    parts = {
        ascii_of(part.lower())
        for start, end, kind in claims
        if kind == "person"
        for part in _LETTERS.findall(text[start:end])
        if len(part) >= _LEAST and not lists_of(part.lower(), language) & Listed.FREQUENT
    }
    for match in _LETTERS.finditer(text) if parts else ():
        word = ascii_of(match.group().lower())
        if word not in parts and match.group()[0].isupper():
            word = word.removesuffix("s")
        if word in parts and not _is_word(text, match, language):
            yield Entity(*match.span(), "person")


def _is_word(text: str, match: re.Match[str], language: str) -> bool:
    """Whether a part of a name is a word here: "hope", or "Will you ..." at a sentence's begin."""
    word = match.group().lower()
    found = lists_of(word, language)
    is_name = found & (Listed.GIVEN | Listed.FAMILY) and not found & Listed.ORDINARY
    if is_name or not any(word in common(each) for each in (language, "en")):
        return False
    if match.group().islower():
        return True
    start = match.start()
    is_noun = language == "de" and not found & (Listed.GIVEN | Listed.FAMILY)
    return is_noun or _BEGIN.search(text, max(0, start - 8), start) is not None
