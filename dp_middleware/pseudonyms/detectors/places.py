"""Organisations and places among words with capital letters, by public lists."""

from __future__ import annotations

from collections.abc import Iterator

from dp_middleware.pseudonyms.detection import Entity
from dp_middleware.pseudonyms.detectors.cues import ORGANISED
from dp_middleware.pseudonyms.detectors.small import NamedWords
from dp_middleware.pseudonyms.detectors.tokens import Token
from dp_middleware.pseudonyms.detectors.words import Class, is_town, towns


def organisation(names: NamedWords, run: list[Token]) -> Entity | None:
    """An organisation among the words of a row, by a word such as "Ltd" behind its name."""
    last = next((k for k, t in enumerate(run) if k and t.lower in ORGANISED), None)
    if last is None:
        return None
    while last + 1 < len(run) and run[last + 1].lower in ORGANISED:
        last += 1
    named = run[: last + 1]
    while named and named[0].first and named[0].kind is Class.WORD and len(named) > 2:
        named = named[1:]
    bare = named[1:] if named[0].first and named[0].kind <= Class.COMMON else named
    if all(token.lower in ORGANISED for token in bare) or (
        names.level == 0 and all(token.kind <= Class.COMMON for token in named)
    ):
        return None  # "The Bank"
    return names.entity(named, "organisation")


def places(names: NamedWords, run: list[Token]) -> Iterator[Entity]:
    """Yields towns, countries and states of a row."""
    k = 0
    while k < len(run):
        for n in (3, 2, 1):
            words = run[k : k + n]
            name = " ".join(token.lower for token in words)
            known = name in towns() if n > 1 else is_town(name, names.language)
            if len(words) == n and known and (n > 1 or _may_be_town(names, words[0])):
                yield names.entity(words, "place")
                k += n - 1
                break
        k += 1


def _may_be_town(names: NamedWords, token: Token) -> bool:
    if token.text.isupper():
        return token.kind >= Class.UNKNOWN or (len(token.text) > 4 and names.level >= 1)
    if token.first and token.kind <= (Class.BOTH if names.level < 2 else Class.WORD):
        return False
    if len(token.text) < 4:
        return False
    return names.language != "de" or token.kind is not Class.WORD or len(token.text) > 5
