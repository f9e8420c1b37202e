"""Many rows of integers in flat arrays: a whole batch of draws is one search.

The arrays are cut into units of a few cells. A row has the last integers of its outputs in its
cells of ``lasts``, and in its units of ``guide`` how they are found: the first bits of an integer
name a bucket of the row, the guide says at which outputs the bucket starts and ends, and a
bisection does the rest. What is found is what :meth:`Table.locate` finds, but for integers of 128
bits where the upper half is not enough; there the table decides.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dp_middleware._tables import Ids, Words

Places = NDArray[np.int32]

ABSENT = -1
UNIT = 4  # cells of outputs for a cell of the guide: four to eight outputs share a bucket

_UPPER = np.uint64(32)  # bits that name no bucket


def units_of(outputs: int) -> int:
    """How many units a row with so many outputs takes."""
    return max(-(-outputs // UNIT), _buckets(outputs) + 2)


def _buckets(outputs: int) -> int:
    return 1 << max(0, (outputs // UNIT).bit_length() - 1)


def write_guide(guide: Places, lasts: Words) -> None:
    """A shift; for each bucket the first output that may own an integer in it; the last output.

    Args:
        guide: int32 (units,), written to.
        lasts: uint64 (m,), of the row.
    """
    buckets = _buckets(len(lasts))
    shift = 33 - buckets.bit_length()
    named = (lasts >> _UPPER >> np.uint64(shift)).astype(np.int64)
    guide[0], guide[1] = shift, 0
    np.cumsum(np.bincount(named, minlength=buckets), out=guide[2 : buckets + 2])
    guide[buckets + 1] = len(lasts) - 1


def search(guide: Places, lasts: Words, units: Ids, uniform: Words) -> Ids:
    """The first cell of each row that is no less than the integer.

    Args:
        guide: int32 (U,).
        lasts: uint64 (U * UNIT,).
        units: int64 (n,), the first of each row.
        uniform: uint64 (n,): the upper 64 bits of a uniform integer each.
    """
    shifts = guide[units].astype(np.uint32)
    buckets = ((uniform >> _UPPER).astype(np.uint32) >> shifts) + (units + 1)
    firsts = units * UNIT
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


class Numbers:
    """A number for some ids of -1 or more, looked up for many at once.

    Args:
        size: Ids below it have a place at once.
    """

    def __init__(self, size: int = 0) -> None:
        self._table: Ids = np.full(size + 2, ABSENT, dtype=np.int64)  # id i at i + 1; none at last

    def of(self, ids: Ids) -> Ids:
        """The numbers, int64 (n,); :data:`ABSENT` for an id without one."""
        found: Ids = self._table.take(ids + 1, mode="clip")
        return found

    def set(self, number_of: int, number: int) -> None:
        """Give an id a number."""
        if number_of + 3 > len(self._table):
            longer = np.full(max(number_of + 3, 2 * len(self._table)), ABSENT, dtype=np.int64)
            longer[: len(self._table)] = self._table
            self._table = longer
        self._table[number_of + 1] = number

    def set_all(self, ids: Ids, numbers: Ids) -> None:
        """The same for ids below ``size``."""
        self._table[ids + 1] = numbers
