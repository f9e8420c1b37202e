"""What stands in a line of Markdown: runs of words between marks, and how they are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from urllib.parse import quote

from dp_middleware.sanitizers.spans import Span

_RUN = re.compile(r"\S(?:.*\S)?", re.DOTALL)
# bounded, so that no line takes long: what is longer is words, and private
_MARKUP = re.compile(
    r"""
    (?<![`\\])(?P<ticks>`+)(?!`) (?P<code>.{0,1000}?[^`]) (?P=ticks)(?!`)
  | (?<!\\)!?\[ (?P<label> (?:[^\[\]]|\[[^\[\]]*\]){0,1000} ) \]
      \( (?P<target> (?:[^()<>]|\([^()<>]*\)){0,2000} ) \)
  | (?<!\\)< (?P<address> [A-Za-z][A-Za-z0-9+.-]+:[^<>\s]* | [^<>\s@]+@[^<>\s@]+ ) >
  | (?<![\w*_~\\])(?P<mark> \*{1,3} | _{1,3} | ~~ )(?![\s*_~])
      (?P<inner> .{0,1000}?[^\s*_~\\] ) (?P=mark)(?![\w*_~])
    """,
    re.VERBOSE,
)
_ESCAPED = re.compile(r"[\\*_\[\]<>#|~&]|^[-+=]|!$")
_COUNTED = re.compile(r"^(\d+)([.)])")
_ENDS = re.compile(r"^[\W_]+|[\W_]+$")
_SCHEME = "link:"  # an address needs one, and which it had is private
_NOTHING, _NO_LETTER = "…", "x"  # for an empty release, which would make other markup of its marks
_PLAIN, _INSIDE, _OUTSIDE = "plain", "inside", "outside"

Encoder = Callable[[str], str]


def spans(text: str, start: int, end: int, *, marked: bool = False) -> Iterator[Span]:
    """The private runs of a line, or of what stands between two marks of emphasis."""
    side = _INSIDE if marked else _PLAIN
    left, position = side, start
    for markup in _MARKUP.finditer(text, start, end):
        mark = _OUTSIDE if markup["mark"] is not None else _PLAIN
        yield from _words(text, (position, markup.start()), (left, mark))
        yield from _marked_up(text, markup)
        left, position = mark, markup.end()
    yield from _words(text, (position, end), (left, side))


def _words(text: str, between: tuple[int, int], sides: tuple[str, str]) -> Iterator[Span]:
    """A run of words, and which side of a mark of emphasis touches it at its ends."""
    for span in run(text, *between, str):
        touches = span.start == between[0], span.end == between[1]
        near = [side if touch else _PLAIN for side, touch in zip(sides, touches, strict=True)]
        yield replace(span, encode=partial(_as_words, *near))


def run(text: str, start: int, end: int, encode: Encoder) -> Iterator[Span]:
    """All between two offsets but the blanks around it."""
    words = _RUN.search(text, start, end)
    if words is not None:
        yield Span(*words.span(), encode=encode)


def _marked_up(text: str, markup: re.Match[str]) -> Iterator[Span]:
    if markup["code"] is not None:
        yield from run(text, *markup.span("code"), as_code)
    elif markup["label"] is not None:
        yield from spans(text, *markup.span("label"))
        yield from run(text, *markup.span("target"), _as_target)
    elif markup["address"] is not None:
        yield from run(text, *markup.span("address"), _as_address)
    else:
        yield from spans(text, *markup.span("inner"), marked=True)


def _as_words(left: str, right: str, released: str) -> str:
    """Without markup. Emphasis begins and ends with a letter, and a blank stands around it."""
    words = " ".join(released.replace("`", "'").split()) or _NOTHING
    if _INSIDE in (left, right):
        words = _ENDS.sub("", words) or _NO_LETTER
    words = _ESCAPED.sub(r"\\\g<0>", words)
    words = _COUNTED.sub(r"\1\\\2", words)
    return " " * (left == _OUTSIDE) + words + " " * (right == _OUTSIDE)


def as_code(released: str) -> str:
    """Without the signs that end code or a cell of a table."""
    return " ".join(re.sub(r"[`~|\\]", "'", released).split()) or _NOTHING


def as_info(released: str) -> str:
    """One word without signs."""
    return re.sub(r"\W", "", released)


def _as_target(released: str) -> str:
    return quote("".join(released.split()), safe="/.-~", errors="replace")


def _as_address(released: str) -> str:
    return _SCHEME + _as_target(released)
