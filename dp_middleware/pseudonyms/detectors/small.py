"""Names of people and places in small letters, as chats have them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Protocol

from dp_middleware.pseudonyms.detection import Entity
from dp_middleware.pseudonyms.detectors import cues
from dp_middleware.pseudonyms.detectors.cues import before
from dp_middleware.pseudonyms.detectors.tokens import Token
from dp_middleware.pseudonyms.detectors.words import (
    Class,
    is_case_of,
    is_given,
    is_town,
)


class NamedWords(Protocol):
    """What is known of the words of a text."""

    text: str
    language: str
    level: int
    tokens: list[Token]
    is_casual: bool

    def is_frequent(self, word: str) -> bool:
        """Whether a word is a function word."""

    def entity(self, tokens: list[Token], kind: str) -> Entity:
        """Returns these words as an entity."""


def small_names(names: NamedWords) -> Iterator[Entity]:
    """Yields words in small letters that are names by the words beside them, and places.

    What is in no list of words is found by :mod:`.unlisted`.
    """
    for token, behind in zip_longest(names.tokens, names.tokens[1:]):
        word = token.lower
        if token.capital or token.code or len(word) < 3 or word in cues.NOBODY:
            continue
        if names.is_frequent(word):
            continue
        is_lived_in = token.kind >= Class.UNKNOWN or before(cues.LIVING, names.text, token.start)
        if names.is_casual and is_lived_in and is_town(word, names.language):
            yield names.entity([token], "place")
            continue
        is_near = behind is not None and names.text[token.end : behind.start] == " "
        if _is_person(names, token, behind if is_near else None):
            yield names.entity([token], "person")


def _is_person(names: NamedWords, token: Token, behind: Token | None) -> bool:
    """Whether a word in small letters is a person's name."""
    text, start, word = names.text, token.start, token.lower
    if token.kind is Class.WORD:
        return False
    is_given_name = is_given(word) or is_case_of(word, is_given, names.language)
    does = cues.DOING.match(text, token.end) or text[token.end : token.end + 2] in ("'s", "’s")
    if names.language == "en" and not does and before(cues.NO_NAME_BEFORE, text, start):
        return behind is not None and behind.kind >= Class.UNKNOWN and is_given_name
    if len(word) > 3 and before(cues.TITLE, text, start) and names.is_casual:
        return True
    if token.kind >= Class.UNKNOWN:
        return is_given_name and (names.is_casual or before(cues.KIN_BEFORE, text, start))
    if not (names.is_casual and names.level and is_given_name):
        return False
    if before(cues.ROLE_BEFORE, text, start) and token.kind is Class.BOTH:
        return True
    if token.kind is Class.COMMON and word not in cues.GIVEN_WORDS:
        return False
    is_told = before(cues.TOLD_BEFORE, text, start) or before(cues.CALLED, text, start)
    if does and not before(cues.NO_SUBJECT, text, start):
        return True
    return is_told or (behind is not None and behind.kind >= Class.UNKNOWN)
