"""Lists of candidates out of what a chat model answers: JSON, or numbered lines."""

from __future__ import annotations

import json
import re
from typing import Any

Entries = list[tuple[int, list[str]]]

_LINE = re.compile(r"^[\s>*#-]*[\[(]?\"?(\d{1,6})\"?\s*(?:[.):\]]|->|=>|→|-\s)[.):*\s]*(.*)$")
_FRAGMENT = re.compile(r"\"(\d{1,6})\"\s*:\s*(\[[^\[\]]*\])")
_DIGITS = 7  # more than any number asked for has
# what was asked about is often repeated before the candidates
_REPEATED = re.compile(r".*(?:->|=>|→)|^[^,;|/:]+:\s+(?=\S)")
_SEPARATOR = re.compile(r"[,;|/]")
_AROUND = " \t\r\n\"'`*[](){}<>.“”’\u2018"


def candidates(answer: str, count: int) -> list[list[str]]:
    """The candidates for tokens 1 .. count, in order; an empty list where none could be read.

    Read as JSON if the answer holds it, whatever text is around: an object from numbers to lists,
    an array of lists or of such objects, or what is whole of an object that was cut off. Else
    line by line: a number, then candidates between commas. What is neither is left out.
    """
    single = (_only,) if count == 1 else ()
    for read in (_object, *single, _array, _fragments, _lines):
        found = dict(read(answer))
        if found:
            return [found.get(number, []) for number in range(1, count + 1)]
    return [[] for _ in range(count)]


def _object(answer: str) -> Entries:
    return _entries(_json(answer, "{", "}"))


def _array(answer: str) -> Entries:
    return _entries(_json(answer, "[", "]"))


def _only(answer: str) -> Entries:
    """A plain list of texts holds all candidates where one token was asked for."""
    listed = _json(answer, "[", "]")
    plain = isinstance(listed, list) and all(isinstance(each, str) for each in listed)
    return [(1, _texts(listed))] if plain else []


def _fragments(answer: str) -> Entries:
    return [
        (int(number), _texts(_json(listed, "[", "]")))
        for number, listed in _FRAGMENT.findall(answer)
    ]


def _json(answer: str, opening: str, closing: str) -> Any:
    """What lies between the first opening and the last closing bracket; ``None`` if no JSON."""
    start, end = answer.find(opening), answer.rfind(closing)
    if not 0 <= start < end:
        return None
    try:
        return json.loads(answer[start : end + 1])
    except (ValueError, RecursionError):
        return None


def _entries(data: Any) -> Entries:
    if isinstance(data, dict):
        pairs = [(_number(str(key)), value) for key, value in data.items()]
        return [(number, _texts(value)) for number, value in pairs if number is not None]
    if not isinstance(data, list):
        return []
    if any(isinstance(item, dict) for item in data):
        return [entry for item in data if isinstance(item, dict) for entry in _entries(item)]
    return [(number, _texts(value)) for number, value in enumerate(data, start=1)]


def _number(key: str) -> int | None:
    digits = key.strip()
    return int(digits[:_DIGITS]) if digits.isascii() and digits.isdigit() else None


def _texts(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [text for each in values if isinstance(each, str) and (text := each.strip())]


def _lines(answer: str) -> Entries:
    found = []
    for line in answer.splitlines():
        matched = _LINE.match(line)
        if matched is not None:
            listed = _SEPARATOR.split(_REPEATED.sub("", matched[2]))
            cleaned = [text for each in listed if (text := each.strip(_AROUND))]
            found.append((int(matched[1]), cleaned))
    return found
