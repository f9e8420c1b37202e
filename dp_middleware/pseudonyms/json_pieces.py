"""Originals in the place of their pseudonyms in JSON that comes in pieces."""

from __future__ import annotations

import json
import re
from collections.abc import Container
from typing import Any

from dp_middleware.pseudonyms.matching import Names, Restorer
from dp_middleware.pseudonyms.structured import NUMBER

_PLAIN = re.compile(r'[^"\\]+')
_OTHER = re.compile(r'[^"\d.+\-eE]+')
_NUMERAL = re.compile(r"[\d.+\-eE]+")
_ESCAPED = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|u(?![dD][89abAB])[0-9a-fA-F]{4}|u[dD][89abAB][0-9a-fA-F]{2}(?=[^\\]|\\[^u])"
    r"|u[dD][89abAB][0-9a-fA-F]{2}(?=\\u(?![dD][c-fC-F])..)|[^u])"
)
_LONGEST = 12  # signs of an escape: two halves of a pair
_NESTED = re.compile(r'\s*(?:\{\s*["}]|\[\s*[{"\[\]])')
_UNDECIDED = re.compile(r"\s*(?:[{\[]\s*)?")


class JsonRestorer:
    """Restores JSON as :class:`Restorer` restores text, also in strings that hold JSON.

    A number that is a pseudonym comes back as a number, or in a string where the original is none.
    """

    def __init__(self, names: Names[Any], *, hosts: Container[str] | None = None) -> None:
        self._names, self._hosts = names, hosts
        self._string: _String | None = None  # that is open
        self._text = ""  # an escape, or a number, that has not ended

    def feed(self, piece: str) -> str:
        """Returns what is certain after a further piece."""
        text, out, place = self._text + piece, list[str](), 0
        while place < len(text):
            read = self._outside if self._string is None else self._inside
            after, shown = read(text, place)
            if after == place:
                break
            out.append(shown)
            place = after
        self._text = text[place:]
        return "".join(out)

    def close(self) -> str:
        """Returns the rest."""
        rest, self._text = self._text, ""
        if self._string is not None:
            return _spelled(self._string.close()) + rest
        return self._number(rest)

    def _outside(self, text: str, place: int) -> tuple[int, str]:
        if text[place] == '"':
            self._string = _String(self._names, self._hosts)
            return place + 1, '"'
        if (other := _OTHER.match(text, place)) is not None:
            return other.end(), other.group()
        numeral = _NUMERAL.match(text, place)
        assert numeral is not None  # whatever else there is
        if numeral.end() == len(text):  # it may go on
            return place, ""
        return numeral.end(), self._number(numeral.group())

    def _number(self, spelled: str) -> str:
        if not NUMBER.fullmatch(spelled):
            return spelled
        restored = restore(spelled, self._names)
        return restored if NUMBER.fullmatch(restored) else json.dumps(restored)

    def _inside(self, text: str, place: int) -> tuple[int, str]:
        assert self._string is not None
        if (plain := _PLAIN.match(text, place)) is not None:
            return plain.end(), _spelled(self._string.feed(plain.group()))
        if text[place] == '"':
            rest, self._string = _spelled(self._string.close()), None
            return place + 1, rest + '"'
        if (escaped := _ESCAPED.match(text, place)) is not None:
            return escaped.end(), _spelled(self._string.feed(_decoded(escaped.group())))
        if len(text) - place < _LONGEST:
            return place, ""
        return place + 1, _spelled(self._string.feed(text[place]))  # no JSON: it stays as it is


class _String:
    """The inside of a string: text, or JSON, as its beginning tells."""

    def __init__(self, names: Names[Any], hosts: Container[str] | None) -> None:
        self._names, self._hosts, self._begun = names, hosts, ""
        self._restorer: Restorer | JsonRestorer | None = None

    def feed(self, piece: str, more: bool = True) -> str:
        if self._restorer is None:
            self._begun += piece
            if more and _UNDECIDED.fullmatch(self._begun):
                return ""
            nested = _NESTED.match(self._begun) is not None
            kind: type[Restorer | JsonRestorer] = JsonRestorer if nested else Restorer
            self._restorer, piece = kind(self._names, hosts=self._hosts), self._begun
        return self._restorer.feed(piece)

    def close(self) -> str:
        begun = self.feed("", more=False)
        assert self._restorer is not None
        return begun + self._restorer.close()


def restore(text: str, names: Names[Any]) -> str:
    """Returns a whole text with the originals in place of their pseudonyms."""
    return Restorer(names).feed(text, more=False)


def _decoded(escape: str) -> str:
    try:
        return str(json.loads(f'"{escape}"'))
    except ValueError:
        return escape


def _spelled(text: str) -> str:
    return json.dumps(text)[1:-1]
