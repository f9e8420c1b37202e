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
    listed = _json(answer, "[", "]")
    readings = [_entries(_json(answer, "{", "}")), _entries(listed), _fragments(answer)]
    if count == 1 and isinstance(listed, list) and all(isinstance(text, str) for text in listed):
        readings.insert(1, [(1, _texts(listed))])  # a plain list is that of the only token
    entries = next((dict(entries) for entries in (*readings, _lines(answer)) if entries), {})
    return [entries.get(number, []) for number in range(1, count + 1)]


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
        keys = [(str(key).strip(), value) for key, value in data.items()]
        return [
            (int(key[:_DIGITS]), _texts(value))
            for key, value in keys
            if key.isascii() and key.isdigit()
        ]
    if not isinstance(data, list):
        return []
    if any(isinstance(item, dict) for item in data):
        return [entry for item in data if isinstance(item, dict) for entry in _entries(item)]
    return [(number, _texts(value)) for number, value in enumerate(data, start=1)]


def _texts(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [text for guess in values if isinstance(guess, str) and (text := guess.strip())]


def _lines(answer: str) -> Entries:
    entries = []
    for line in answer.splitlines():
        if numbered := _LINE.match(line):
            parts = _SEPARATOR.split(_REPEATED.sub("", numbered[2]))
            texts = [text for part in parts if (text := part.strip(_AROUND))]
            entries.append((int(numbered[1]), texts))
    return entries
