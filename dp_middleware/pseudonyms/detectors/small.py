"""Names of people and places in small letters, as chats have them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

from dp_middleware.pseudonyms.detection import Entity
from dp_middleware.pseudonyms.detectors import cues
from dp_middleware.pseudonyms.detectors.cues import before
from dp_middleware.pseudonyms.detectors.tokens import Token
from dp_middleware.pseudonyms.detectors.words import (
    Class,
    is_case_of,
    is_family,
    is_frequent,
    is_given,
    is_name,
    is_town,
    towns,
)

_VERB = re.compile(r"(?:te|ten|[^aeiou]t|[lł][aio]?|ły|ou|ait)\Z")
"""How verbs end that stand behind the word for a person: "mein Freund kündigte"."""


_ALONE = re.compile(r"[\W\d]*[^\W\d_]+(?:\W*(?:19|20)\d\d)?\W*")
_INITIALS = frozenset("bcdfghjklmnpqrstvwxz")  # in small letters, no words


class NamedWords(Protocol):
    """What is known of the words of a text."""

    text: str
    language: str
    level: int
    tokens: list[Token]
    is_casual: bool

    def is_frequent(self, word: str) -> bool:
        """Whether a word is a function word."""

    def is_beside(self, token: Token, is_given_name: bool) -> bool:
        """Whether the word before tells of a person."""

    def entity(self, tokens: list[Token], kind: str) -> Entity:
        """Returns these words as an entity."""


def small_names(names: NamedWords) -> Iterator[Entity]:
    """Yields people and places in small letters, of a text without capital ones or beside kin."""
    last = -1
    for k, token in enumerate(names.tokens):
        if token.kind is Class.WORD and not names.is_casual:
            continue
        if token.capital or token.code or k <= last or len(token.text) < 3:
            continue
        if is_frequent(token.lower, names.language):
            continue
        is_place = names.is_casual and is_town(token.lower, names.language)
        if is_place and before(cues.LIVING, names.text, token.start):
            yield names.entity([token], "place")
            continue
        if token.kind is Class.WORD or token.lower in cues.NOBODY:
            continue
        behind = _behind(names, k)
        is_noun = names.language == "en" and before(cues.NO_NAME_BEFORE, names.text, token.start)
        if is_noun and (behind is None or behind.kind < Class.UNKNOWN):
            continue
        is_titled = (
            len(token.text) > 3
            and (token.kind > Class.COMMON or names.is_casual)
            and before(cues.TITLE, names.text, token.start)
        )
        cue = cues.ROLE_BEFORE if names.is_casual and token.kind >= Class.BOTH else cues.KIN_BEFORE
        kin = names.level >= 1 and before(cue, names.text, token.start)
        if kin and token.kind is Class.BOTH:
            is_titled |= is_given(token.lower)
        elif kin and token.kind is Class.UNKNOWN:
            is_titled |= _VERB.search(token.lower) is None
        is_titled |= token.kind >= Class.BOTH and _is_set_off(names, token)
        if not (names.is_casual or names.level == 2 or is_titled or kin):
            continue
        lists = token.kind is Class.NAME and (
            kin
            or is_given(token.lower)
            or (names.language == "pl" and is_case_of(token.lower, is_given, "pl"))
            or before(cues.CALLED, names.text, token.start)
        )
        is_case = token.kind is Class.UNKNOWN and is_case_of(token.lower, is_given, names.language)
        lists = lists or is_case or _is_in_context(names, token)
        lists = lists or (names.level == 2 and names.is_casual and token.kind is Class.UNKNOWN)
        if (
            is_titled
            and token.kind >= Class.COMMON
            and (names.language == "en" or not names.is_frequent(token.lower))
        ):
            last = k + (behind is not None and behind.kind >= Class.UNKNOWN)
        elif is_given(token.lower) and _family(names, k) > k:
            last = _family(names, k)
        elif lists or (
            is_given(token.lower)
            and behind is not None
            and (behind.kind is Class.NAME or is_given(behind.lower))
            and behind.kind >= Class.BOTH
            and (token.kind >= Class.BOTH or token.lower in cues.GIVEN_WORDS)
        ):
            last = k
            if behind is not None and not cues.DOING.match(names.text, token.end):
                least = Class.UNKNOWN if names.language == "en" else Class.NAME
                is_rare = is_family(behind.lower) and not names.is_frequent(behind.lower)
                last += behind.kind >= least or is_rare
        elif (
            token.kind >= Class.UNKNOWN
            and names.level >= 1
            and token.lower not in towns()
            and (
                (behind is not None and behind.kind is Class.NAME)
                or (
                    names.is_beside(token, False)
                    and (
                        token.kind is Class.NAME or (behind is not None and is_family(behind.lower))
                    )
                )
            )
        ):
            last = k + (behind is not None and is_name(behind.lower))
        else:
            if token.kind >= Class.UNKNOWN and token.lower in towns() and names.level >= 1:
                yield names.entity([token], "place")
            continue
        yield names.entity(names.tokens[k : last + 1], "person")


def _is_set_off(names: NamedWords, token: Token) -> bool:
    """Whether it is a line of its own, but for signs and a year, or ends a greeting of a chat."""
    line = names.text[names.text.rfind("\n", 0, token.start) + 1 :].partition("\n")[0]
    if _ALONE.fullmatch(line):
        return token.kind is Class.NAME and is_given(token.lower) and names.level >= 1
    ends = names.text[token.end : token.end + 1] in ("", ",", ".", "!", "\n")
    return (
        names.is_casual
        and ends
        and is_given(token.lower)
        and before(cues.CALLED, names.text, token.start)
    )


def _is_in_context(names: NamedWords, token: Token) -> bool:
    """Whether a given name that is a word too is told something, or tells: "so mark told hope"."""
    is_name_too = token.lower in cues.GIVEN_WORDS or (
        token.kind is Class.BOTH and is_given(token.lower)
    )
    if not (is_name_too and names.level and names.is_casual):
        return False
    owns = names.text[token.end : token.end + 2] in ("'s", "’s")
    if owns or cues.DOING.match(names.text, token.end):
        return not before(cues.NO_SUBJECT, names.text, token.start)
    return before(cues.TOLD_BEFORE, names.text, token.start)


def _behind(names: NamedWords, k: int) -> Token | None:
    if k + 1 >= len(names.tokens):
        return None
    token, behind = names.tokens[k : k + 2]
    return behind if names.text[token.end : behind.start] == " " and not behind.code else None


def _family(names: NamedWords, k: int) -> int:
    """The place of a family name behind a given name and an initial; that of the given name."""
    row = names.tokens[k : k + 3]
    if len(row) < 3 or row[1].lower not in _INITIALS or row[2].kind < Class.BOTH or row[2].code:
        return k
    between = names.text[row[0].end : row[1].start] + names.text[row[1].end : row[2].start]
    return k + 2 if between in ("  ", " . ") else k
