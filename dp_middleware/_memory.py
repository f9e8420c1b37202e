"""Memory for rows that is taken when it is first written to, and can be given back in part."""

from __future__ import annotations

import mmap
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dp_middleware._search import UNIT, Places
from dp_middleware._tables import Words

Kind = TypeVar("Kind", bound=np.generic)

_PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)


class Memory:
    """Flat arrays for units of rows; see ``_search.py``.

    Args:
        units: How many, at most. Only addresses are taken for them.

    Attributes:
        guide: int32 (units,).
        lasts: uint64 (units * UNIT,): last integers, or their upper halves.
        outputs: int32 (units * UNIT,): ids of outputs.
        low: uint64 (units * UNIT,): lower halves.

    Raises:
        OSError: The system has no such space of addresses.
    """

    def __init__(self, units: int) -> None:
        self._units = units
        self._maps: list[tuple[mmap.mmap, int]] = []
        self.guide: Places = self._array(np.int32, 1)
        self.lasts: Words = self._array(np.uint64, UNIT)
        self.outputs: Places = self._array(np.int32, UNIT)
        self.low: Words = self._array(np.uint64, UNIT)

    def __len__(self) -> int:
        return self._units

    @staticmethod
    def unit_bytes(*, sparse: bool, wide: bool) -> int:
        """Bytes of a unit, with ids of outputs, with lower halves."""
        return 4 + UNIT * (8 + 4 * sparse + 8 * wide)

    def give_back(self, first: int, end: int) -> None:
        """Free the pages that lie in these units whole; what was in them is lost."""
        for pages, size in self._maps:
            start = -(-first * size // mmap.PAGESIZE) * mmap.PAGESIZE
            length = end * size // mmap.PAGESIZE * mmap.PAGESIZE - start
            if length > 0:
                pages.madvise(mmap.MADV_DONTNEED, start, length)

    def _array(self, kind: type[Kind], cells: int) -> NDArray[Kind]:
        """Cells of each unit, all of them zero."""
        size = np.dtype(kind).itemsize * cells
        if not self._units:
            return np.empty(0, dtype=kind)
        pages = mmap.mmap(-1, self._units * size, flags=_PRIVATE)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            pages.madvise(mmap.MADV_HUGEPAGE)  # as NumPy does; searches jump about
        self._maps.append((pages, size))
        return np.frombuffer(pages, dtype=kind)
