"""Rows of a channel on disk, as arrays that are mapped into memory; which rows is a public choice.

A folder is written whole or not at all. One with an array that is cut short, or of another channel,
version or kind of device, counts as absent. One of another processor counts: its rows differ from
those computed here in the last bits, as ``RECOMPUTED`` of ``certification/enumeration.py`` allows.

Digests of all arrays show damage, not tampering: whoever can write to the folder chooses the law
that is drawn from. To compare them, :meth:`PreparedRows.is_intact` reads all files: call it only
where there is time for that.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib.format import open_memmap, write_array_header_1_0
from numpy.typing import NDArray

from dp_middleware._files import UNFINISHED
from dp_middleware.embedding.arrays import Ids
from dp_middleware.sampling.entropy import Entropy, Words
from dp_middleware.sampling.tables import (
    ABSENT,
    UNIT,
    IdIndex,
    Table,
    search,
    units_of,
    write_guide,
)

_KINDS = {"guide": "<i4", "lasts": "<u8", "outputs": "<i4", "low": "<u8", "rows": "<i8"}
_HEADER = "rows.json"
_ABANDONED = 3600.0  # seconds after which nobody writes to an unfinished folder any more


class PreparedRows:
    """Rows that are searched where they lie; read-only, so without a lock and shared by forks.

    Args:
        folder: What :func:`write` wrote.
        key: All that decides a row.

    Raises:
        OSError: It is not there.
        ValueError: It is not whole, or of another key.
    """

    def __init__(self, folder: Path, key: dict[str, str]) -> None:
        header = json.loads((folder / _HEADER).read_text())
        if header.get("key") != key:
            raise ValueError("expected the rows of another channel or version")
        self._folder, self._digests = folder, header.get("digests")
        # A plain array has no Python code that runs at every index, as a memory map has.
        arrays = (open_memmap(folder / f"{n}.npy", mode="r").view(np.ndarray) for n in _KINDS)
        self._guide, self._lasts, self._outputs, self._low, rows = arrays
        ids, *places = rows.reshape(-1, 5).T.copy()
        self._units, self._counts, self._outputs_at, self._low_at = places
        self._places = IdIndex(int(ids.max(initial=ABSENT)) + 1)
        self._places.set_all(ids, np.arange(len(ids)))

    def holds(self, ids: Ids) -> bool:
        """Whether all these rows are there."""
        return bool((self._places.of(ids) != ABSENT).all())

    def is_intact(self) -> bool:
        """Whether every byte is as it was written. Reads all files."""
        return bool(_digests(self._folder) == self._digests)

    def locate(self, ids: Ids, uniform: Words, entropy: Entropy) -> tuple[NDArray[np.bool_], Ids]:
        """Which places have a row here, and the outputs drawn for these.

        Args:
            ids: int64 (n,).
            uniform: uint64 (n,): the upper 64 bits of a uniform integer each.
            entropy: Where lower halves come from.
        """
        places = self._places.of(ids)
        known = places != ABSENT
        if not known.all():
            places, uniform = places[known], uniform[known]
        units = self._units[places]
        cells = search(self._guide, self._lasts, units, uniform)
        outputs = cells - units * UNIT
        if len(self._outputs):
            at = self._outputs_at[places]
            sparse = at != ABSENT
            outputs[sparse] = self._outputs[at[sparse] + outputs[sparse]]
        if len(self._low):
            undecided = (self._lasts[cells] == uniform) & (self._low_at[places] != ABSENT)
            for k in np.flatnonzero(undecided):
                table = self._table(int(places[k]))
                outputs[k] = table.locate(uniform[k : k + 1], entropy)[0]
        return known, outputs

    def _table(self, place: int) -> Table:
        """A row as it was written."""
        size, at, low = self._counts[place], self._outputs_at[place], self._low_at[place]
        first = self._units[place] * UNIT
        return Table(
            self._lasts[first : first + size],
            None if low == ABSENT else self._low[low : low + size],
            None if at == ABSENT else self._outputs[at : at + size].astype(np.int64),
        )


def open_rows(folder: Path, key: dict[str, str]) -> PreparedRows | None:
    """The rows of a folder; ``None`` if there is none, or none that is whole and has this key."""
    try:
        return PreparedRows(folder, key)
    except (OSError, ValueError):
        return None


def room_for(tables: Iterable[Table]) -> int:
    """Bytes that these rows take on the disk."""
    return sum(
        units_of(len(t.lasts)) * (8 * UNIT + 4)
        + len(t.lasts) * (4 * (t.support is not None) + 8 * (t.low is not None))
        + 40
        for t in tables
    )


def write(folder: Path, key: dict[str, str], rows: Iterable[tuple[int, Table]]) -> None:
    """Write rows to a folder, in place of the one that was there.

    Two processes may do so at once: the last one stays. One that is killed leaves an unfinished
    folder, which is never read; the next one to write removes it after an hour.

    Args:
        folder: To be made, like those that it is in.
        key: All that decides a row, public.
        rows: Distinct ids with their tables.

    Raises:
        OSError: No room, or the folder cannot be written to.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(folder)
    part = folder.with_name(f"{folder.stem}.{secrets.token_hex(8)}{UNFINISHED}")
    part.mkdir()
    try:
        _write_arrays(part, rows)
        header = {"key": key, "digests": _digests(part)}
        (part / _HEADER).write_text(json.dumps(header, indent=1))
        _replace(folder, part)
    finally:
        shutil.rmtree(part, ignore_errors=True)


