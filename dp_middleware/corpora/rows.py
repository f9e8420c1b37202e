"""Rows of a file in chunks: private cells as strings, the rest as it is; Parquet by Arrow."""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from dp_middleware.errors import ParameterError, withheld

CHUNK_BYTES = 1 << 23  # of a chunk with more than one row
_ROW_GROUP = 8 * CHUNK_BYTES


def readable() -> AbstractContextManager[None]:
    """Withholds an error of reading a private file, which may quote a row."""
    return withheld(
        "expected a file that can be read as its ending says, got: {}; its message is withheld, it "
        "may quote a row",
        *(OSError, pa.ArrowException, ValueError, csv.Error),
    )


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Holds some rows that follow each other. Private."""

    cells: pa.Table = field(repr=False)  # (n,) rows of strings
    rows: Any = field(repr=False)  # the same, as their format needs them to write


Pair = tuple[Chunk, pa.Table]
"""A chunk and what is released for its rows."""


class Format(ABC):
    """A kind of file: ``private`` columns are released, ``public`` ones are read and stay."""

    def __init__(
        self, path: Path, private: tuple[str, ...], public: tuple[str, ...] = (), size: int = 1000
    ) -> None:
        self.path, self.private, self.public, self.size = path, private, public, size
        self.read = (*private, *public)

    @abstractmethod
    def chunks(self) -> Iterator[Chunk]:
        """Yields all rows, the same chunks whenever the file is the same; errors quote nothing."""

    @abstractmethod
    def write(self, file: IO[bytes], released: Iterable[Pair]) -> None:
        """Writes all rows with what was released for their private cells."""

    def as_read(self, released: str) -> str:
        """Returns a released text as it is read back from the file."""
        return released


def refuse_columns(asked: Sequence[str], names: Sequence[str]) -> None:
    """Refuses a column that is missing or there twice; ``names`` may be private: a row of texts."""
    for name in asked:
        if names.count(name) != 1:
            raise ParameterError(
                f"expected one column {name!r} in the file, got {names.count(name)} among "
                f"{len(names)} columns, whose names may be text; CSV begins with a header"
            )


def refuse_type(name: str, kind: pa.DataType) -> None:
    """Refuses a column of other things than strings."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if kind not in (pa.string(), pa.large_string(), pa.string_view()):
        got = "nested values" if pa.types.is_nested(kind) else kind  # with names, which may be text
        raise ParameterError(f"expected strings in the column {name!r}, got {got}")


class Parquet(Format):
    """Types and metadata of all columns stay as they are."""

    def chunks(self) -> Iterator[Chunk]:
        """Implements :class:`Format`."""
        with readable(), pq.ParquetFile(self.path) as source:
            schema = source.schema_arrow
            refuse_columns(self.read, schema.names)
            for name in self.private:
                refuse_type(name, schema.field(name).type)
            for batch in source.iter_batches(batch_size=self.size):
                for rows in _parts(pa.Table.from_batches([batch])):
                    cells = rows.select(self.private)
                    cells.validate(full=True)  # UTF-8
                    for name in self.public:
                        cells = cells.append_column(name, rows[name].cast("large_string"))
                    yield Chunk(cells=cells, rows=rows)

    def write(self, file: IO[bytes], released: Iterable[Pair]) -> None:
        """Implements :class:`Format`; the file has row groups of its own."""
        with pq.ParquetWriter(file, pq.read_schema(self.path)) as writer:
            held, size = list[pa.Table](), 0
            for chunk, table in released:
                rows = chunk.rows
                for name in self.private:
                    place, column, kind = (
                        rows.column_names.index(name),
                        table[name],
                        rows[name].type,
                    )
                    if pa.types.is_dictionary(kind):
                        column = column.cast(kind.value_type).dictionary_encode()
                    rows = rows.set_column(place, rows.field(place), column.cast(kind))
                held.append(rows)
                size += rows.nbytes
                if size > _ROW_GROUP:
                    writer.write_table(pa.concat_tables(held))
                    held, size = [], 0
            if held:
                writer.write_table(pa.concat_tables(held))


def _parts(rows: pa.Table) -> Iterator[pa.Table]:
    if rows.nbytes > CHUNK_BYTES and len(rows) > 1:
        middle = len(rows) // 2
        yield from _parts(rows[:middle])
        yield from _parts(rows[middle:])
    else:
        yield rows
