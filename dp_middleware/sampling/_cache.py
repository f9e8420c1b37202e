"""Cached rows of all channels of a process, bounded in total.

The last integer of each output is held whole, so that every draw from a row is decided by one
table: two that are not bit for bit the same must never share the draws of a token. Where the upper
half of an integer of 128 bits is that of some last one, the table itself, handed out, decides.
"""

from __future__ import annotations

from collections.abc import Hashable
from threading import Lock
from typing import NamedTuple, TypeVar
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from dp_middleware import _forks
from dp_middleware.embedding.arrays import Ids
from dp_middleware.sampling.entropy import Words
from dp_middleware.sampling.integers import Table

Kind = TypeVar("Kind", bound=np.generic)
Places = NDArray[np.int32]

_ABSENT = -1
_UNIT = 4  # cells of outputs for a cell of the guide: four to eight outputs share a bucket
_UPPER = np.uint64(32)  # bits that name no bucket
_HUGE = 1 << 22  # bytes from which NumPy asks for huge pages


class RowCache:
    """Holds channels that share ``capacity`` bytes; one that needs room takes all of it."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._channels: WeakValueDictionary[Hashable, CachedRows] = WeakValueDictionary()
        self.after_fork()
        _forks.renewed[id(self)] = self

    def after_fork(self) -> None:
        """Drops all rows: the parent may have been writing one."""
        self.lock = Lock()  # held while rows are read or written
        for rows in list(self._channels.values()):
            rows.clear()

    def channel(self, key: Hashable) -> CachedRows:
        with self.lock:
            return self._channels.setdefault(key, CachedRows(self))

    def make_room(self, rows: CachedRows, size: int) -> int:
        """Finds bytes that a channel may take: ``size`` or more, which is within the capacity."""
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
    """Keeps the rows of one channel, by id, in arrays that grow and are freed with it.

    At the first row with fewer outputs or more bits than others the channel drops its rows and
    begins anew, as it does when it has no room left. Each id takes 8 bytes beside its row.
    """

    def __init__(self, cache: RowCache) -> None:
        self._cache = cache
        self._sparse = self._wide = False  # some row has not all V outputs; has 128 bits
        self.clear()

    def clear(self) -> None:
        self._guide: Places = np.empty(0, np.int32)
        self._lasts: Words = np.empty(0, np.uint64)
        self._outputs: Places = np.empty(0, np.int32)
        self._low: Words = np.empty(0, np.uint64)
        self._begin()

    def _begin(self) -> None:
        self._rows: dict[int, _Row] = {}
        self._units: Ids = np.full(2, _ABSENT, dtype=np.int64)  # of id i at i + 1; none at last
        self._end = 0

    @property
    def bytes(self) -> int:
        return len(self._guide) * self._unit_bytes

    @property
    def _unit_bytes(self) -> int:
        return 4 + _UNIT * (8 + 4 * self._sparse + 8 * self._wide)

    @property
    def _most(self) -> int:
        return self._cache.capacity // self._unit_bytes

    def has_room(self, outputs: int) -> bool:
        return _units_of(outputs) <= self._most

    def locate(self, ids: Ids, uniform: Words) -> tuple[NDArray[np.bool_], Ids, dict[int, Table]]:
        """Tells which places cached rows decide, the outputs there, and tables for other places."""
        with self._cache.lock:
            known, outputs = self._look_up(ids, uniform)
            if len(outputs) == len(ids):
                return known, outputs, {}
            rest = np.unique(ids[~known]).tolist()
            return known, outputs, {n: self._table(self._rows[n]) for n in rest if n in self._rows}

    def store(self, ids: Ids, tables: list[Table]) -> None:
        """Caches these rows, except those that are there already or do not fit."""
        for number, table in zip(ids.tolist(), tables, strict=True):
            with self._cache.lock:  # others draw in between
                try:
                    self._add(number, table)
                except MemoryError:  # there is less than the capacity: do without
                    self.clear()

    def _look_up(self, ids: Ids, uniform: Words) -> tuple[NDArray[np.bool_], Ids]:
        units = self._units.take(ids + 1, mode="clip")
        known = units != _ABSENT
        if not known.all():
            uniform, units = uniform[known], units[known]
        cells = _search(self._guide, self._lasts, units, uniform)
        outputs = self._outputs[cells].astype(np.int64) if self._sparse else cells - units * _UNIT
        if self._wide:
            decided = self._lasts[cells] != uniform
            if not decided.all():
                outputs, known[known] = outputs[decided], decided
        return known, outputs

    def _table(self, row: _Row) -> Table:
        cells = slice(row.first * _UNIT, row.first * _UNIT + row.outputs)
        low = self._low[cells].copy() if row.wide else None
        support = self._outputs[cells].astype(np.int64) if self._sparse else None
        return Table(self._lasts[cells].copy(), low, support)

    def _add(self, number: int, table: Table) -> None:
        if number in self._rows:
            return
        kinds = self._sparse or table.support is not None, self._wide or table.low is not None
        if kinds != (self._sparse, self._wide):
            self.clear()
            self._sparse, self._wide = kinds
        outputs = len(table.lasts)
        units = _units_of(outputs)
        if units > self._most:
            return
        if self._end + units > self._most:
            self._begin()
        first, self._end = self._end, self._end + units
        if self._end > len(self._guide):
            self._grow()
        cells = slice(first * _UNIT, first * _UNIT + outputs)
        self._lasts[cells] = table.lasts
        if self._sparse:
            self._outputs[cells] = np.arange(outputs) if table.support is None else table.support
        if table.low is not None:
            self._low[cells] = table.low
        _write_guide(self._guide[first : self._end], table.lasts)
        self._rows[number] = _Row(first, outputs, table.low is not None)
        if number + 3 > len(self._units):
            behind = max(number + 3, 2 * len(self._units)) - len(self._units)
            self._units = np.pad(self._units, (0, behind), constant_values=_ABSENT)
        self._units[number + 1] = first

    def _grow(self) -> None:
        room = self._cache.make_room(self, self._end * self._unit_bytes) // self._unit_bytes
        grown = min(max(self._end, 2 * len(self._guide)), room)
        self._lasts = _resize(self._lasts, grown * _UNIT)
        self._outputs = _resize(self._outputs, grown * _UNIT * self._sparse)
        self._low = _resize(self._low, grown * _UNIT * self._wide)
        self._guide = _resize(self._guide, grown)


def _resize(array: NDArray[Kind], length: int) -> NDArray[Kind]:
    """A longer array: the system moves its pages, so that no copy takes memory beside them."""
    if array.nbytes < _HUGE <= length * array.itemsize:  # huge pages are for new arrays only
        larger = np.empty(length, array.dtype)
        larger[: len(array)] = array
        return larger
    array.resize(length, refcheck=False)
    return array


def _units_of(outputs: int) -> int:
    return max(-(-outputs // _UNIT), _buckets(outputs) + 2)


def _buckets(outputs: int) -> int:
    return 1 << max(0, (outputs // _UNIT).bit_length() - 1)


def _write_guide(guide: Places, lasts: Words) -> None:
    """A shift; for each bucket the first output that may own an integer in it; the last output."""
    buckets = _buckets(len(lasts))
    shift = 33 - buckets.bit_length()
    named = (lasts >> _UPPER >> np.uint64(shift)).astype(np.int64)
    guide[0], guide[1] = shift, 0
    np.cumsum(np.bincount(named, minlength=buckets), out=guide[2 : buckets + 2])
    guide[buckets + 1] = len(lasts) - 1


def _search(guide: Places, lasts: Words, units: Ids, uniform: Words) -> Ids:
    """The first cell of each row, by its first unit (n,), that is no less than the integer."""
    shifts = guide[units].astype(np.uint32)
    buckets = ((uniform >> _UPPER).astype(np.uint32) >> shifts) + (units + 1)
    firsts = units * _UNIT
    cells: Ids = firsts + guide[buckets]
    later = np.flatnonzero(lasts[cells] < uniform)
    if not later.size:
        return cells
    wanted = uniform[later]
    low, high = cells[later] + 1, firsts[later] + guide[buckets[later] + 1]
    while (low < high).any():
        middle = (low + high) >> 1
        below = lasts[middle] < wanted
        low, high = np.where(below, middle + 1, low), np.where(below, high, middle)
    cells[later] = low
    return cells
