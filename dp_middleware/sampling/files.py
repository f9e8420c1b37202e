"""Rows of a channel in one file that is mapped into memory: public, and never chosen by use.

A file is written whole or not at all. One that is cut short, of another channel, version, kind of
device or order of bytes, or not ours, is not there. Another processor's is: what it would compute
differs in the last bits, as ``RECOMPUTED`` of ``certification/enumeration.py`` allows.

The header has digests of all parts, against damage and not against a writer: to compare them takes
a pass over the file, so that :meth:`RowFile.is_intact` is asked where there is time for it. Who
can write to the folder chooses the law that is drawn from.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from dp_middleware._files import UNFINISHED, unfinished
from dp_middleware.sampling.tables import (
    ABSENT,
    UNIT,
    Entropy,
    Ids,
    Numbers,
    Places,
    Table,
    Words,
    search,
    units_of,
    write_guide,
)

_MAGIC = b"dp-middleware rows\n"
_HEADER = 4096  # bytes
_ALIGNED = 64  # bytes
_KINDS = {"lasts": "<u8", "guide": "<i4", "outputs": "<i4", "low": "<u8", "rows": "<i8"}
_ABANDONED = 3600.0  # seconds after which nobody writes to an unfinished file any more


class RowFile:
    """Rows that are searched where they lie; read-only, so without a lock and shared by forks.

    Args:
        file: What :func:`write` wrote.
        header: Of the file, checked.
    """

    def __init__(self, file: IO[bytes], header: dict[str, Any]) -> None:
        self._header = header
        self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._guide: Places = self._part("guide")
        self._lasts: Words = self._part("lasts")
        self._outputs: Places = self._part("outputs")
        self._low: Words = self._part("low")
        self._rows: Ids = self._part("rows").reshape(-1, 5)
        self._places = Numbers(int(self._rows[:, 0].max(initial=ABSENT)) + 1)
        self._places.set_all(self._rows[:, 0], np.arange(len(self._rows)))
        self._units, self._counts, self._outputs_at, self._low_at = self._rows.T[1:].copy()

    def holds(self, ids: Ids) -> bool:
        """Whether all these rows are there."""
        return bool((self._places.of(ids) != ABSENT).all())

    def is_intact(self) -> bool:
        """Whether every byte is as it was written. Reads the whole file."""
        found = {name: hashlib.sha256(self._part(name).data).hexdigest() for name in _KINDS}
        return bool(found == self._header["digests"])

    def locate(self, ids: Ids, uniform: Words, entropy: Entropy) -> tuple[NDArray[np.bool_], Ids]:
        """For which places the row is there, and the outputs drawn for these.

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
        found = cells - units * UNIT
        if len(self._low):
            undecided = (self._lasts[cells] == uniform) & (self._low_at[places] != ABSENT)
            for k in np.flatnonzero(undecided):
                lasts, low, _ = self._parts(int(places[k]))
                found[k] = Table(lasts, low, None).locate(uniform[k : k + 1], entropy)[0]
        if len(self._outputs):
            at = self._outputs_at[places]
            sparse = at != ABSENT
            found[sparse] = self._outputs[at[sparse] + found[sparse]]
        return known, found

    def table(self, number: int) -> Table:
        """One row, as it was written."""
        return Table(*self._parts(int(self._places.of(np.array([number]))[0])))

    def _parts(self, place: int) -> tuple[Words, Words | None, Ids | None]:
        count, at, low = self._counts[place], self._outputs_at[place], self._low_at[place]
        first = self._units[place] * UNIT
        return (
            self._lasts[first : first + count],
            None if low == ABSENT else self._low[low : low + count],
            None if at == ABSENT else self._outputs[at : at + count].astype(np.int64),
        )

    def _part(self, name: str) -> NDArray[Any]:
        start, size = self._header["parts"][name]
        kind = np.dtype(_KINDS[name])
        return np.frombuffer(self._map, kind, count=size // kind.itemsize, offset=start)


def opened(path: Path, key: dict[str, str]) -> RowFile | None:
    """The rows of a file; ``None`` if there is none, or none that is whole and has this key."""
    try:
        with path.open("rb") as file:
            header = _read(file.read(_HEADER))
            if header.get("key") != _all(key) or header["size"] != os.fstat(file.fileno()).st_size:
                return None
            return RowFile(file, header)
    except OSError:
        return None


def _read(block: bytes) -> dict[str, Any]:
    """A header that :func:`write` wrote, as its digest shows; empty for anything else."""
    digest, _, text = block.removeprefix(_MAGIC).rstrip(b"\0").partition(b"\n")
    if not block.startswith(_MAGIC) or digest != hashlib.sha256(text).hexdigest().encode():
        return {}
    header: dict[str, Any] = json.loads(text)
    return header


def _all(key: dict[str, str]) -> dict[str, str]:
    return {**key, "bytes": sys.byteorder}


def room_for(tables: Iterable[Table]) -> int:
    """Bytes that these rows take on the disk while they are written.

    At the end all parts but the largest, the first, are there twice: see :func:`write`.
    """
    return sum(
        units_of(len(t.lasts)) * (8 * UNIT + 2 * 4)
        + 2 * len(t.lasts) * (4 * (t.support is not None) + 8 * (t.low is not None))
        + 2 * 40
        for t in tables
    )


def write(path: Path, key: dict[str, str], rows: Iterable[tuple[int, Table]]) -> None:
    """Write rows to a file, in place of the one that was there.

    Two processes may do so at once: the last one stays. One that is killed leaves an unfinished
    file, which is never read; the next one to write removes it after an hour.

    Args:
        path: Of the file; its folder is made.
        key: All that decides a row, public.
        rows: Distinct ids with their tables.

    Raises:
        OSError: No room, or the folder cannot be written to.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(path)
    with unfinished(path) as file, ExitStack() as stack:
        parts = {
            name: stack.enter_context(tempfile.TemporaryFile(dir=path.parent))
            for name in ("guide", "outputs", "low", "rows")
        }
        file.seek(_HEADER)
        writer = _Writer({"lasts": file, **parts})
        for number, table in rows:
            writer.add(number, table)
        places = {"lasts": (_HEADER, writer.sizes["lasts"])}
        for name, part in parts.items():
            file.write(b"\0" * (-file.tell() % _ALIGNED))
            places[name] = (file.tell(), writer.sizes[name])
            part.seek(0)
            while block := part.read(1 << 20):
                file.write(block)
        header = {"key": _all(key), "size": file.tell(), "parts": places}
        text = json.dumps({**header, "digests": writer.digests()}).encode()
        file.seek(0)
        file.write(_MAGIC + hashlib.sha256(text).hexdigest().encode() + b"\n" + text)


class _Writer:
    """Appends rows to the parts of a file, each of which grows on its own."""

    def __init__(self, files: dict[str, IO[bytes]]) -> None:
        self._files = files
        self._hashes = {name: hashlib.sha256() for name in files}
        self.sizes = dict.fromkeys(files, 0)

    def digests(self) -> dict[str, str]:
        return {name: each.hexdigest() for name, each in self._hashes.items()}

    def add(self, number: int, table: Table) -> None:
        count = len(table.lasts)
        units = units_of(count)
        guide, lasts = np.zeros(units, np.int32), np.zeros(units * UNIT, np.uint64)
        write_guide(guide, table.lasts)
        lasts[:count] = table.lasts
        first = self._append("guide", guide)
        self._append("lasts", lasts)
        at = low = ABSENT
        if table.support is not None:
            at = self._append("outputs", table.support)
        if table.low is not None:
            low = self._append("low", table.low)
        self._append("rows", np.array([number, first, count, at, low]))

    def _append(self, name: str, values: NDArray[Any]) -> int:
        """Its place among the values of this part."""
        data = np.ascontiguousarray(values, dtype=_KINDS[name])
        place = self.sizes[name] // data.itemsize
        self._files[name].write(data.data)
        self._hashes[name].update(data.data)
        self.sizes[name] += data.nbytes
        return place


def _remove_abandoned(path: Path) -> None:
    """What killed processes left of this file."""
    for part in path.parent.glob(f"{path.stem}.*{UNFINISHED}"):
        with suppress(OSError):
            if time.time() - part.stat().st_mtime > _ABANDONED:
                part.unlink()
