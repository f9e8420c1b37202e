"""Rows that are known by their numbers: one release each, in whatever batches they come."""

from __future__ import annotations

import hashlib
import os
from functools import partial
from itertools import count, takewhile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_middleware import _validate
from dp_middleware.corpora.chunks import ChunkFolder, chunk_key
from dp_middleware.corpora.columns import EPSILON, TOKENS, Columns
from dp_middleware.corpora.once import Seed
from dp_middleware.embedding.arrays import Ids
from dp_middleware.errors import ParameterError

_ROW, _MARK = "dp_row", "dp_mark"
_KEY_BYTES = 32


class NumberedRows:
    """Releases batches of rows, in any order and composition; call it with an Arrow table.

    Guarantee:
        A row of a job has one release, also where processes are killed or race for it. The new rows
        of a chunk in a batch are charged together, once, before their draw: as of
        :func:`release_chunk`, and they are charged anew where a process died and they come back in
        other batches.

    Args:
        columns: What is released with what, and who pays; with a ledger on PostgreSQL, where there
            is more than one machine.
        row: A column of public integers from 0, none twice, by which rows are known: their numbers
            in a file, or keys. Consecutive ones share a chunk.
        job: Its name. A job that is run again, under the same name and with equal ``columns``,
            ``rows_per_chunk`` and rows, goes on where it was.
        store: A folder that all machines see, on a file system with locks; absolute. It holds what
            was released, for its owner alone.
        key: 32 secret bytes, kept in another place than ``store``. The folder holds digests of the
            raw rows under this key, by which one that has changed is noticed and refused.
        rows_per_chunk: Rows that are charged and kept together.

    Raises:
        ParameterError: Another kind of argument; when called, rows without numbers, or changed.
        BudgetExhausted: When called, from the ledger; nothing was drawn for the chunk.
    """

    def __init__(
        self,
        columns: Columns,
        *,
        row: str,
        job: str,
        store: str | os.PathLike[str],
        key: bytes,
        rows_per_chunk: int = 500,
    ) -> None:
        _validate.at_least(1, rows_per_chunk=rows_per_chunk)
        if len(key) != _KEY_BYTES:
            raise ParameterError(f"expected key= of {_KEY_BYTES} bytes, kept in another place")
        if not job or not Path(store).is_absolute():
            raise ParameterError("expected job= with a name, and store= as an absolute path")
        self._columns, self._row, self._size = columns, row, rows_per_chunk
        self._key, self._folder = key, ChunkFolder(store)
        self._job = f"{job}\0{columns.fingerprint}\0{rows_per_chunk}"

    def __call__(self, batch: pa.Table) -> pa.Table:
        """The batch with released columns, ``dp_tokens`` and ``dp_epsilon``."""
        if not len(batch):
            return _put(self._columns.schema.empty_table(), batch)
        numbers, columns = self._numbers(batch), self._columns
        payer = () if columns.subject is None else (columns.subject,)
        private = batch.select([*columns.names, *payer])
        private = private.append_column(_ROW, pa.array(numbers))
        private = private.append_column(_MARK, self._marks(private))
        chunks = numbers // self._size
        parts = [self._chunk(int(c), private.filter(chunks == c)) for c in np.unique(chunks)]
        return _put(_rows(pa.concat_tables(parts), pa.array(numbers)), batch)

    def _chunk(self, chunk: int, rows: pa.Table) -> pa.Table:
        """What is released for some rows of a chunk; those that have a release keep it."""
        released = self._known(chunk)
        if len(_new(rows, released)):
            with self._folder.claim(chunk_key(self._job, chunk)):
                released = self._known(chunk)
                if len(new := _new(rows, released)):
                    key = chunk_key(self._job, chunk, len(released))
                    released.append(self._folder.keep(key, partial(self._release, new)))
        found = _rows(pa.concat_tables(released), rows[_ROW])
        if found[_MARK] != rows[_MARK]:
            raise ParameterError(
                "expected the rows of the job as they were, got one that has changed or has "
                "another number now; give another data set a job name of its own"
            )
        return found

    def _release(self, rows: pa.Table, seed: Seed) -> pa.Table:
        own = lambda: hashlib.blake2b(seed(), key=self._key, digest_size=32).digest()  # noqa: E731
        released = self._columns.release(rows, own)
        for name in (_ROW, _MARK):
            released = released.append_column(name, rows[name])
        return released

    def _known(self, chunk: int) -> list[pa.Table]:
        names = (chunk_key(self._job, chunk, part) for part in count())
        return list(takewhile(lambda part: part is not None, map(self._folder.read, names)))

    def _numbers(self, batch: pa.Table) -> Ids:
        if self._row not in batch.column_names:
            raise ParameterError(f"expected a column {self._row!r} of row numbers, got none")
        column = batch[self._row]
        if not pa.types.is_integer(column.type) or column.null_count:
            raise ParameterError(f"expected int64 row numbers in {self._row!r}, got {column.type}")
        numbers: Ids = column.to_numpy().astype(np.int64)
        if len(np.unique(numbers)) < len(numbers) or numbers.min(initial=0) < 0:
            raise ParameterError(f"expected distinct row numbers from 0 in {self._row!r}")
        return numbers

    def _marks(self, rows: pa.Table) -> pa.Array:
        """Digests of rows under the job's key; they do not tell which rows are equal."""
        marks = []
        for cells in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            told = hashlib.blake2b(key=self._key, digest_size=16)
            for cell in cells:
                part = b"" if cell is None else str(cell).encode("utf-8", "surrogatepass")
                told.update(f"{cell is None} {len(part)} ".encode() + part)
            marks.append(told.digest())
        return pa.array(marks, pa.binary())


def _put(released: pa.Table, rows: pa.Table) -> pa.Table:
    """The rows with their columns replaced by released ones, tokens and epsilon at the end."""
    for name in released.column_names:
        if name not in (_ROW, _MARK, TOKENS, EPSILON):
            rows = rows.set_column(rows.column_names.index(name), name, released[name])
    return rows.append_column(TOKENS, released[TOKENS]).append_column(EPSILON, released[EPSILON])


def _new(rows: pa.Table, released: list[pa.Table]) -> pa.Table:
    for part in released:
        rows = rows.filter(pc.invert(pc.is_in(rows[_ROW], part[_ROW])))
    return rows


def _rows(released: pa.Table, numbers: pa.Array) -> pa.Table:
    return released.take(pc.index_in(numbers, released[_ROW]))
