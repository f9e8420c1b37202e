"""Cached rows side by side in flat arrays, so that a whole batch of draws is one search.

The last integer of each output is held whole, so that every draw from a row is decided by one
table: two that are not bit for bit the same must never share the draws of a token. What is said is
what :meth:`Table.locate` says. Where the upper half of an integer of 128 bits is that of some last
one, nothing is said, and the table itself, which is handed out, decides.

The first bits of an integer name a bucket of the row, a guide says at which outputs the bucket
starts and ends, and a bisection does the rest.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import repeat
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dp_middleware._tables import Ids, Table, Words

Places = NDArray[np.int32]
Kind = TypeVar("Kind", bound=np.generic)

_ABSENT = -1
_UPPER = np.uint64(32)  # bits that name no bucket
_UNIT = 4  # cells of outputs for a cell of the guide: four to eight outputs share a bucket
_UNIT_BYTES = 8 * _UNIT + 4  # without ids of outputs and lower halves
_FIRST_UNITS = 1 << 14


class _Row(NamedTuple):
    """Where a row lies: its first unit, how many outputs it has, and their kind."""

    first: int
    outputs: int
    sparse: bool
    wide: bool


class Arena:
    """Rows by id in a ring of cells; the oldest make room for new ones. Not thread-safe.

    Args:
        capacity: Bytes of all cells.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._clear(sparse=False, wide=False)

    def _clear(self, *, sparse: bool, wide: bool) -> None:
        """Without rows.

        Args:
            sparse: Hold ids of outputs: some row has not all V.
            wide: Hold lower halves: some row has 128 bits.
        """
        self._sparse, self._wide = sparse, wide
        self._rows: OrderedDict[int, _Row] = OrderedDict()  # by id, the oldest first
        self._firsts: dict[int, int] = {}  # the same, for the search
        self._head = 0
        self._guide: Places = np.empty(0, dtype=np.int32)
        self._lasts: Words = np.empty(0, dtype=np.uint64)
        self._low: Words = np.empty(0, dtype=np.uint64)
        self._outputs: Places = np.empty(0, dtype=np.int32)

    def locate(self, ids: Ids, uniform: Words) -> tuple[NDArray[np.bool_], Ids]:
        """For which places the output is known, and these outputs.

        Args:
            ids: int64 (n,).
            uniform: uint64 (n,): the upper 64 bits of a uniform integer each.
        """
        units = np.fromiter(
            map(self._firsts.get, ids.tolist(), repeat(_ABSENT)), np.int64, count=len(ids)
        )
        known = units != _ABSENT
        if not known.all():
            uniform, units = uniform[known], units[known]
        cells = self._cells(units, uniform)
        found = self._outputs[cells].astype(np.int64) if self._sparse else cells - units * _UNIT
        if self._wide:
            decided = self._lasts[cells] != uniform
            if not decided.all():
                found, known[known] = found[decided], decided
        return known, found

    def tables(self, ids: Ids) -> dict[int, Table]:
        """The tables of those ids whose rows are held, as they were stored."""
        return {i: self._table(self._rows[i]) for i in ids.tolist() if i in self._rows}

    def _table(self, row: _Row) -> Table:
        cells = slice(row.first * _UNIT, row.first * _UNIT + row.outputs)
        low = self._low[cells].copy() if row.wide else None
        support = self._outputs[cells].astype(np.int64) if row.sparse else None
        return Table(self._lasts[cells].copy(), low, support)

    def _cells(self, units: Ids, uniform: Words) -> Ids:
        """The first cell of each row that is no less than the integer."""
        shifts = self._guide[units].astype(np.uint32)
        buckets = ((uniform >> _UPPER).astype(np.uint32) >> shifts) + (units + 1)
        firsts = units * _UNIT
        cells: Ids = firsts + self._guide[buckets]
        later = np.flatnonzero(self._lasts[cells] < uniform)
        if not later.size:
            return cells
        wanted = uniform[later]
        low, high = cells[later] + 1, firsts[later] + self._guide[buckets[later] + 1]
        while (low < high).any():
            middle = (low + high) >> 1
            below = self._lasts[middle] < wanted
            low, high = np.where(below, middle + 1, low), np.where(below, high, middle)
        cells[later] = low
        return cells

    def store(self, number: int, table: Table) -> None:
        """Hold a row, unless it is held already or larger than all cells together."""
        if number in self._rows:
            return
        sparse, wide = table.support is not None, table.low is not None
        if sparse > self._sparse or wide > self._wide:
            self._clear(sparse=sparse or self._sparse, wide=wide or self._wide)
        outputs = len(table.lasts)
        buckets = 1 << max(0, (outputs // _UNIT).bit_length() - 1)
        units = max(-(-outputs // _UNIT), buckets + 2)
        if units > self._limit:
            return
        first = self._room(units)
        cells = slice(first * _UNIT, first * _UNIT + outputs)
        self._lasts[cells] = table.lasts
        if self._sparse:
            self._outputs[cells] = np.arange(outputs) if table.support is None else table.support
        if table.low is not None:
            self._low[cells] = table.low
        _write_guide(self._guide[first : first + units], table.lasts >> _UPPER, buckets)
        self._rows[number] = _Row(first, outputs, sparse, wide)
        self._firsts[number] = first

    @property
    def _limit(self) -> int:
        """Number of units that the capacity allows."""
        return self._capacity // (_UNIT_BYTES + _UNIT * (4 * self._sparse + 8 * self._wide))

    def _room(self, units: int) -> int:
        """The first of free units side by side; rows that lie there are given up."""
        if self._head + units > len(self._guide) < self._limit:
            self._grow(self._head + units)
        if self._head + units > len(self._guide):
            self._give_up(self._head, len(self._guide))
            self._head = 0
        first, self._head = self._head, self._head + units
        self._give_up(first, self._head)
        return first

    def _give_up(self, start: int, end: int) -> None:
        """Forget the rows that start between two units; they are the oldest."""
        while self._rows and start <= next(iter(self._rows.values())).first < end:
            del self._firsts[self._rows.popitem(last=False)[0]]

    def _grow(self, units: int) -> None:
        size = min(self._limit, max(units, 2 * len(self._guide), _FIRST_UNITS))
        self._guide = _longer(self._guide, size)
        self._lasts = _longer(self._lasts, size * _UNIT)
        if self._sparse:
            self._outputs = _longer(self._outputs, size * _UNIT)
        if self._wide:
            self._low = _longer(self._low, size * _UNIT)


def _write_guide(guide: Places, upper: Words, buckets: int) -> None:
    """A shift; for each bucket the first output that may own an integer in it; the last output."""
    shift = 33 - buckets.bit_length()
    counts = np.bincount((upper >> np.uint64(shift)).astype(np.int64), minlength=buckets)
    guide[0], guide[1] = shift, 0
    np.cumsum(counts, out=guide[2 : buckets + 2])
    guide[buckets + 1] = len(upper) - 1


def _longer(cells: NDArray[Kind], size: int) -> NDArray[Kind]:
    """The same with room for more."""
    longer = np.empty(size, dtype=cells.dtype)
    longer[: len(cells)] = cells
    return longer
