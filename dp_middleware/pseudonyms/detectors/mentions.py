"""Further mentions of people whose names were read, and user names made of names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from dp_middleware.pseudonyms.detection import Entity
from dp_middleware.pseudonyms.detectors.cues import NO_SUBJECT, SAYING, before
from dp_middleware.pseudonyms.detectors.fields import cells
from dp_middleware.pseudonyms.detectors.tokens import is_stop_word, parts_of
from dp_middleware.pseudonyms.detectors.words import (
    Class,
    ascii_of,
    class_of,
)

_LETTERS = re.compile(r"[^\W\d_]+")
_INITIALS = re.compile(  # "D.T.", and "JC" in quotes, brackets or a line of its own
    r"(?<!\w)(?:[A-Z]\. ?){2,3}|(?<=[\"“(])[A-Z]{2,3}(?=[\"”)])|^[-* ]*[A-Z]{2,3}$", re.MULTILINE
)
_SIGNED = re.compile(
    r"[\u2013\u2014-] ?(?P<name>[A-ZÀ-Ž][^\W\d_]+ (?P<family>[A-ZÀ-Ž][\w'’-]+))$", re.MULTILINE
)
_CELL = re.compile(r"[ \t>*•\"'-]*(?P<name>[A-ZÀ-Ž][\w'’.-]*(?: [A-ZÀ-Ž][\w'’.-]*){0,3})[ \t\"']*")
_SHORT = re.compile(r"(?<=[a-zà-ž,] )[A-ZÀ-Ž][^\W\d_A-Z]{2,}(?!\w)")


def mentions(text: str, claims: list[Entity], language: str, level: int) -> Iterator[Entity]:
    """Yields further mentions of people by parts of their names, and user names made of them."""
    people = [each for each in claims if each.kind == "person"]
    parts = parts_of(text, people, [each for each in claims if each.kind == "email"], language)
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
    for match in _LETTERS.finditer(text) if parts and not text.isascii() else ():
        if not match.group().isascii() and ascii_of(match.group().lower()) in parts:
            yield Entity(*match.span(), "person")
    for match in _SIGNED.finditer(text) if parts else ():
        if match["family"].lower() in parts:
            yield Entity(*match.span("name"), "person")
    if people:
        yield from _columns(text, people, language)
        yield from _short_forms(text, people, language)


def _columns(text: str, people: list[Entity], language: str) -> Iterator[Entity]:
    """Yields cells of columns, and lines of lists, of which a third are people and most may be."""
    named = {each.start for each in people}
    lines = [(match.start(), match.group()) for match in re.finditer(r"[^\n]+", text)]
    for sign in "|;\t,\n" if text.count("\n") > 1 else "":
        for count, group in groupby(lines, key=lambda line: line[1].count(sign)):
            rows = [*group]
            if len(rows) < 3 or (count == 0 and sign != "\n"):
                continue
            for column in zip(*(cells(*row, sign) for row in rows), strict=False):
                found = [m for a, b in column if (m := _CELL.fullmatch(text, a, b))]
                known = sum(match.start("name") in named for match in found)
                if known and known * 3 >= len(found) and len(found) * 3 >= len(column) * 2:
                    for match in found:
                        first = class_of(match["name"].split()[0].lower(), language)
                        if first > Class.COMMON or (known > 2 and known * 2 >= len(found)):
                            yield Entity(*match.span("name"), "person")


def _short_forms(text: str, people: list[Entity], language: str) -> Iterator[Entity]:
    """Yields initials of people, "D.T.", and beginnings of given names, "Des" of "Desmond"."""
    names = {tuple(_LETTERS.findall(text[each.start : each.end])) for each in people}
    initials = {"".join(part[0] for part in name) for name in names if len(name) > 1}
    initials |= {each[:2] for each in initials}
    firsts = {part.lower() for name in names for part in name if len(part) > 4}
    for match in _INITIALS.finditer(text):
        if "".join(_LETTERS.findall(match.group())) in initials:
            yield Entity(*match.span(), "person")
    for match in _SHORT.finditer(text):
        word = match.group().lower()
        if (
            any(each.startswith(word) and len(each) > len(word) + 1 for each in firsts)
            and not is_stop_word(word)
            and (language != "de" or class_of(word, language) >= Class.UNKNOWN)
        ):
            yield Entity(*match.span(), "person")


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
