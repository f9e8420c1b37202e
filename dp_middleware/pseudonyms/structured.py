r"""What a reader sees of a text: in strings of JSON without escapes, and written back with them.

In ``"history": "2024:\nLopez"`` the name is Lopez, not nLopez. So entities are found, and known
names looked for, in a view in which the escapes of JSON are the signs that they stand for, also in
JSON that a string of JSON holds; what replaces them is spelled as it must be where it stands.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import NamedTuple

from dp_middleware._forks import StaysHere
from dp_middleware.conversation.messages import is_json
from dp_middleware.sanitizers.spans import PART

SIGNS = "{[\\"  # a text without any of them is seen as it is
LITERAL = re.compile(r'"((?:[^"\\]++|\\.)*+)("?)', re.DOTALL)
ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[\"\\/bfnrt])"
)
# outside of JSON, as a log, a part of a file or Python have it; ``C:\new`` has none
LOOSE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}"
    r"|[bfnrt](?![a-z])|[\"'])"
)
NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_STRUCTURE = re.compile(r'[^"]+')
_BETWEEN = re.compile(rf"[{{}}\[\]:,]|(?P<number>{NUMBER.pattern})")
_OPENING = re.compile(  # or a string with an escape
    r'\{\s*+"|\[\s*+[{"\[]|"[^"\\\n]*+\\[^\n](?:[^"\\\n]++|\\[^\n])*+"'
)
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[{}\[\]]', re.DOTALL)
Starts = range | list[int]  # where the signs of a text begin in the raw one
_PLAIN = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_DEEPEST = 6  # strings in strings
_IDENTIFYING = re.compile(
    r"(?:^|_)(?:id|ids|uid|uuid|number|no|nr|num|ref|reference|account|acct|iban|card|phone|mobile|tel"
    r"|fax|ssn|sin|nino|mrn|passport|licen[cs]e|zip|zipcode|postcode|user|username|login|customer"
    r"|client|patient|member|employee|order|invoice|ticket|case|policy|claim|contract|booking)$"
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


class Value(NamedTuple):
    """A number of JSON, or a string of digits, by its place in the view."""

    start: int
    end: int
    bare: bool  # whether it is a number, without quotes
    identifies: bool  # whether its key says that it names somebody or something


@dataclass(frozen=True, kw_only=True)
class View(StaysHere):
    """A private text as a reader sees it.

    Attributes:
        raw: The text.
        text: What is seen.
        inner: That with NUL for the signs between the values of JSON: no name goes over one.
        starts: Where each sign begins in the raw text, and its end; empty where both are the same.
        depths: How many strings of JSON each sign stands in; empty where none does.
        values: Numbers, and strings of digits.
    """

    raw: str = field(repr=False)
    text: str = field(repr=False)
    inner: str = field(repr=False)
    starts: tuple[int, ...] = field(default=(), repr=False)
    depths: bytes = field(default=b"", repr=False)
    values: tuple[Value, ...] = field(default=(), repr=False)

    def slice(self, start: int, end: int) -> str:
        """Returns the raw text of a part of the view."""
        if not self.starts:
            return self.raw[start:end]
        return self.raw[self.starts[start] : self.starts[end]]

    def spelled(self, written: str, start: int, end: int) -> str:
        """Returns what is written in a part of the view as it must be spelled there."""
        if self.number_at(start, end) and not NUMBER.fullmatch(written):
            written = json.dumps(written)
        for _ in range(self.depths[start] if self.depths else 0):
            written = json.dumps(written)[1:-1]
        return written + PART * self.slice(start, end).count(PART)

    def without(self, place: int) -> View:
        """Returns the same without one sign, which is then a part of what is written before it."""
        starts = self.starts or tuple(range(len(self.raw) + 1))
        values = (
            v._replace(start=v[0] - (v[0] > place), end=v[1] - (v[0] > place)) for v in self.values
        )
        return replace(
            self,
            text=self.text[:place] + self.text[place + 1 :],
            inner=self.inner[:place] + self.inner[place + 1 :],
            starts=starts[:place] + starts[place + 1 :],
            depths=self.depths[:place] + self.depths[place + 1 :],
            values=tuple(values),
        )

    def value_at(self, start: int, end: int) -> Value | None:
        """Returns the value that overlaps a part of the view."""
        k = bisect_left(self.values, end, key=itemgetter(0)) - 1
        return self.values[k] if k >= 0 and self.values[k].end > start else None

    def number_at(self, start: int, end: int) -> Value | None:
        """Returns the number of JSON that overlaps a part of the view."""
        value = self.value_at(start, end)
        return value if value is not None and value.bare else None


def view_of(text: str, *, plain: bool = False) -> View:
    """Returns what a reader sees of a text; of a plain one, which is no JSON, all as it is."""
    if plain or not any(sign in text for sign in SIGNS):
        return View(raw=text, text=text, inner=text)
    reading = _Reading()
    reading.read(text, range(len(text) + 1), 0)
    seen = "".join(reading.seen)
    view = View(raw=text, text=seen, inner="".join(reading.inner), values=tuple(reading.values))
    if seen == text and not any(reading.depths):
        return view
    return replace(view, starts=(*reading.starts, len(text)), depths=bytes(reading.depths))


class _Reading:
    def __init__(self) -> None:
        self.seen, self.inner = list[str](), list[str]()
        self.starts, self.depths, self.values = list[int](), bytearray(), list[Value]()

    def add(self, text: str, starts: Starts, depth: int, between: bool = False) -> None:
        self.seen.append(text)
        self.inner.append("\0" * len(text) if between else text)
        self.starts.extend(starts)
        self.depths.extend(bytes([depth]) * len(text))

    def read(self, text: str, starts: Starts, depth: int) -> None:
        """Reads a text whose signs begin at these places of the raw one."""
        done = 0
        for begin, end in _regions(text, depth) if depth < _DEEPEST else ():
            self.add(*_unescaped(text, done, begin, starts, LOOSE), depth)
            self._read_json(text, begin, end, starts, depth)
            done = end
        self.add(*_unescaped(text, done, len(text), starts, LOOSE), depth)

    def _read_json(self, text: str, place: int, end: int, starts: Starts, depth: int) -> None:
        keys, last, parses = _Keys(), "", is_json(text[place:end])
        while place < end:
            if (literal := LITERAL.match(text, place, end)) is None:
                structure = _STRUCTURE.match(text, place, end)
                assert structure is not None  # whatever is no literal
                seen, own = _unescaped(text, place, structure.end(), starts, LOOSE)
                done = 0
                for match in _BETWEEN.finditer(seen):
                    if match.lastgroup is None:
                        keys.read(match.group(), last)
                        continue
                    first, behind = match.span()
                    self.add(seen[done:first], own[done:first], depth, parses)
                    names = match.group().lstrip("-").isdecimal() and _identifies(keys.key)
                    at = len(self.starts)
                    self.values.append(Value(at, at + behind - first, True, names))
                    self.add(match.group(), own[first:behind], depth)
                    done = behind
                self.add(seen[done:], own[done:], depth, parses)
                place = structure.end()
                continue
            first, behind = literal.span(1)
            self.add('"', starts[place:first], depth, parses)
            at, pieces = len(self.starts), len(self.seen)
            self.read(*_unescaped(text, first, behind, starts, ESCAPE), depth + 1)
            last = "".join(self.seen[pieces:])
            if last.isdecimal():
                self.values.append(Value(at, len(self.starts), False, _identifies(keys.key)))
            self.add(literal[2], starts[behind : literal.end()], depth, parses)
            place = literal.end()


class _Keys:
    """The key of the value that is read; all values of a list have that of the list."""

    def __init__(self) -> None:
        self.key, self._around = "", [""]

    def read(self, sign: str, last: str) -> None:
        """Goes on with a sign between values, behind this string."""
        if sign in "[{":
            self._around.append(self.key if sign == "[" else "")
        elif sign in "]}" and len(self._around) > 1:
            self._around.pop()
        self.key = last if sign == ":" else self._around[-1]


def _unescaped(
    text: str, place: int, end: int, starts: Starts, escapes: re.Pattern[str]
) -> tuple[str, Starts]:
    """A part of a text with the signs of its escapes, and where each begins in the raw one."""
    if "\\" not in text[place:end]:
        return text[place:end], starts[place:end]
    seen, own = list[str](), list[int]()
    for match in escapes.finditer(text, place, end):
        seen += [text[place : match.start()], _sign(match.group())]
        own += [*starts[place : match.start()], starts[match.start()]]
        place = match.end()
    return "".join([*seen, text[place:end]]), [*own, *starts[place:end]]


def _sign(escape: str) -> str:
    if escape[1] not in "ux":
        return _PLAIN.get(escape[1], escape[1])
    code = int(escape[2:6], 16)
    if len(escape) > 6:
        code = 0x10000 + ((code - 0xD800) << 10) + int(escape[8:], 16) - 0xDC00
    return "\ufffd" if 0xD800 <= code < 0xE000 else chr(code)  # half of a pair


def _identifies(key: str) -> bool:
    return _IDENTIFYING.search("_".join(_WORDS.findall(key)).lower()) is not None


def _regions(text: str, depth: int) -> Iterator[tuple[int, int]]:
    """The parts of a text that are JSON by their brackets; one that was cut off goes to the end."""
    whole = ('"',) if depth else ('"', "[")
    if text.lstrip()[:1] in whole and is_json(text):
        yield 0, len(text)
        return
    done = 0
    while (opening := _OPENING.search(text, done)) is not None:
        begin, done, depth = opening.start(), len(text), 0
        if text[begin] == '"':
            done = opening.end()
            if is_json(opening.group()):
                yield begin, done
            continue
        for token in _TOKEN.finditer(text, begin):
            depth += (token.group() in "{[") - (token.group() in "}]")
            if not depth:
                done = token.end()
                break
        yield begin, done
