"""CSV, TSV and Parquet by Arrow; cells of the other columns are never read as anything else."""

from __future__ import annotations

import codecs
import csv
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import reduce
from itertools import islice
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from dp_middleware.corpora.columns import refuse_type
from dp_middleware.corpora.failures import readable
from dp_middleware.corpora.rows import CHUNK_BYTES, Chunk, Format, broken_row
from dp_middleware.errors import ParameterError

_BLOCK = 1 << 25  # bytes; the longest row of CSV
_ROW_GROUP = 1 << 16


class Csv(Format):
    """Cells are bytes; those that must be quoted are, and no others but empty strings."""

    separator = ","

    def chunks(self) -> Iterator[Chunk]:
        """Implements :class:`Format`."""
        wrong: list[int] = []
        with readable():
            header, number = None, 0
            for batch in self._batches(wrong):
                if wrong:
                    raise broken_row(wrong[0], "another number of cells")
                table = pa.Table.from_batches([batch])
                if header is None:
                    header, table = table.slice(0, 1), table.slice(1)
                    names = [(c[0].as_py() or b"").decode(errors="replace") for c in header.columns]
                    self.refuse_columns(names)
                    self._header = header
                for rows in _parts(table, self.size):
                    number += len(rows)
                    yield self._chunk(names, rows, number - len(rows))
            if wrong:
                raise broken_row(wrong[0], "another number of cells")
            if header is None:
                raise ParameterError("expected a header in the first line, got an empty file")
            yield self._chunk(names, header.slice(1), number)

    def check(self) -> None:
        """Refuses a quote that is not closed: it would carry texts into public cells.

        Arrow reads on to the next quote, however many rows later.
        """
        csv.field_size_limit(max(csv.field_size_limit(), _BLOCK))
        are_closed = False
        with readable(), self._text() as lines:
            rows = csv.reader(lines, delimiter=self.separator, strict=True)
            with suppress(csv.Error):
                deque(rows, maxlen=0)
                are_closed = True
        if not are_closed:
            raise ParameterError(
                "expected each quoted cell to end at its closing quote, got more of it, or the end "
                f"of the file, in line {rows.line_num}; write quotes inside of it twice"
            )

    def _text(self) -> IO[str]:
        """The file with a character for each byte."""
        file = self.path.open(newline="", encoding="latin-1")
        mark = codecs.BOM_UTF8.decode("latin-1")
        if file.read(len(mark)) != mark:
            file.seek(0)
        return file

    def _batches(self, wrong: list[int]) -> Iterator[pa.RecordBatch]:
        """Of cells without names, the header first; notes rows of another width in ``wrong``."""
        with self._text() as text:
            width = len(next(csv.reader(text, delimiter=self.separator), []))
        if not width:
            return

        def skip(row: Any) -> str:
            wrong.append((row.number or 1) - 1)
            return "skip"

        kinds = {f"f{k}": pa.binary() for k in range(width)}
        yield from pyarrow.csv.open_csv(
            self.path,
            read_options=pyarrow.csv.ReadOptions(
                use_threads=False, block_size=_BLOCK, autogenerate_column_names=True
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=self.separator,
                newlines_in_values=True,
                ignore_empty_lines=width > 1,
                invalid_row_handler=skip,
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=kinds,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[""],
                check_utf8=False,
            ),
        )

    def _chunk(self, names: list[str], rows: pa.Table, before: int) -> Chunk:
        """Rows whose cells that are read are UTF-8."""
        wanted = [*self.private, *self.public]
        cells = rows.select([names.index(name) for name in wanted]).rename_columns(wanted)
        strings = _strings(cells)
        if strings is None:
            first = next(k for k in range(len(rows)) if _strings(cells.slice(k, 1)) is None)
            raise broken_row(before + first + 1, "no UTF-8 in a column that is read")
        return Chunk(cells=strings, rows=(names, rows))

    def write(self, file: IO[bytes], released: Iterable[tuple[Chunk, pa.Table]]) -> None:
        """Implements :class:`Format`."""
        with self._text() as text:
            reader = csv.reader(text, delimiter=self.separator)
            next(reader, None)
        with self._text() as text:
            *_, last = islice(text, reader.line_num)  # of the header
        self._end = last[len(last.rstrip("\r\n")) :] or "\n"
        with self.path.open("rb") as raw:
            if raw.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8:
                file.write(codecs.BOM_UTF8)
        headless = True
        for chunk, table in released:
            names, rows = chunk.rows
            if headless:
                file.write(self._row(self._header))
                headless = False
            for name in self.private:
                place = names.index(name)
                rows = rows.set_column(place, rows.column_names[place], table[name].cast("binary"))
            file.write(self._row(rows))

    _end, _header = "\n", pa.table({})

    def _row(self, rows: pa.Table) -> bytes:
        if not len(rows):
            return b""
        cells = [_quoted(column.combine_chunks(), self.separator) for column in rows.columns]
        lines = pc.binary_join_element_wise(*cells, self.separator.encode())
        return b"".join(line + self._end.encode() for line in lines.to_pylist())


