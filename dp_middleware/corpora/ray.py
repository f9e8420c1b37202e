"""Data sets of Ray Data: actors release each row once, however often Ray runs a task."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dp_middleware import _validate
from dp_middleware.corpora.columns import Columns
from dp_middleware.corpora.numbered import NumberedRows
from dp_middleware.errors import MissingExtra

if TYPE_CHECKING:
    from ray.data import Dataset


def sanitize(
    dataset: Dataset,
    columns: Columns,
    *,
    row: str,
    job: str,
    store: str | os.PathLike[str],
    key: bytes,
    rows_per_chunk: int = 500,
    actors: int = 2,
    gpus: float = 0,
) -> Dataset:
    """The data set with released columns; lazy, and may be read any number of times.

    A row has one release: what :class:`NumberedRows` says, where actors are killed, blocks are made
    anew or the result is read twice.

    Raw rows travel through Ray: its object store spills them to disks of the cluster, and its
    traffic is in the clear unless ``RAY_USE_TLS=1``. Ray keeps the arguments, ``key`` too: name a
    ledger on PostgreSQL by a URL without a password (``PGPASSFILE``).

    Args:
        dataset: Private rows.
        columns: As for :class:`NumberedRows`, and so for the rest. Ray keeps no order, so it cannot
            count the rows: ``row`` is a column.
        row: See there.
        job: See there.
        store: See there.
        key: See there.
        rows_per_chunk: See there.
        actors: Processes. Each opens what ``prepare()`` of the sanitizer wrote on its node, which
            they share.
        gpus: Of each actor, for mechanisms that run a model.

    Returns:
        All columns, these with released texts, and ``dp_tokens`` and ``dp_epsilon``.

    Raises:
        MissingExtra: Ray Data is not installed.
        ParameterError: Another kind of argument. Reading the data set raises Ray's ``RayTaskError``
            with the error of an actor as its cause.
    """
    try:
        import ray.data
    except ImportError:
        raise MissingExtra("ray[data]", "ray") from None
    _validate.at_least(1, actors=actors)
    options = {"row": row, "job": job, "store": os.fspath(store), "key": key}
    settings = {"columns": columns, **options, "rows_per_chunk": rows_per_chunk}
    NumberedRows(columns, row=row, job=job, store=store, key=key, rows_per_chunk=rows_per_chunk)
    return dataset.map_batches(
        NumberedRows,
        fn_constructor_kwargs=settings,
        batch_size=rows_per_chunk,
        batch_format="pyarrow",
        compute=ray.data.ActorPoolStrategy(size=actors),
        num_gpus=gpus or None,
        udf_modifying_row_count=False,
    )
