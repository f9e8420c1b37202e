"""Memory for rows that is taken when it is first written to, and can be given back in part."""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from contextlib import suppress
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dp_middleware.sampling.tables import UNIT, Places, Words

Kind = TypeVar("Kind", bound=np.generic)

_PRIVATE = {}  # on Windows no process shares what has no name
if hasattr(mmap, "MAP_PRIVATE"):
    _PRIVATE["flags"] = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)


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
        OverflowError: No system has.
    """

    def __init__(self, units: int) -> None:
        self._units = units
        self._maps: dict[str, tuple[mmap.mmap, int]] = {}
        self.guide: Places = self._array("guide", np.int32, 1)
        self.lasts: Words = self._array("lasts", np.uint64, UNIT)
        self.outputs: Places = self._array("outputs", np.int32, UNIT)
        self.low: Words = self._array("low", np.uint64, UNIT)

    def __len__(self) -> int:
        return self._units

    @staticmethod
    def unit_bytes(*, sparse: bool, wide: bool) -> int:
        """Bytes of a unit, with ids of outputs, with lower halves."""
        return 4 + UNIT * (8 + 4 * sparse + 8 * wide)

    def give_back(self, first: int, end: int) -> None:
        """Free the pages that lie in these units whole; what was in them is lost."""
        self._free(self._maps, first, end)

    def give_back_unused(self, *, sparse: bool, wide: bool) -> None:
        """Free ids of outputs, unless a row is sparse, and lower halves, unless one is wide."""
        kept = {"guide", "lasts", *["outputs"] * sparse, *["low"] * wide}
        self._free(self._maps.keys() - kept, 0, self._units)

    def _free(self, names: Iterable[str], first: int, end: int) -> None:
        if not hasattr(mmap, "MADV_DONTNEED"):
            return  # all of it goes back with the object
        for pages, size in map(self._maps.__getitem__, names):
            start = -(-first * size // mmap.PAGESIZE) * mmap.PAGESIZE
            length = end * size // mmap.PAGESIZE * mmap.PAGESIZE - start
            if length > 0:
                pages.madvise(mmap.MADV_DONTNEED, start, length)

    def _array(self, name: str, kind: type[Kind], cells: int) -> NDArray[Kind]:
        """Cells of each unit, all of them zero."""
        size = np.dtype(kind).itemsize * cells
        if not self._units:
            return np.empty(0, dtype=kind)
        pages = mmap.mmap(-1, self._units * size, **_PRIVATE)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # of a system without them
                pages.madvise(mmap.MADV_HUGEPAGE)  # as NumPy does; searches jump about
        self._maps[name] = (pages, size)
        return np.frombuffer(pages, dtype=kind)
