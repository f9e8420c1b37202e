"""Parquet by Arrow; cells of the other columns are never read as anything else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from dp_middleware.corpora.rows import (
    CHUNK_BYTES,
    Chunk,
    Format,
    readable,
    refuse_columns,
    refuse_type,
)

_ROW_GROUP = 8 * CHUNK_BYTES


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

    def write(self, file: IO[bytes], released: Iterable[tuple[Chunk, pa.Table]]) -> None:
        """Implements :class:`Format`; the file has row groups of its own."""
        held: list[pa.Table] = []
        size = 0
        with pq.ParquetWriter(file, pq.read_schema(self.path)) as writer:
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
    """Halves where the rows are long."""
    if rows.nbytes > CHUNK_BYTES and len(rows) > 1:
        middle = len(rows) // 2
        yield from _parts(rows[:middle])
        yield from _parts(rows[middle:])
    else:
        yield rows
