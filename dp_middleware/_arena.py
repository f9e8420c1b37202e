"""Cached rows side by side in flat arrays, so that a whole batch of draws is one search.

Of the last integer of each output the upper 32 bits are held. They decide which output owns a
uniform integer, unless its upper 32 bits are those of some last one: then nothing is said, and
the whole integers must be computed again. For V outputs that happens to V in 2^32 draws at most,
and takes half the memory. What is said is what :meth:`Table.locate` says.

The first of these bits name a bucket of the row, a guide says at which outputs the bucket starts
and ends, and a bisection does the rest.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import repeat
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dp_middleware._tables import Ids, Table, Words

Halves = NDArray[np.uint32]
Places = NDArray[np.int32]
Kind = TypeVar("Kind", bound=np.generic)

_ABSENT = -1
_UPPER = np.uint64(32)  # bits that are left out
_UNIT = 4  # cells of outputs for a cell of the guide: four to eight outputs share a bucket
_UNIT_BYTES = 4 * _UNIT + 4  # without ids of outputs
_FIRST_UNITS = 1 << 14


class Arena:
    """Rows by id in a ring of cells; the oldest make room for new ones. Not thread-safe.

    Args:
        capacity: Bytes of all cells.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._clear(sparse=False)

    def _clear(self, *, sparse: bool) -> None:
        """Without rows; ids of outputs are held if ``sparse``: if some row has not all V."""
        self._sparse = sparse
        self._rows: OrderedDict[int, int] = OrderedDict()  # id: first unit, the oldest first
        self._head = 0
        self._guide: Places = np.empty(0, dtype=np.int32)
        self._lasts: Halves = np.empty(0, dtype=np.uint32)
        self._outputs: Places = np.empty(0, dtype=np.int32)

    def locate(self, ids: Ids, uniform: Words) -> tuple[NDArray[np.bool_], Ids]:
        """For which places the output is known, and these outputs.

        Args:
            ids: int64 (n,).
            uniform: uint64 (n,): the upper 64 bits of a uniform integer each.
        """
        units = np.fromiter(
            map(self._rows.get, ids.tolist(), repeat(_ABSENT)), np.int64, count=len(ids)
        )
        known = units != _ABSENT
        if not known.all():
            uniform, units = uniform[known], units[known]
        upper = (uniform >> _UPPER).astype(np.uint32)
        cells = self._cells(units, upper)
        decided = self._lasts[cells] != upper
        found = self._outputs[cells].astype(np.int64) if self._sparse else cells - units * _UNIT
        if not decided.all():
            found, known[known] = found[decided], decided
        return known, found

    def _cells(self, units: Ids, upper: Halves) -> Ids:
        """The first cell of each row that is no less than the upper half of the integer."""
        shifts = self._guide[units].astype(np.uint32)
        buckets = (upper >> shifts) + (units + 1)
        firsts = units * _UNIT
        cells: Ids = firsts + self._guide[buckets]
        later = np.flatnonzero(self._lasts[cells] < upper)
        if not later.size:
            return cells
        wanted = upper[later]
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
        if table.support is not None and not self._sparse:
            self._clear(sparse=True)
        outputs = len(table.lasts)
        buckets = 1 << max(0, (outputs // _UNIT).bit_length() - 1)
        units = max(-(-outputs // _UNIT), buckets + 2)
        if units > self._limit:
            return
        first = self._room(units)
        lasts = (table.lasts >> _UPPER).astype(np.uint32)
        cells = slice(first * _UNIT, first * _UNIT + outputs)
        self._lasts[cells] = lasts
        if self._sparse:
            self._outputs[cells] = np.arange(outputs) if table.support is None else table.support
        _write_guide(self._guide[first : first + units], lasts, buckets)
        self._rows[number] = first

    @property
    def _limit(self) -> int:
        """Number of units that the capacity allows."""
        return self._capacity // (_UNIT_BYTES + 4 * _UNIT * self._sparse)

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
        while self._rows and start <= next(iter(self._rows.values())) < end:
            self._rows.popitem(last=False)

    def _grow(self, units: int) -> None:
        size = min(self._limit, max(units, 2 * len(self._guide), _FIRST_UNITS))
        self._guide = _longer(self._guide, size)
        self._lasts = _longer(self._lasts, size * _UNIT)
        if self._sparse:
            self._outputs = _longer(self._outputs, size * _UNIT)


def _write_guide(guide: Places, lasts: Halves, buckets: int) -> None:
    """A shift; for each bucket the first output that may own an integer in it; the last output."""
    shift = 33 - buckets.bit_length()
    counts = np.bincount((lasts >> np.uint32(shift)).astype(np.int64), minlength=buckets)
    guide[0], guide[1] = shift, 0
    np.cumsum(counts, out=guide[2 : buckets + 2])
    guide[buckets + 1] = len(lasts) - 1


def _longer(cells: NDArray[Kind], size: int) -> NDArray[Kind]:
    """The same with room for more."""
    longer = np.empty(size, dtype=cells.dtype)
    longer[: len(cells)] = cells
    return longer
