"""What a model of names and Presidio's patterns return, cut to the value itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from dp_middleware.pseudonyms.detection import Entity
from dp_middleware.pseudonyms.labels import NAMES

_LINE = re.compile(r"[^\n]+")
_ARTICLE = re.compile(r"\s*(?:the|a|an)\s+", re.IGNORECASE)
_POSSESSIVE = re.compile(r"(?:['’]s|(?<=s)['’])\s*\Z", re.IGNORECASE)
_YEAR = re.compile(r"(?:1\d|20)\d\d")
_RELATIVE = re.compile(
    r"(?:(?:an?|the|this|that|these|those|next|last|past|previous|following|coming|same|other|"
    r"each|every|all|few|several|many|some|early|late|later|earlier|more|than|ago|before|after|"
    r"now|then|today|tonight|tomorrow|yesterday|currently|recent|recently|daily|weekly|monthly|"
    r"quarterly|yearly|annual|annually|morning|noon|afternoon|evening|night|midnight|day|week|"
    r"weekend|month|quarter|season|year|decade|century|hour|minute|second|moment|of)s?\b\W*)+",
    re.IGNORECASE,
)


def tidied(text: str, found: Iterable[Entity]) -> Iterator[Entity]:
    """Entities as a reader would mark them.

    A name has no article and no possessive and stays in its line; digits alone are a number and
    no date, unless they are a year; an age is no date, nor is "the following year", which names
    none; the address of a site ends before the signs of its sentence.
    """
    entities = list(found)
    ages = [each for each in entities if each.kind == "age"]
    for each in entities:
        start, end, kind = each
        written = text[start:end]
        if kind in NAMES:
            for line in _LINE.finditer(text, start, end):
                yield _bare(text, *line.span(), kind)
        elif kind == "date" and (
            _RELATIVE.fullmatch(written) or any(start <= a.start and a.end <= end for a in ages)
        ):
            continue
        elif kind == "date" and written.isdigit() and not _YEAR.fullmatch(written):
            yield each._replace(kind="number")
        elif kind == "url":
            if not text[end : end + 1].isalnum():  # else a full stop without a blank behind it
                yield each._replace(end=start + len(written.rstrip(".,;:!?'\")]>")))
        else:
            yield each


def _bare(text: str, start: int, end: int, kind: str) -> Entity:
    if article := _ARTICLE.match(text, start, end):
        start = article.end()
    if possessive := _POSSESSIVE.search(text, start, end):
        end = possessive.start()
    return Entity(start, end, kind)