class Tsv(Csv):
    """Separated by tabs."""

    separator = "\t"


class Parquet(Format):
    """Types and metadata of all columns stay as they are."""

    def chunks(self) -> Iterator[Chunk]:
        """Implements :class:`Format`."""
        with readable(), pq.ParquetFile(self.path) as source:
            schema = source.schema_arrow
            self.refuse_columns(schema.names)
            for name in self.private:
                refuse_type(name, schema.field(name).type)
            for batch in source.iter_batches(batch_size=self.size):
                for rows in _parts(pa.Table.from_batches([batch]), self.size):
                    read = {name: rows[name] for name in self.private}
                    pa.table(read).validate(full=True)  # UTF-8
                    read |= {name: rows[name].cast("large_string") for name in self.public}
                    yield Chunk(cells=pa.table(read), rows=rows)
            yield Chunk(cells=schema.empty_table().select(self.private), rows=schema.empty_table())

    def write(self, file: IO[bytes], released: Iterable[tuple[Chunk, pa.Table]]) -> None:
        """Implements :class:`Format`; the file has row groups of its own."""
        writer, held = None, []
        for chunk, table in released:
            rows = chunk.rows
            for name in self.private:
                place, column = rows.schema.get_field_index(name), table[name]
                kind = rows[name].type
                if pa.types.is_dictionary(kind):
                    column = column.cast(kind.value_type).dictionary_encode()
                rows = rows.set_column(place, rows.field(place), column.cast(kind))
            writer = writer or pq.ParquetWriter(file, rows.schema)
            held.append(rows)
            if (
                sum(map(len, held)) >= _ROW_GROUP
                or sum(part.nbytes for part in held) > 8 * CHUNK_BYTES
            ):
                writer.write_table(pa.concat_tables(held))
                held = []
        if writer is not None:
            if sum(map(len, held)):
                writer.write_table(pa.concat_tables(held))
            writer.close()


def _parts(table: pa.Table, size: int) -> Iterator[pa.Table]:
    """Slices of so many rows, or fewer where these are long."""
    for start in range(0, len(table), size):
        rows = table.slice(start, size)
        if rows.nbytes > CHUNK_BYTES and len(rows) > 1:
            yield from _parts(rows, (len(rows) + 1) // 2)
        else:
            yield rows


def _strings(cells: pa.Table) -> pa.Table | None:
    with suppress(pa.ArrowInvalid):
        return cells.cast(pa.schema([(name, pa.large_string()) for name in cells.column_names]))
    return None


def _quoted(cells: pa.Array, separator: str) -> pa.Array:
    """In quotes where they must be; ``null`` is nothing, an empty string a pair of quotes."""
    signs = ('"', "\r", "\n", separator)
    found = [pc.match_substring(cells, pattern=sign) for sign in signs]
    must = reduce(pc.or_, [*found, pc.equal(pc.binary_length(cells), 0)])
    inside = pc.replace_substring(cells, pattern='"', replacement='""')
    quotes = pa.scalar(b'"', cells.type)
    quoted = pc.binary_join_element_wise(quotes, inside, quotes, pa.scalar(b"", cells.type))
    return pc.fill_null(pc.if_else(must, quoted, cells), pa.scalar(b"", cells.type))