class _GrowingArray:
    """An array in a file, to which values are appended; its header has room for any length."""

    def __init__(self, file: BinaryIO, kind: str) -> None:
        self._file, self._kind, self._length = file, kind, 0
        self._write_header()

    def append(self, values: NDArray[Any]) -> int:
        """Write values at the end; returns the place of the first."""
        place = self._length
        self._file.write(np.ascontiguousarray(values, dtype=self._kind).data)
        self._length += len(values)
        return place

    def finish(self) -> None:
        """Write the length, and everything to the disk."""
        self._file.seek(0)
        self._write_header()
        self._file.flush()
        os.fsync(self._file.fileno())

    def _write_header(self) -> None:
        shape = {"fortran_order": False, "shape": (self._length,)}
        write_array_header_1_0(self._file, {"descr": self._kind, **shape})


def _write_arrays(folder: Path, rows: Iterable[tuple[int, Table]]) -> None:
    with ExitStack() as stack:
        files = {name: stack.enter_context((folder / f"{name}.npy").open("xb")) for name in _KINDS}
        arrays = {name: _GrowingArray(files[name], kind) for name, kind in _KINDS.items()}
        for number, table in rows:
            size = len(table.lasts)
            units = units_of(size)
            guide, lasts = np.zeros(units, np.int32), np.zeros(units * UNIT, np.uint64)
            write_guide(guide, table.lasts)
            lasts[:size] = table.lasts
            first = arrays["guide"].append(guide)
            arrays["lasts"].append(lasts)
            at = ABSENT if table.support is None else arrays["outputs"].append(table.support)
            low = ABSENT if table.low is None else arrays["low"].append(table.low)
            arrays["rows"].append(np.array([number, first, size, at, low]))
        for array in arrays.values():
            array.finish()


def _digests(folder: Path) -> dict[str, str]:
    digests = {}
    for name in _KINDS:
        with (folder / f"{name}.npy").open("rb") as file:
            digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests


def _replace(folder: Path, part: Path) -> None:
    """Rename the new folder to the old one's name; readers of the old one keep it."""
    replaced = part.with_suffix(f".replaced{UNFINISHED}")
    while True:
        with suppress(FileNotFoundError):
            folder.rename(replaced)
        try:
            part.rename(folder)
            return
        except OSError as error:  # another writer was between the two
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        finally:
            shutil.rmtree(replaced, ignore_errors=True)


def _remove_abandoned(folder: Path) -> None:
    """What killed processes left of this folder."""
    for part in folder.parent.glob(f"{folder.stem}.*{UNFINISHED}"):
        with suppress(OSError):
            if time.time() - part.stat().st_mtime > _ABANDONED:
                shutil.rmtree(part)
