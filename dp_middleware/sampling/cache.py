"""Cached rows of all channels of a process, bounded in total.

The last integer of each output is held whole, so that every draw from a row is decided by one
table: two that are not bit for bit the same must never share the draws of a token. Where the upper
half of an integer of 128 bits is that of some last one, the table itself, which is handed out,
decides.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from threading import Lock
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dp_middleware import _forks
from dp_middleware.embedding.arrays import Ids
from dp_middleware.sampling.entropy import Words
from dp_middleware.sampling.tables import (
    ABSENT,
    UNIT,
    IdIndex,
    Places,
    Table,
    search,
    units_of,
    write_guide,
)

Kind = TypeVar("Kind", bound=np.generic)

_HUGE = 1 << 22  # bytes from which NumPy asks for huge pages


class RowCache:
    """Channels that share memory; one that needs room takes that of all others.

    Args:
        capacity: Bytes of all rows together.

    Attributes:
        lock: Held while rows are read or written.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._channels: weakref.WeakValueDictionary[Hashable, CachedRows] = (
            weakref.WeakValueDictionary()
        )
        self.after_fork()
        _forks.renew(self)

    def after_fork(self) -> None:
        """Drop all rows: the parent may have been writing one."""
        self.lock = Lock()
        for rows in list(self._channels.values()):
            rows.clear()

    def channel(self, key: Hashable) -> CachedRows:
        """The rows of a channel; callers with the same key share them."""
        with self.lock:
            rows = self._channels.get(key)
            if rows is None:
                rows = self._channels[key] = CachedRows(self)
            return rows

    @property
    def held(self) -> int:
        """Bytes that the rows of all channels take."""
        with self.lock:
            return sum(rows.bytes for rows in list(self._channels.values()))

    def make_room(self, rows: CachedRows, size: int) -> int:
        """Bytes that a channel may take: ``size`` or more, which is not beyond the capacity."""
        others = [other for other in list(self._channels.values()) if other is not rows]
        room = self.capacity - sum(other.bytes for other in others)
        if room >= size:
            return room
        for other in others:
            other.clear()
        return self.capacity


class _Row(NamedTuple):
    first: int  # unit
    outputs: int
    wide: bool


class CachedRows:
    """The cached rows of one channel, by id, in arrays that grow and are freed with it.

    Rows may have fewer outputs or more bits than others: at the first such row the channel drops
    its rows and begins anew, as it does when it has no room left. Beside the rows it takes 8 bytes
    for each id of the vocabulary.

    Args:
        cache: Where all channels that share memory are.
    """

    def __init__(self, cache: RowCache) -> None:
        self._cache = cache
        self._sparse = self._wide = False  # some row has not all V outputs; has 128 bits
        self.clear()

    def clear(self) -> None:
        """Give back all memory."""
        self._guide: Places = np.empty(0, np.int32)
        self._lasts: Words = np.empty(0, np.uint64)
        self._outputs: Places = np.empty(0, np.int32)
        self._low: Words = np.empty(0, np.uint64)
        self._begin()

    def _begin(self) -> None:
        self._rows: dict[int, _Row] = {}
        self._units = IdIndex()
        self._end = 0

    @property
    def bytes(self) -> int:
        """Of its arrays."""
        return len(self._guide) * self._unit_bytes

    @property
    def _unit_bytes(self) -> int:
        return 4 + UNIT * (8 + 4 * self._sparse + 8 * self._wide)

    def has_room(self, outputs: int) -> bool:
        """Whether a row of so many outputs can be cached at all."""
        return units_of(outputs) <= self._cache.capacity // self._unit_bytes

    def locate(self, ids: Ids, uniform: Words) -> tuple[NDArray[np.bool_], Ids, dict[int, Table]]:
        """Which places the cached rows decide, the outputs there, and tables for other places.

        Args:
            ids: int64 (n,).
            uniform: uint64 (n,): the upper 64 bits of a uniform integer each.
        """
        with self._cache.lock:
            known, outputs = self._search(ids, uniform)
            if len(outputs) == len(ids):
                return known, outputs, {}
            rest = np.unique(ids[~known]).tolist()
            return known, outputs, {n: self._table(self._rows[n]) for n in rest if n in self._rows}

    def store(self, ids: Ids, tables: list[Table]) -> None:
        """Cache these rows, except those that are there already or do not fit."""
        for number, table in zip(ids.tolist(), tables, strict=True):
            with self._cache.lock:  # others draw in between
                try:
                    self._add(number, table)
                except MemoryError:  # there is less than the capacity: do without
                    self.clear()

    def _search(self, ids: Ids, uniform: Words) -> tuple[NDArray[np.bool_], Ids]:
        units = self._units.of(ids)
        known = units != ABSENT
        if not known.all():
            uniform, units = uniform[known], units[known]
        cells = search(self._guide, self._lasts, units, uniform)
        outputs = self._outputs[cells].astype(np.int64) if self._sparse else cells - units * UNIT
        if self._wide:
            decided = self._lasts[cells] != uniform
            if not decided.all():
                outputs, known[known] = outputs[decided], decided
        return known, outputs

    def _table(self, row: _Row) -> Table:
        """A row as it was stored."""
        cells = slice(row.first * UNIT, row.first * UNIT + row.outputs)
        low = self._low[cells].copy() if row.wide else None
        support = self._outputs[cells].astype(np.int64) if self._sparse else None
        return Table(self._lasts[cells].copy(), low, support)

    def _add(self, number: int, table: Table) -> None:
        if number in self._rows:
            return
        sparse = self._sparse or table.support is not None
        wide = self._wide or table.low is not None
        if (sparse, wide) != (self._sparse, self._wide):
            self.clear()
            self._sparse, self._wide = sparse, wide
        outputs = len(table.lasts)
        units = units_of(outputs)
        if not self._make_room(units):
            return
        first, end = self._end, self._end + units
        cells = slice(first * UNIT, first * UNIT + outputs)
        self._lasts[cells] = table.lasts
        if sparse:
            self._outputs[cells] = np.arange(outputs) if table.support is None else table.support
        if table.low is not None:
            self._low[cells] = table.low
        write_guide(self._guide[first:end], table.lasts)
        self._end = end
        self._rows[number] = _Row(first, outputs, table.low is not None)
        self._units.set(number, first)

    def _make_room(self, units: int) -> bool:
        """Make room for another row; ``False`` if there cannot be."""
        most = self._cache.capacity // self._unit_bytes
        if units > most:
            return False
        if self._end + units > most:
            self._begin()
        end = self._end + units
        if end > len(self._guide):
            room = self._cache.make_room(self, end * self._unit_bytes) // self._unit_bytes
            grown = min(max(end, 2 * len(self._guide)), room)
            self._lasts = _resize(self._lasts, grown * UNIT)
            self._outputs = _resize(self._outputs, grown * UNIT * self._sparse)
            self._low = _resize(self._low, grown * UNIT * self._wide)
            self._guide = _resize(self._guide, grown)
        return True


def _resize(array: NDArray[Kind], length: int) -> NDArray[Kind]:
    """A longer array: the system moves its pages, so that no copy takes memory beside them.

    Searches jump about, and NumPy asks for huge pages for a new array only.
    """
    if array.nbytes < _HUGE <= length * array.itemsize:
        larger = np.empty(length, array.dtype)
        larger[: len(array)] = array
        return larger
    array.resize(length, refcheck=False)
    return array
