"""CSV, TSV, JSON lines and plain text; all bytes but those of the released values stay."""
# ruff: noqa: D102 - the calls are documented in Format

from __future__ import annotations

import csv
import json
import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from itertools import count
from typing import IO, Any

import pyarrow as pa

from dp_middleware.corpora.rows import CHUNK_BYTES, Chunk, Format, Pair, readable, refuse_columns
from dp_middleware.errors import ParameterError, withheld

_MARK = "\ufeff"
_BLANKS = " \t\r\n"
_LONGEST = 1 << 25  # bytes of a cell of CSV
_KEY = re.compile(r'_([{,])_("(?:[^"\\]|\\.)*")_:_'.replace("_", "[ \t\r\n]*"))
_END, _EMPTY = (re.compile(sign.replace("_", "[ \t\r\n]*")) for sign in (r"_\}_", r"_\{_\}_"))
_decoder = json.JSONDecoder(parse_int=str, parse_float=lambda _: ())

Cells = dict[str, tuple[str | None, int, int]]
"""The cells of a row by column: the text, and where it starts and ends in the file's spelling."""
Row = tuple[str, Cells]  # a row as it stands in the file, and its cells that are read


class Lines(Format):
    """Rows that stand in the file one after the other, each as a text of its own."""

    newline = "\n"

    def _opened(self) -> IO[str]:
        """The file; bytes that are no UTF-8 come out as they came in."""
        return self.path.open(encoding="utf-8", errors="surrogateescape", newline=self.newline)

    def _head(self, file: IO[str]) -> str:
        if file.read(1) == _MARK:
            return _MARK
        file.seek(0)
        return ""

    @abstractmethod
    def _rows(self, file: IO[str]) -> Iterator[Row]:
        """Yields the rows; a broken one is a ``ValueError``."""

    @abstractmethod
    def _spelled(self, released: str) -> str:
        """A released text as it stands in the file."""

    def chunks(self) -> Iterator[Chunk]:
        rows: list[Row] = []
        with readable(), self._opened() as file:
            self._head(file)
            found, size = self._rows(file), 0
            for number in count(1):
                expected = (
                    "expected rows that can be released, in UTF-8 and as the ending of the file "
                    f"says, each quoted cell closed; got {{}} in row {number}: mend it"
                )
                with withheld(expected, ValueError, RecursionError, csv.Error):
                    row = next(found, None)
                    if row is not None:
                        "".join(text or "" for text, _, _ in row[1].values()).encode()
                if row is not None:
                    rows.append(row)
                    size += len(row[0])
                if rows and (row is None or len(rows) >= self.size or size >= CHUNK_BYTES):
                    columns = {name: [cells[name][0] for _, cells in rows] for name in self.read}
                    schema = pa.schema([(name, pa.large_string()) for name in self.read])
                    yield Chunk(cells=pa.table(columns, schema=schema), rows=rows)
                    rows, size = [], 0
                if row is None:
                    return

    def write(self, file: IO[bytes], released: Iterable[Pair]) -> None:
        with self._opened() as source:
            parts = [self._head(source)]
        for chunk, table in released:
            texts = {name: table[name].to_pylist() for name in self.private}
            for row, (raw, cells) in enumerate(chunk.rows):
                before = 0
                for name in sorted(self.private, key=lambda name: cells[name][1]):
                    text, (_, start, end) = texts[name][row], cells[name]
                    if text is not None:
                        parts += [raw[before:start], self._spelled(text)]
                        before = end
                parts.append(raw[before:])
            file.write("".join(parts).encode(errors="surrogateescape"))
            parts = []
        file.write("".join(parts).encode())


class TextLines(Lines):
    """Plain text: the one column is called ``text``."""

    def _head(self, file: IO[str]) -> str:
        refuse_columns(self.read, ["text"])
        return super()._head(file)

    def _rows(self, file: IO[str]) -> Iterator[Row]:
        for line in file:
            body = line.removesuffix("\n").removesuffix("\r")
            yield line, {"text": (body, 0, len(body))}

    def as_read(self, released: str) -> str:
        return " ".join(released.splitlines())

    _spelled = as_read


class JsonLines(Lines):
    """An object a line; ``null`` stays, a column must be there in each row."""

    def _rows(self, file: IO[str]) -> Iterator[Row]:
        for line in file:
            if line.strip(_BLANKS):
                values = _values(line)
                cells = {name: values.get(name, ((), 0, 0)) for name in self.read}
                for name, (value, start, _) in cells.items():
                    is_text = value is None or isinstance(value, str)  # or an integer, as written
                    if not is_text or (name in self.private and line[start] not in 'n"'):
                        raise ValueError
                yield line, cells

    def _spelled(self, released: str) -> str:
        return json.dumps(released, ensure_ascii=False)


def _values(line: str) -> dict[str, tuple[Any, int, int]]:
    """The values of a JSON object with where they stand; ValueError: none, or a key twice."""
    values: dict[str, tuple[Any, int, int]] = {}
    place = 0
    while key := _KEY.match(line, place):
        value, place = _decoder.raw_decode(line, key.end())
        name = json.loads(key[2])
        if name in values or (key[1] == "{") != (not values):
            raise ValueError
        values[name] = value, key.end(), place
    if not (_END if values else _EMPTY).fullmatch(line, place):
        raise ValueError
    return values


class Csv(Lines):
    """Cells that must be quoted are, and no others but empty strings."""

    newline, separator = "", ","

    def _head(self, file: IO[str]) -> str:
        mark = super()._head(file)
        csv.field_size_limit(max(csv.field_size_limit(), _LONGEST))
        header = self._record(file)
        if header is None:
            raise ParameterError("expected a header in the first line, got an empty file")
        names = [_plain(header[0][start:end]) or "" for start, end in header[1]]
        refuse_columns(self.read, names)
        self._width, self._places = len(names), [(name, names.index(name)) for name in self.read]
        return mark + header[0]

    def _record(self, file: IO[str]) -> tuple[str, list[tuple[int, int]]] | None:
        """A row as it stands in the file, and where its cells do."""
        lines: list[str] = []

        def noted() -> Iterator[str]:
            for line in file:
                lines.append(line)
                yield line

        cells = next(csv.reader(noted(), delimiter=self.separator, strict=True), None)
        if cells is None:
            return None
        raw = "".join(lines)
        cell = rf'("[^"]*(?:""[^"]*)*"|[^{self.separator}\r\n]*)(?:{self.separator}|[\r\n]+|\Z)'
        spans = [found.span(1) for found in re.finditer(cell, raw)]
        return raw, spans[: len(cells) or 1]

    def _rows(self, file: IO[str]) -> Iterator[Row]:
        while (record := self._record(file)) is not None:
            raw, spans = record
            if not raw.strip("\r\n") and self._width > 1:
                continue
            if len(spans) != self._width:
                raise ValueError
            places = ((name, spans[place]) for name, place in self._places)
            yield raw, {n: (_plain(raw[start:end]), start, end) for n, (start, end) in places}

    def _spelled(self, released: str) -> str:
        must = not released or any(sign in released for sign in ('"', "\r", "\n", self.separator))
        return '"{}"'.format(released.replace('"', '""')) if must else released


class Tsv(Csv):
    """Separated by tabs."""

    separator = "\t"


def _plain(cell: str) -> str | None:
    """A cell of CSV without its quotes; nothing at all is no text."""
    return (cell[1:-1].replace('""', '"') if cell.startswith('"') else cell) if cell else None
