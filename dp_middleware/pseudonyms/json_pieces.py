"""Originals in the place of their pseudonyms in the strings of JSON that comes in pieces."""

from __future__ import annotations

import json
import re
from collections.abc import Container

from dp_middleware.pseudonyms.mapping import Mapping
from dp_middleware.pseudonyms.restoration import Restorer, Write, restore

_PLAIN = re.compile(r'[^"\\]+')
_ESCAPED = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|u(?![dD][89abAB])[0-9a-fA-F]{4}|u[dD][89abAB][0-9a-fA-F]{2}(?=[^\\]|\\[^u])"
    r"|u[dD][89abAB][0-9a-fA-F]{2}(?=\\u(?![dD][c-fC-F])..)|[^u])"
)
_LONGEST = 12  # signs of an escape: two halves of a pair
_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\u([0-9a-fA-F]{4})")


def with_letters(text: str) -> str:
    r"""A text with the signs that escapes such as ``\u00e9`` stand for; those of ASCII stay."""
    return _ESCAPE.sub(_unescaped, text) if "\\u" in text else text


def _unescaped(match: re.Match[str]) -> str:
    sign = chr(int(match[2], 16))
    return match[1] + sign if sign.isprintable() and not sign.isascii() else match[0]


class JsonRestorer:
    """As :class:`Restorer`, for JSON: a value in a string is found whatever escapes spell it.

    Args:
        mapping: Of the conversation.
        write: How an original is written.
    """

    def __init__(
        self, mapping: Mapping, write: Write, *, hosts: Container[str] | None = None
    ) -> None:
        self._mapping, self._write = mapping, write
        self._string: Restorer | None = None  # of the string that is open
        self._text = ""  # an escape that has not ended

    def feed(self, piece: str) -> str:
        """What is certain after a further piece."""
        text, out, place = self._text + piece, list[str](), 0
        while place < len(text):
            if (plain := _PLAIN.match(text, place)) is not None:
                out.append(self._fed(plain.group()))
                place = plain.end()
            elif text[place] == '"':
                out.append(self._closed() + '"')
                place += 1
            elif self._string is None:
                out.append(text[place])
                place += 1
            elif (escaped := _ESCAPED.match(text, place)) is not None:
                out.append(self._fed(_decoded(escaped.group())))
                place = escaped.end()
            elif len(text) - place < _LONGEST:
                break
            else:  # no JSON: it stays as it is
                out.append(self._fed(text[place]))
                place += 1
        self._text = text[place:]
        return "".join(out)

    def close(self) -> str:
        """The rest."""
        rest, self._text = self._text, ""
        return ("" if self._string is None else _spelled(self._string.close())) + rest

    def _fed(self, text: str) -> str:
        return text if self._string is None else _spelled(self._string.feed(text))

    def _closed(self) -> str:
        """The rest of a string that ends, or nothing where one begins."""
        if self._string is None:
            self._string = Restorer(self._mapping, self._write)
            return ""
        rest, self._string = _spelled(self._string.close()), None
        return rest


def restore_json(text: str, mapping: Mapping, write: Write) -> str:
    """Whole JSON with the originals in its strings; text that is none is restored as text."""
    try:
        json.loads(text)
    except ValueError:
        return restore(text, mapping, write)
    restorer = JsonRestorer(mapping, write)
    return restorer.feed(text) + restorer.close()


def _decoded(escape: str) -> str:
    try:
        return str(json.loads(f'"{escape}"'))
    except ValueError:
        return escape


def _spelled(text: str) -> str:
    return json.dumps(text)[1:-1]
