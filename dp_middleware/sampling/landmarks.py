"""Where rows of integers stand at every few outputs, so that a draw looks at a few outputs only.

Landmarks decide nothing. They say between which two of them a uniform integer is; the weights of
the outputs there are made anew, in float64, and an output is taken if the integer is further from
both of its ends than all of this can be wrong. Else, and where the weights do not add up to what is
between the landmarks, the whole row decides: an output drawn here is the one that the row's table
(``tables.py``) has for the same integer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib.format import read_array_header_1_0, read_magic
from numpy.typing import NDArray

from dp_middleware import _files
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.sampling.entropy import Words

Scores = Callable[[Ids, Ids, int], Floats]

FINEST = 32
"""Outputs between two landmarks, or a power of two times as many."""

_TOGETHER = 1 << 12  # draws at a time
_END = 2.0**32  # of a row, in units of a landmark
_MARGIN = 1e-9  # of what is between two landmarks: a hundred times what exponentials are off by
_ROUNDED = 2.0**-48  # of an offset: what differences of large scores are off by
_DIGEST = 32  # bytes


@dataclass(frozen=True, eq=False, kw_only=True)
class Landmarks:
    """Holds those of V rows with V outputs each. Public, read-only.

    Attributes:
        rows: Records (V,). ``starts`` uint32 (m,): the upper 32 bits of the first integer of every
            ``block``-th output. ``offset`` float64: what makes a score ln P. ``curve`` float32
            (K,): scores at the points of ``grid``, a function of the row; none where it is public.
        grid: float64 (K,), ascending from 0.
        block: Outputs between two landmarks.
        slack: Nats by which curves may be off.
    """

    rows: NDArray[Any]
    grid: Floats
    block: int
    slack: float

    def locate(self, ids: Ids, uniform: Words, scores: Scores) -> tuple[NDArray[np.bool_], Ids]:
        """Tells which places are decided, and the outputs there.

        ``ids`` int64 (n,) are at least 0; ``uniform`` uint64 (n,) are the upper 64 bits of a
        uniform integer each; ``scores`` computes, from ids (n,), first outputs (n,) and a number of
        outputs, float64 (n, number), -inf behind the last output.
        """
        decided, outputs = np.empty(len(ids), dtype=np.bool_), np.empty(len(ids), dtype=np.int64)
        for start in range(0, len(ids), _TOGETHER):
            part = slice(start, start + _TOGETHER)
            decided[part], outputs[part] = self._some(ids[part], uniform[part], scores)
        return decided, outputs[decided]

    def _some(self, ids: Ids, uniform: Words, scores: Scores) -> tuple[NDArray[np.bool_], Ids]:
        starts, places = self.rows["starts"][ids], np.arange(len(ids))
        words = (uniform >> np.uint64(32)).astype(np.uint32)
        blocks = (starts <= words[:, None]).sum(axis=1) - 1
        first = starts[places, blocks] / _END
        is_last = blocks + 1 == starts.shape[1]
        end = np.where(is_last, _END, starts[places, blocks + 1 - is_last]) / _END
        outputs = blocks * self.block
        offsets = self.rows["offset"][ids]
        sums = np.exp(scores(ids, outputs, self.block) + offsets[:, None])
        np.cumsum(sums, axis=1, out=sums)
        wanted = uniform * 2.0**-64 - first
        margin = _MARGIN + self.slack + _ROUNDED * np.abs(offsets)
        margin = 2 / _END + margin * (end - first)
        nearest = np.abs(sums - wanted[:, None]).min(axis=1)
        clear = margin + 2 / _END  # what the check below may let pass counts, too
        decided = (np.minimum(wanted, nearest) > clear) & (wanted < sums[:, -1])
        decided &= np.abs(sums[:, -1] - (end - first)) < margin
        return decided, outputs + (sums < wanted[:, None]).sum(axis=1)

    def on_curves(self, ids: Ids, places: Floats) -> Floats:
        """Computes scores of outputs, float64 (n, c), by their places on the grid; linear."""
        cells = np.searchsorted(self.grid, places, side="right") - 1
        cells = np.clip(cells, 0, len(self.grid) - 2)
        curves = self.rows["curve"]
        low, high = (curves[ids[:, None], cells + k].astype(np.float64) for k in (0, 1))
        shares = (places - self.grid[cells]) / (self.grid[cells + 1] - self.grid[cells])
        scores: Floats = low + shares * (high - low)
        return scores


class Surveyor:
    """Takes in V rows, and makes landmarks of all of them, in at most so many bytes.

    With little room there are fewer landmarks, but one a row at least.
    """

    def __init__(self, size: int, most: float) -> None:
        self.block, self._most = FINEST, most
        while self.block < size and 4 * size * -(-size // self.block) > most:
            self.block *= 2
        self._starts = np.empty((size, -(-size // self.block)), dtype=np.uint32)

    def take(self, ids: Ids, integers: Floats, units: Floats) -> None:
        """Notes where the outputs of some rows, int64 (n,), begin.

        ``integers`` are float64 (n, V), ``units`` (n, 1), as in
        :class:`~dp_middleware.sampling.integers.IntegerRows`.
        """
        firsts = np.arange(0, integers.shape[1], self.block)
        sums = np.add.reduceat(integers, firsts, axis=1).cumsum(axis=1) * (units * _END)
        self._starts[ids, 0] = 0
        self._starts[ids, 1:] = np.minimum(sums[:, :-1], _END - 1)

    def landmarks(self, grid: Floats, curves: NDArray[np.float32]) -> Landmarks:
        """Makes landmarks of the rows, all of which were taken in; their offsets are 0."""
        starts, block = self._starts, self.block
        while starts.shape[1] > 1 and 4 * starts.size + curves.nbytes > self._most:
            starts, block = starts[:, ::2], 2 * block
        kinds = [("offset", "<f8"), ("starts", "<u4", starts.shape[1:])]
        rows = np.zeros(len(curves), dtype=[*kinds, ("curve", "<f4", (len(grid),))])
        rows["starts"], rows["curve"] = starts, curves
        slack = 2.0**-22 * float(np.abs(curves).max(initial=0.0))  # of two numbers of 24 bits
        return Landmarks(rows=rows, grid=grid, block=block, slack=slack)


def store(landmarks: Landmarks, path: Path) -> None:
    """Writes a file, whole or not at all; OSError: no room, or the folder cannot be written to."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _files.unfinished(path) as file:
        file.write(bytes(_DIGEST))
        for array in ([landmarks.block, landmarks.slack], landmarks.grid, landmarks.rows):
            np.save(file, array)
        file.flush()
        with Path(file.name).open("rb") as written:
            digest = _digest(written)
        file.seek(0)
        file.write(digest)


def load(path: Path) -> Landmarks | None:
    """Maps a stored file into memory; ``None`` if it is absent or a byte is not as written."""
    try:
        with path.open("rb") as file:
            if file.read(_DIGEST) != _digest(file):
                return None
            file.seek(_DIGEST)
            (block, slack), grid = np.load(file), np.load(file)
            read_magic(file)
            shape, _, kind = read_array_header_1_0(file)
            rows = np.memmap(file, dtype=kind, mode="r", offset=file.tell(), shape=shape)
    except OSError:
        return None
    # A plain array has no Python code that runs at every index, as a memory map has.
    return Landmarks(rows=rows.view(np.ndarray), grid=grid, block=int(block), slack=float(slack))


def _digest(file: IO[bytes]) -> bytes:
    """Of all behind the place of the digest. It shows damage, not tampering."""
    file.seek(_DIGEST)
    return hashlib.file_digest(file, "sha256").digest()  # type: ignore[arg-type]
