"""Rows that are known by their numbers have one release each, in whatever batches they come.

:func:`sanitize` is for Ray Data; other engines call :class:`NumberedRows`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import partial
from hashlib import blake2b
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_middleware import _validate
from dp_middleware.corpora.chunks import ChunkFolder, Seed, chunk_key
from dp_middleware.corpora.columns import EPSILON, TOKENS, Columns, Named, fields_of
from dp_middleware.embedding.arrays import Ids
from dp_middleware.errors import ParameterError, needs
from dp_middleware.pseudonyms.pseudonyms import Pseudonyms
from dp_middleware.sanitizers.sanitizer import Sanitizer

if TYPE_CHECKING:
    from ray.data import Dataset

_ROW, _MARK = "dp_row", "dp_mark"
_KEY_BYTES = 32


class NumberedRows:
    """Releases batches of rows, in any order and composition; call it with an Arrow table.

    Guarantee:
        A row of a job has one release, also where processes are killed or race for it. The new rows
        of a chunk in a batch are charged together, once, before their draw; anew where a process
        died and they come back in other batches, or its seed is lost.

    Args:
        columns: What is released, and who pays; the ledger of several machines is on PostgreSQL.
        row: A column of public integers from 0, none twice, by which rows are known: their numbers
            in a file, or keys. Consecutive ones share a chunk.
        job: Its name; with equal ``columns``, ``rows_per_chunk`` and rows it goes on where it was.
        store: An absolute folder that all machines see, with locks, for its owner alone. It has
            what was released, and digests of the raw rows, by which a changed one is refused.
        key: 32 secret bytes of these digests, kept in another place than ``store``.
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
        if len(key) != _KEY_BYTES or not job or not Path(store).is_absolute():
            raise ParameterError(
                f"expected key= of {_KEY_BYTES} bytes, job= with a name, and an absolute store="
            )
        self._columns, self._row, self._size = columns, row, rows_per_chunk
        self._key, self._folder = key, ChunkFolder(store)
        self._job = f"{job}\0{columns.fingerprint}\0{rows_per_chunk}"

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Returns the batch with released columns, ``dp_tokens`` and ``dp_epsilon``."""
        numbers, columns = self._numbers(batch), self._columns
        payer = () if columns.subject is None else (columns.subject,)
        private = batch.select([*columns.names, *payer])
        private = private.append_column(_ROW, pa.array(numbers))
        private = private.append_column(_MARK, self._marks(private))
        chunks, released = numbers // self._size, columns.schema.empty_table()
        if len(batch):
            parts = (self._parts(int(c), private.filter(chunks == c)) for c in np.unique(chunks))
            released = pa.concat_tables(chain.from_iterable(parts))
            released = released.take(pc.index_in(private[_ROW], released[_ROW]))
        for name in columns.names:
            batch = batch.set_column(batch.column_names.index(name), name, released[name])
        for name in (TOKENS, EPSILON):
            batch = batch.append_column(name, released[name])
        return batch

    def _parts(self, chunk: int, rows: pa.Table) -> Iterator[pa.Table]:
        """What is released for rows of a chunk, the known ones first; the new ones are a part."""
        for part in count():
            key = chunk_key(self._job, chunk, part)
            released = self._folder.once(key, partial(self._release, rows))
            is_here = pc.is_in(rows[_ROW], released[_ROW])
            here = rows.filter(is_here)
            found = released.take(pc.index_in(here[_ROW], released[_ROW]))
            if found[_MARK] != here[_MARK]:
                raise ParameterError(
                    "expected the rows of the job as they were, got one that has changed or has "
                    "another number now; give another data set a job name of its own"
                )
            yield found
            rows = rows.filter(pc.invert(is_here))
            if not len(rows):
                return

    def _release(self, rows: pa.Table, seed: Seed) -> pa.Table:
        own = lambda: blake2b(seed(), key=self._key, digest_size=32).digest()  # noqa: E731
        released = self._columns.release(rows, own)
        for name in (_ROW, _MARK):
            released = released.append_column(name, rows[name])
        return released

    def _numbers(self, batch: pa.Table) -> Ids:
        column = batch[self._row] if self._row in batch.column_names else pa.nulls(1)
        if pa.types.is_integer(column.type) and not column.null_count:
            numbers: Ids = column.to_numpy().astype(np.int64)
            if len(np.unique(numbers)) == len(numbers) and numbers.min(initial=0) >= 0:
                return numbers
        raise ParameterError(f"expected a column {self._row!r} of distinct row numbers from 0")

    def _marks(self, rows: pa.Table) -> pa.Array:
        """Digests of rows under the job's key; they do not tell which rows are equal."""
        cells = zip(*(column.to_pylist() for column in rows.columns), strict=True)
        told = (json.dumps(row, default=str).encode() for row in cells)
        marks = [blake2b(row, key=self._key, digest_size=16).digest() for row in told]
        return pa.array(marks, pa.binary())


def sanitize(
    dataset: Dataset,
    *,
    column: Named,
    sanitizer: Sanitizer | Pseudonyms,
    row: str,
    job: str,
    store: str | os.PathLike[str],
    key: bytes,
    subject: str | None = None,
    rows_per_chunk: int = 500,
    actors: int = 2,
    gpus: float = 0,
) -> Dataset:
    """Releases columns of a data set; lazy, and may be read any number of times.

    A row has one release: what :class:`NumberedRows` says, where actors are killed, blocks are made
    anew or the result is read twice. ``row``, ``job``, ``store``, ``key`` and ``rows_per_chunk``
    are as there, for Ray keeps no order by which it could count; the others are as of
    :func:`sanitize_file`, but pseudonyms are of a row alone. The ``actors`` are processes, with
    ``gpus`` for each; they share what ``prepare()`` of the sanitizer wrote on their node.

    Raw rows travel through Ray: its object store spills them to disks of the cluster, and its
    traffic is in the clear unless ``RAY_USE_TLS=1``. Ray keeps the arguments, ``key`` too: name a
    ledger on PostgreSQL by a URL without a password (``PGPASSFILE``).

    Returns:
        All columns, these with released texts, and ``dp_tokens`` and ``dp_epsilon``.

    Raises:
        MissingExtra: Ray Data is not installed.
        ParameterError: Another kind of argument. Reading the data set raises Ray's ``RayTaskError``
            with the error of an actor as its cause.
    """
    with needs("ray", "ray[data]"):
        import ray.data
    _validate.at_least(1, actors=actors)
    columns = Columns(releaser=sanitizer, subject=subject, **fields_of(column))
    settings: dict[str, Any] = {"columns": columns, "row": row, "job": job, "key": key}
    settings |= {"store": os.fspath(store), "rows_per_chunk": rows_per_chunk}
    NumberedRows(**settings)  # refuses what is wrong before Ray has it
    return dataset.map_batches(
        NumberedRows,
        fn_constructor_kwargs=settings,
        batch_size=rows_per_chunk,
        batch_format="pyarrow",
        compute=ray.data.ActorPoolStrategy(size=actors),
        num_gpus=gpus or None,
        udf_modifying_row_count=False,
    )
