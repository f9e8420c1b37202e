r"""JSON in texts, as a reader sees it: behind ``\n`` the name is Lopez, not nLopez."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from dp_middleware.conversation.messages import is_json
from dp_middleware.pseudonyms.addresses import Hosts
from dp_middleware.pseudonyms.detection import NUMBER, Starts, Value, View, plain_view
from dp_middleware.pseudonyms.matching import Names, Restorer, restore

SIGNS = re.compile(r"[{\[\\]")  # a text without any of them is seen as it is
LITERAL = re.compile(r'"((?:[^"\\]++|\\.)*+)("?)', re.DOTALL)
_CODE = r"u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}"
ESCAPE = re.compile(rf'\\(?:{_CODE}|["\\/bfnrt])')
# outside of JSON, as a log, a part of a file or Python have it; ``C:\new`` has none
LOOSE = re.compile(rf"\\(?:{_CODE}|x[0-9a-fA-F]{{2}}|[bfnrt](?![a-z])|[\"'])")
_BETWEEN = re.compile(rf"[{{}}\[\]:,]|(?P<number>{NUMBER.pattern})")
_OPENING = re.compile(  # or a string with an escape
    r'\{\s*+"|\[\s*+[{"\[]|"[^"\\\n]*+\\[^\n](?:[^"\\\n]++|\\[^\n])*+"'
)
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[{}\[\]]', re.DOTALL)
_DEEPEST = 6  # strings in strings
_IDENTIFYING = re.compile(
    r"(?:^|_)(?:id|ids|uid|uuid|number|no|nr|num|ref|reference|account|acct|iban|card|phone|mobile|tel"
    r"|fax|ssn|sin|nino|mrn|passport|licen[cs]e|zip|zipcode|postcode|user|username|login|customer"
    r"|client|patient|member|employee|order|invoice|ticket|case|policy|claim|contract|booking)$"
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_OUTSIDE = re.compile(r'"|[\d.+\-eE]+|[^"\d.+\-eE]+')  # of strings
_INSIDE = re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL)
_NESTED = re.compile(r'\s*(?:\{\s*["}]|\[\s*[{"\[\]])')


def view_of(text: str) -> View:
    """Returns what a reader sees of a text, as a whole or in part JSON."""
    if not SIGNS.search(text):
        return plain_view(text)
    reading = _Reading()
    reading.read(text, range(len(text) + 1), 0)
    seen, inner, depths = "".join(reading.seen), "".join(reading.inner), bytes(reading.depths)
    if seen == inner == text and not any(depths) and not reading.values:
        return plain_view(text)
    return View(text, seen, inner, [*reading.starts, len(text)], depths, tuple(reading.values))


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
        parses, last = is_json(text[place:end]), ""
        key, around = "", [""]  # all values of a list have the key of the list
        while place < end:
            if (literal := LITERAL.match(text, place, end)) is not None:
                first, behind = literal.span(1)
                self.add('"', starts[place:first], depth, parses)
                at, pieces = len(self.starts), len(self.seen)
                self.read(*_unescaped(text, first, behind, starts, ESCAPE), depth + 1)
                last = "".join(self.seen[pieces:])
                if last.isdecimal():
                    self.values.append(Value(at, len(self.starts), False, _identifies(key)))
                place = literal.end()
                self.add(literal[2], starts[behind:place], depth, parses)
                continue
            behind = text.find('"', place, end)
            behind = end if behind < 0 else behind
            seen, own = _unescaped(text, place, behind, starts, LOOSE)
            place, done = behind, 0
            for match in _BETWEEN.finditer(seen):
                sign, (first, behind) = match.group(), match.span()
                if match.lastgroup is None:
                    if sign in "[{":
                        around.append(key if sign == "[" else "")
                    elif sign in "]}" and len(around) > 1:
                        around.pop()
                    key = last if sign == ":" else around[-1]
                    continue
                self.add(seen[done:first], own[done:first], depth, parses)
                names, at = sign.lstrip("-").isdecimal() and _identifies(key), len(self.starts)
                self.values.append(Value(at, at + behind - first, True, names))
                self.add(sign, own[first:behind], depth)
                done = behind
            self.add(seen[done:], own[done:], depth, parses)


def _unescaped(
    text: str, place: int, end: int, starts: Starts, escapes: re.Pattern[str]
) -> tuple[str, Starts]:
    """A part of a text with the signs of its escapes, and where each begins in the raw one."""
    if "\\" not in text[place:end]:
        return text[place:end], starts[place:end]
    seen, own = list[str](), list[int]()
    for match in escapes.finditer(text, place, end):
        seen += [text[place : match.start()], _sign(match.group())]
        own += starts[place : match.start() + 1]
        place = match.end()
    return "".join([*seen, text[place:end]]), [*own, *starts[place:end]]


def _sign(escape: str) -> str:
    if escape[1] in "x'":
        return chr(int(escape[2:], 16)) if escape[1] == "x" else "'"
    sign: str = json.loads(f'"{escape}"')
    return "\ufffd" if "\ud800" <= sign < "\ue000" else sign  # half of a pair


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


class JsonRestorer(Restorer):
    """Restores JSON string by string, also JSON in a string, and numbers as what they stand for."""

    def __init__(self, names: Names[Any], *, hosts: Hosts | None = None) -> None:
        super().__init__(names, hosts=hosts)
        self._string: list[str] | None = None  # one that is open, in pieces
        self._rest = ""  # a number, or a backslash, that has not ended

    def feed(self, piece: str, more: bool = True) -> str:
        """Returns what is certain after a further piece: all but a string that is open."""
        text, out, place = self._rest + piece, list[str](), 0
        while place < len(text):
            pattern = _OUTSIDE if self._string is None else _INSIDE
            token = pattern.match(text, place)
            assert token is not None  # each sign is of one of them
            spelled, end = token.group(), token.end()
            if self._string is not None:
                self._string.append(spelled)
                place = end
                if text[end : end + 1] != '"':  # the end, or a backslash before it
                    break
                out.append(self._closed() + '"')
                place += 1
            elif spelled == '"':
                out.append(spelled)
                self._string, place = [], end
            elif more and end == len(text) and text[end - 1] in "0123456789.+-eE":
                break
            else:
                out.append(self._number(spelled))
                place = end
        self._rest = text[place:]
        if not more:
            out += [self._closed(), self._rest]
        return "".join(out)

    def _number(self, spelled: str) -> str:
        if not NUMBER.fullmatch(spelled):
            return spelled
        restored = restore(spelled, self._names)
        return restored if NUMBER.fullmatch(restored) else json.dumps(restored)

    def _closed(self) -> str:
        """What stands for the inside of the open string: text, or JSON, as its beginning tells."""
        spelled, self._string = "".join(self._string or ()), None
        text = ESCAPE.sub(lambda escape: _sign(escape.group()), spelled)
        kind = JsonRestorer if _NESTED.match(text) else Restorer
        restored = kind(self._names, hosts=self._hosts).feed(text, more=False)
        return spelled if restored == text else json.dumps(restored)[1:-1]
