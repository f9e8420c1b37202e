"""Data sets of Ray Data: actors release each row once, however often Ray runs a task."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from dp_middleware import _validate
from dp_middleware.corpora.columns import Columns, Named, fields_of
from dp_middleware.corpora.numbered import NumberedRows
from dp_middleware.errors import needs
from dp_middleware.pseudonyms.pseudonyms import Pseudonyms
from dp_middleware.sanitizers.sanitizer import Sanitizer
from dp_middleware.sanitizers.spans import Detector

if TYPE_CHECKING:
    from ray.data import Dataset


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
    scope: Detector | None = None,
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
        column: As of :func:`sanitize_file`; pseudonyms are of a row alone.
        sanitizer: Or pseudonyms; with a ledger, or nothing is charged.
        row: A column of numbers, as for :class:`NumberedRows`, and so for ``job``, ``store``,
            ``key`` and ``rows_per_chunk``: Ray keeps no order, so it cannot count the rows.
        job: See there.
        store: See there.
        key: See there.
        subject: As of :func:`sanitize_file`, and so for ``scope``.
        scope: See there.
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
    with needs("ray", "ray[data]"):
        import ray.data
    _validate.at_least(1, actors=actors)
    columns = Columns(releaser=sanitizer, subject=subject, scope=scope, **fields_of(column))
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
