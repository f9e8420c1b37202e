"""The words of a Markdown text are private, its markup public: blocks, line by line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from dp_middleware.sanitizers.spans import Span
from dp_middleware.scopes import _inline
from dp_middleware.scopes._code import LANGUAGES, code

_LINE = re.compile(r"[^\r\n]+")
_RULER = re.compile(r"[ \t>]*(?:([-=])(?:[ \t]*\1)*|([*_])(?:[ \t]*\2){2,})[ \t]*")
_MARKER = re.compile(r"[ \t]*(?:>|#{1,6}(?![^ \t])|[-*+](?![^ \t]))")
_NUMBER = re.compile(r"([ \t]*)(\d{1,9})[.)](?=[ \t])", re.ASCII)
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*([^`]*)")
_DELIMITERS = re.compile(r"[ \t>]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")
_PIPE = re.compile(r"(?<!\\)\|")


class _Line(NamedTuple):
    """Offsets of a line without its end, and whether its pipes divide cells."""

    start: int
    end: int
    cells: bool


def markdown(text: str) -> list[Span]:
    """The words of a Markdown text, run by run.

    Public: blanks and line ends, the signs of headings, quotes, lists (numbers too where they
    count from 0 or 1), rules, tables, emphasis, code and its fences, the brackets of inline links
    and images, ``<`` and ``>`` of addresses; and in a fence that names one of
    :data:`LANGUAGES`, that name and what :func:`code` declares public. Private: all else, so
    words, link targets and titles, code, HTML, front matter, footnotes and reference links. A
    release is written with its markup escaped, in a link's target percent-encoded.
    """
    spans: list[Span] = []
    counted: dict[str, int] = {}
    lines = iter(_lines(text))
    for line in lines:
        start, end = line.start, line.end
        ruled = line.cells and _DELIMITERS.fullmatch(text, start, end)
        if ruled or _RULER.fullmatch(text, start, end):
            continue
        start = _behind_markers(text, start, end, counted)
        fence = _FENCE.fullmatch(text, start, end)
        if fence is not None:
            spans += _fenced(text, fence, lines)
        elif line.cells:
            for first, last in _cells(text, start, end):
                spans += _inline.spans(text, first, last)
        else:
            spans += _inline.spans(text, start, end)
    return spans


def _lines(text: str) -> list[_Line]:
    """Lines that are not empty; a table is a head, a line of delimiters and rows."""
    offsets = [line.span() for line in _LINE.finditer(text)]
    cells = [False] * len(offsets)
    for k, (start, end) in enumerate(offsets):
        if k and "|" in text[start:end] and _DELIMITERS.fullmatch(text, start, end):
            cells[k - 1] = cells[k] = True
            continue
        cells[k] = bool(k) and cells[k - 1] and "|" in text[start:end]
        cells[k] &= text.count("\n", offsets[k - 1][1], start) <= 1
    return [_Line(*line, row) for line, row in zip(offsets, cells, strict=True)]


def _behind_markers(text: str, start: int, end: int, counted: dict[str, int]) -> int:
    """Where the words of a line begin; a number is public if it only counts."""
    while True:
        number = _NUMBER.match(text, start, end)
        if number is not None:
            indent, value = number.group(1), int(number.group(2))
            if value not in (0, 1, counted.get(indent, 0) + 1) or number.group(2) != str(value):
                return start
            counted[indent] = value
        marker = number or _MARKER.match(text, start, end)
        if marker is None:
            return start
        start = marker.end()


def _cells(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for pipe in _PIPE.finditer(text, start, end):
        yield start, pipe.start()
        start = pipe.end()
    yield start, end


def _fenced(text: str, fence: re.Match[str], lines: Iterator[_Line]) -> Iterator[Span]:
    """The information of a fence and all up to its end, which is taken from the lines."""
    signs, language = fence.group(1), fence.group(2).strip()
    known = language in LANGUAGES
    if not known:
        yield from _inline.run(text, *fence.span(2), _inline.as_info)
    closing = re.compile(rf"[ \t>]*{signs[0]}{{{len(signs)},}}[ \t]*")
    body: list[_Line] = []
    for line in lines:
        if closing.fullmatch(text, line.start, line.end):
            break
        body.append(line)
    if not body:
        return
    if not known:
        for line in body:
            yield from _inline.run(text, line.start, line.end, _inline.as_code)
        return
    first = body[0].start
    for span in code(language)(text[first : body[-1].end]):
        yield replace(span, start=span.start + first, end=span.end + first)
