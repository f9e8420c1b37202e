"""A text a line, or a JSON object a line; all bytes but those of the released values stay."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import IO, Any, TypeVar

import pyarrow as pa

from dp_middleware.corpora.failures import readable
from dp_middleware.corpora.rows import CHUNK_BYTES, Chunk, Format, broken_row
from dp_middleware.errors import ParameterError

T = TypeVar("T")

_BLANKS = " \t\r\n"
_decoder = json.JSONDecoder(parse_int=lambda digits: (digits,), parse_float=lambda _: ())

Line = tuple[dict[str, str | None], Any]
"""The cells of a line by column, and what is needed to write it."""


class Lines(Format):
    """A row a line."""

    def chunks(self) -> Iterator[Chunk]:
        """Implements :class:`Format`."""
        lines: list[Line] = []
        size = 0
        with readable(), self.path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                reason, line = "", None
                try:
                    line = self._line(raw, first=number == 1)
                except ValueError as error:
                    reason = "no UTF-8" if isinstance(error, UnicodeError) else "no row"
                if reason:  # raised here: the error above quotes the row
                    raise broken_row(number, f"{reason} of this format")
                if line is not None:
                    lines.append(line)
                    size += len(raw)
                if len(lines) >= self.size or size >= CHUNK_BYTES:
                    yield self._chunk(lines)
                    lines, size = [], 0
        if lines:
            yield self._chunk(lines)

    def _chunk(self, lines: list[Line]) -> Chunk:
        names = (*self.private, *self.public)
        columns = {n: pa.array([cells[n] for cells, _ in lines], "large_string") for n in names}
        return Chunk(cells=pa.table(columns), rows=[rest for _, rest in lines])

    def _line(self, raw: bytes, *, first: bool) -> Line | None:
        """One line; ``None`` if it is no row at all; a ``ValueError`` if it is broken."""
        raise NotImplementedError


class TextLines(Lines):
    """Plain text: the one column is called ``text``."""

    def chunks(self) -> Iterator[Chunk]:
        """Implements :class:`Format`."""
        if self.private != ("text",) or self.public:
            raise ParameterError(
                "expected the one column 'text' for lines of plain text, without subjects or ids"
            )
        return super().chunks()

    def _line(self, raw: bytes, *, first: bool) -> Line:
        mark = codecs.BOM_UTF8 if first and raw.startswith(codecs.BOM_UTF8) else b""
        body = raw.removeprefix(mark).removesuffix(b"\n").removesuffix(b"\r")
        return {"text": body.decode()}, (mark, raw[len(mark) + len(body) :])

    def as_read(self, released: str) -> str:
        """Implements :class:`Format`; a line feed in a release becomes a blank."""
        return " ".join(released.splitlines())

    def write(self, file: IO[bytes], released: Iterable[tuple[Chunk, pa.Table]]) -> None:
        """Implements :class:`Format`."""
        for chunk, table in released:
            texts = table["text"].to_pylist()
            for (mark, end), text in zip(chunk.rows, texts, strict=True):
                file.write(mark + self.as_read(text).encode() + end)


class JsonLines(Lines):
    """An object a line; ``null`` stays, a column must be there in each row."""

    def _line(self, raw: bytes, *, first: bool) -> Line | None:
        mark = codecs.BOM_UTF8 if first and raw.startswith(codecs.BOM_UTF8) else b""
        text = raw[len(mark) :].decode()
        if not text.strip(_BLANKS):
            return None
        values = _values(text)
        cells: dict[str, str | None] = {}
        for name in (*self.private, *self.public):
            value = values[name][0] if name in values else ...
            if name in self.public and isinstance(value, tuple):
                (value,) = value  # an integer, as it is written; another number fails
            if value is not None and not isinstance(value, str):
                raise ValueError
            cells[name] = value
            (value or "").encode()  # a lone surrogate is no text
        places = [(*values[name][1], name) for name in self.private if cells[name] is not None]
        return cells, (mark, text, sorted(places))

    def write(self, file: IO[bytes], released: Iterable[tuple[Chunk, pa.Table]]) -> None:
        """Implements :class:`Format`."""
        for chunk, table in released:
            for (mark, text, places), row in zip(chunk.rows, table.to_pylist(), strict=True):
                parts, before = [mark.decode()], 0
                for start, stop, name in places:
                    parts += [text[before:start], json.dumps(row[name], ensure_ascii=False)]
                    before = stop
                file.write("".join([*parts, text[before:]]).encode())


def _values(text: str) -> dict[str, tuple[Any, tuple[int, int]]]:
    """The values of a JSON object with where they stand.

    Raises:
        ValueError: No JSON object, or a key twice.
    """
    values: dict[str, tuple[Any, tuple[int, int]]] = {}
    place = _skip(text, 0, "{")
    with suppress(RecursionError, StopIteration, IndexError):
        if text[_blank(text, place)] == "}":
            return _ended(text, _blank(text, place), values)
        while True:
            key, place = scanstring(text, _skip(text, place, '"'))
            place = _blank(text, _skip(text, place, ":"))
            value, stop = _decoder.raw_decode(text, place)
            if key in values:
                raise ValueError
            values[key] = value, (place, stop)
            place = _blank(text, stop)
            if text[place] == "}":
                return _ended(text, place, values)
            place = _skip(text, place, ",")
    raise ValueError


def _blank(text: str, place: int) -> int:
    while text[place : place + 1] in _BLANKS and place < len(text):
        place += 1
    return place


def _skip(text: str, place: int, sign: str) -> int:
    """Behind a sign that must come next."""
    place = _blank(text, place)
    if text[place : place + 1] != sign:
        raise ValueError
    return place + 1


def _ended(text: str, place: int, values: T) -> T:
    if text[place + 1 :].strip(_BLANKS):
        raise ValueError
    return values
