"""Further mentions of people whose names were read, and user names made of names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from dp_middleware.pseudonyms.detection import Entity
from dp_middleware.pseudonyms.detectors.cues import NO_SUBJECT, SAYING, before
from dp_middleware.pseudonyms.detectors.tokens import is_stop_word, parts_of
from dp_middleware.pseudonyms.detectors.words import (
    Class,
    ascii_of,
    class_of,
    family,
    given,
    is_name,
)

_HANDLE = re.compile(r"(?<![\w@./-])[a-z][a-z0-9]*(?:[._-][a-z0-9]+)*(?![\w@])")


def mentions(text: str, people: list[Entity], language: str, level: int) -> Iterator[Entity]:
    """Yields further mentions of people by parts of their names, and user names made of them."""
    parts = parts_of(text, people, language)
    small = {text[each.start : each.end].partition(" ")[0] for each in people}
    if parts:
        listed = "|".join(sorted(map(re.escape, parts), key=len, reverse=True))
        for match in re.finditer(rf"(?<![^\W\d_])(?:{listed})(?![^\W\d_])", text, re.IGNORECASE):
            word = match.group()
            if word.islower() and not parts.get(word):
                if word in small and not (
                    is_stop_word(word) or before(NO_SUBJECT, text, match.start())
                ):
                    yield Entity(*match.span(), "person")
            elif level == 2 or not _is_said(text, match, parts, language):
                yield Entity(*match.span(), "person")
    plain = {ascii_of(part).replace("'", "").replace("-", "") for part in parts if len(part) > 3}
    for match in _HANDLE.finditer(text):
        if _is_handle(match.group(), plain, language):
            yield Entity(*match.span(), "username")


def _is_said(text: str, match: re.Match[str], parts: dict[str, bool], language: str) -> bool:
    """Whether a word that is no name in small letters begins a sentence here: "Will you ..."."""
    if parts.get(match.group().lower()) or match.group().isupper():
        return False
    if class_of(match.group().lower(), language) > Class.COMMON:
        return False
    before = text[: match.start()].rstrip(" \"'(")
    behind = re.match(r"\s+[a-z]", text[match.end() : match.end() + 3])
    begins = before[-1:] in ("", ".", "!", "?", "\n") and behind is not None
    return begins and SAYING.match(text, match.end()) is None


def _is_handle(word: str, names: Collection[str], language: str) -> bool:
    """Whether a word in small letters is a user name: of a known name, or of listed ones."""
    letters = [part for part in re.split(r"[._\d-]+", word) if part]
    if not letters or len(word) < 4 or word in names:
        return False
    joined = "".join(letters)
    if (
        any(name in joined and len(joined) - len(name) <= 8 for name in names)
        and joined not in names
    ):
        return class_of(joined, language) >= Class.UNKNOWN
    if len(letters) > 1 or word[-1].isdigit():
        strong = [
            part for part in letters if len(part) > 3 and class_of(part, language) is Class.NAME
        ]
        rest = [part for part in letters if part not in strong]
        return (
            bool(strong)
            and all(len(part) == 1 or is_name(part) for part in rest)
            and (any(part in given() or part in family() for part in strong))
        )
    if class_of(word, language) is not Class.UNKNOWN or len(word) < 6:
        return False
    halves = ((word[:k], word[k:]) for k in range(4, len(word) - 3))
    return (word[1:] in family() and class_of(word[1:], language) >= Class.BOTH) or any(
        (a in given() and b in family()) or (a in family() and b in given()) for a, b in halves
    )
