"""Where rows of integers stand at every few outputs, so that a draw looks at a few outputs only.

Landmarks decide nothing. They say between which two of them a uniform integer is; the weights of
the outputs there are made anew, and an output is taken if the integer is further from both of its
ends than all of this can be wrong. Else the whole row decides: the draw is the same.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from dp_middleware import _files
from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Floats, Ids, slices
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.mechanisms.base import Mechanism, ScoredMechanism, is_kept, key_on_disk, writing
from dp_middleware.mechanisms.kernels.radius import SMALL
from dp_middleware.mechanisms.rantext import RanText
from dp_middleware.sampling.entropy import Words
from dp_middleware.sampling.integers import IntegerRows, integer_rows
from dp_middleware.vocabulary.vocabulary import UNKNOWN

Landmarked = ScoredMechanism | RanText
FINEST = 32  # outputs between two landmarks, or a power of two times as many
MOST = 1e8  # bytes of landmarks up to which they are written unasked
_HELD = 1 << 29  # bytes of all landmarks that were not asked for
_TOGETHER = 1 << 12  # draws at a time
_END = 2.0**32  # of a row, in units of a landmark
_MARGIN = 1e-9  # of what is between two landmarks: a hundred times what exponentials are off by
_ROUNDED = 2.0**-48  # of an offset: what differences of large scores are off by


@dataclass(frozen=True, eq=False)
class Landmarks:
    """Holds those of a mechanism's V rows on a space, on the host. Public, read-only.

    Of each row, ``starts`` uint32 (m,) are the upper 32 bits of the first integer of every
    ``block``-th output, ``offset`` is what makes a score ln P, and ``curve`` float32 (K,) are the
    scores at the points of the grid, a function of the row; none where it is public.
    """

    mechanism: Landmarked
    space: EmbeddingSpace
    rows: NDArray[Any]  # records (V,)
    grid: Floats  # (K,), ascending from 0
    block: int  # outputs between two landmarks
    slack: float  # nats by which curves may be off

    def __len__(self) -> int:
        return len(self.space)

    def locate(self, ids: Ids, uniform: Words) -> tuple[NDArray[np.bool_], Ids]:
        """Tells which places are decided, and the outputs there, by upper halves of integers."""
        decided, outputs = np.empty(len(ids), dtype=np.bool_), np.empty(len(ids), dtype=np.int64)
        for part in slices(len(ids), _TOGETHER):
            decided[part], outputs[part] = self._some(ids[part], uniform[part])
        return decided, outputs[decided]

    def _some(self, ids: Ids, uniform: Words) -> tuple[NDArray[np.bool_], Ids]:
        starts, places = self.rows["starts"][ids], np.arange(len(ids))
        words = (uniform >> np.uint64(32)).astype(np.uint32)
        blocks = (starts <= words[:, None]).sum(axis=1) - 1
        first = starts[places, blocks] / _END
        is_last = blocks + 1 == starts.shape[1]
        end = np.where(is_last, _END, starts[places, blocks + 1 - is_last]) / _END
        outputs = blocks * self.block
        offsets = self.rows["offset"][ids]
        sums = np.exp(self.scores(ids, outputs, self.block) + offsets[:, None])
        np.cumsum(sums, axis=1, out=sums)
        wanted = uniform * 2.0**-64 - first
        margin = _MARGIN + self.slack + _ROUNDED * np.abs(offsets)
        margin = 2 / _END + margin * (end - first)
        nearest = np.abs(sums - wanted[:, None]).min(axis=1)
        clear = margin + 2 / _END  # what the check below may let pass counts, too
        decided = (np.minimum(wanted, nearest) > clear) & (wanted < sums[:, -1])
        decided &= np.abs(sums[:, -1] - (end - first)) < margin
        return decided, outputs + (sums < wanted[:, None]).sum(axis=1)

    def scores(self, ids: Ids, firsts: Ids, width: int) -> Floats:
        """Computes scores of outputs from ``firsts`` on, float64 (n, width); -inf behind V."""
        inside = firsts[:, None] + np.arange(width) < len(self)
        scores = self._products(ids, firsts, width)
        if isinstance(self.mechanism, ScoredMechanism):
            scores = self.mechanism.scores(torch.from_numpy(scores), self.space).numpy()
        else:  # on curves, linear between the points of the grid
            cells = np.searchsorted(self.grid, scores, side="right") - 1
            cells = np.clip(cells, 0, len(self.grid) - 2)
            curves = self.rows["curve"]
            low, high = (curves[ids[:, None], cells + k].astype(np.float64) for k in (0, 1))
            shares = (scores - self.grid[cells]) / (self.grid[cells + 1] - self.grid[cells])
            scores = low + shares * (high - low)
        return np.where(inside, scores, -np.inf)

    def _products(self, ids: Ids, firsts: Ids, width: int) -> Floats:
        """Distances or cosines, exact; each vector passes through the processor once."""
        space = self.space
        by_distance = isinstance(self.mechanism, RanText) or self.mechanism.product == "distance"
        vectors = space.points if by_distance else space.unit.numpy()
        made, order = np.zeros((len(ids), width)), np.argsort(firsts, kind="stable")
        rows, dots = vectors[ids[order]], np.zeros_like(made)
        blocks, starts = np.unique(firsts[order], return_index=True)
        spans = pairwise([*starts.tolist(), len(ids)])
        for first, (start, end) in zip(blocks.tolist(), spans, strict=True):
            block = vectors[first : first + width]
            np.matmul(rows[start:end], block.T, out=dots[start:end, : len(block)])
        made[order] = dots
        if not by_distance:
            return np.clip(made, -1.0, 1.0, out=made)
        made *= -2.0
        made += space.squares[ids, None]
        made += space.squares.take(firsts[:, None] + np.arange(width), mode="clip")
        return np.sqrt(np.maximum(made, 0.0, out=made), out=made)

    def store(self, path: Path) -> None:
        """Writes a file that ends with its digest, whole or not at all; or OSError."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with _files.unfinished(path) as file:
            for array in (self.rows, self.grid, np.array([self.block, self.slack])):
                np.save(file, array)
            file.flush()
            with Path(file.name).open("rb") as written:
                file.write(hashlib.file_digest(written, "sha256").digest())


def load(mechanism: Landmarked, space: EmbeddingSpace, path: Path) -> Landmarks | None:
    """Maps a stored file into memory; ``None`` if it is absent or a byte is not as written."""
    try:
        with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            with memoryview(data) as whole:
                if hashlib.sha256(whole[:-32]).digest() != whole[-32:]:
                    return None
            mapped = np.load(path, mmap_mode="r")
            file.seek(mapped.offset + mapped.nbytes)
            grid, (block, slack) = np.load(file), np.load(file)
    except (OSError, ValueError):  # an empty file cannot be mapped
        return None
    rows = mapped.view(np.ndarray)  # without Python code that runs at every index
    return Landmarks(mechanism, space, rows, grid, int(block), float(slack))


class Survey:
    """Makes a channel's landmarks in a pass over its rows, with little room one a row at least."""

    def __init__(self, mechanism: Landmarked, space: EmbeddingSpace) -> None:
        self._mechanism, self._space, size = mechanism, space, len(space)
        self._block = FINEST
        while self._block < size and 4 * size * -(-size // self._block) > MOST:
            self._block *= 2
        self._starts = np.empty((size, -(-size // self._block)), dtype=np.uint32)
        self._largest = np.empty(size)  # ln of the largest probability
        self._top = np.empty(size, dtype=np.int64)  # where that is
        self._points, self._curves = np.empty(0), np.empty((size, 0), dtype=np.float32)
        self._met = np.empty(0, dtype=np.bool_)

    def take(self, ids: Ids, integers: IntegerRows) -> None:
        """Takes in rows of tokens; that of the unknown symbol has no landmarks."""
        known = np.flatnonzero(ids != UNKNOWN)
        weights, units = (each.numpy()[known] for each in (integers.weights, integers.units))
        firsts, numbers = np.arange(0, weights.shape[1], self._block), ids[known]
        sums = np.add.reduceat(weights, firsts, axis=1).cumsum(axis=1) * (units * _END)
        self._starts[numbers, 0] = 0
        self._starts[numbers, 1:] = np.minimum(sums[:, :-1], _END - 1)
        self._top[numbers] = weights.argmax(axis=1)
        self._largest[numbers] = np.log(weights.max(axis=1) * units[:, 0])

    def log_rows(self, ids: Ids, space: EmbeddingSpace) -> torch.Tensor:
        """Computes those of the mechanism; notes what they are functions of."""
        if not isinstance(self._mechanism, RanText):
            return self._mechanism.log_rows(ids, space)
        rows, curves = self._mechanism.rows_and_curves(ids, space)
        if curves is not None:
            if not len(self._points):
                self._points, self._met = curves.points, np.arange(len(curves.points)) < 1
                self._curves = np.empty((len(space), len(self._points)), dtype=np.float32)
            self._met |= curves.met.numpy()
            self._curves[ids] = (curves.values - curves.values[:, :1]).numpy()
        return rows

    def landmarks(self) -> Landmarks:
        """Makes those of all rows; of curves at 0, and between points that distances have met."""
        met = np.flatnonzero(self._met).tolist()
        columns = [0, *range(met[1], met[-1] + 1)] if len(met) > 1 else [0, 1][: 2 * len(met)]
        grid, curves = self._points[columns], self._curves[:, columns]
        starts, block = self._starts, self._block
        while starts.shape[1] > 1 and 4 * starts.size + curves.nbytes > MOST:
            starts, block = starts[:, ::2], 2 * block
        kinds = [("offset", "<f8"), ("starts", "<u4", starts.shape[1:])]
        rows = np.zeros(len(curves), dtype=[*kinds, ("curve", "<f4", (len(grid),))])
        rows["starts"], rows["curve"] = starts, curves
        slack = 2.0**-22 * float(np.abs(curves).max(initial=0.0))  # of two numbers of 24 bits
        made = Landmarks(self._mechanism, self._space, rows, grid, block, slack)
        scores = made.scores(np.arange(len(rows)), self._top, 1)
        rows["offset"] = self._largest - scores[:, 0]
        return made

    def keep(self) -> None:
        """Writes them unasked, if they are not large and there is a folder."""
        made, (_, path) = self.landmarks(), _paths(self._mechanism, self._space)
        if made.rows.nbytes <= MOST:
            with suppress(OSError):
                made.store(path)
                _files.forget_oldest(path.parent, _HELD)


def opened(mechanism: Mechanism, space: EmbeddingSpace) -> Landmarks | None:
    """Opens the landmarks that are on disk, if any are."""
    if not _can_be(mechanism, space):
        return None
    for path in _paths(mechanism, space):
        if (found := load(mechanism, space, path)) is not None:
            with suppress(OSError):
                os.utime(path)  # what is used last is forgotten last
            return found
    return None


def survey(mechanism: Mechanism, space: EmbeddingSpace) -> Survey | None:
    """Prepares landmarks to be made beside something else; ``None``: some exist, or none can."""
    if not _can_be(mechanism, space) or opened(mechanism, space) is not None:
        return None
    return Survey(mechanism, space)


def keep(mechanism: Mechanism, space: EmbeddingSpace) -> Path | None:
    """Keeps landmarks in a file for good, if there can be any; ParameterError: it has no room."""
    if not _can_be(mechanism, space):
        return None
    path, unasked = _paths(mechanism, space)
    if load(mechanism, space, path) is not None:
        return path
    made = load(mechanism, space, unasked)
    if made is None:
        survey = Survey(mechanism, space)
        for ids in np.array_split(np.arange(len(space)), -(-len(space) // space.block)):
            survey.take(ids, integer_rows(survey.log_rows(ids, space)))
        made = survey.landmarks()
    with writing(path):
        made.store(path)
        unasked.unlink(missing_ok=True)
    return path


def _can_be(mechanism: Mechanism, space: EmbeddingSpace) -> TypeGuard[Landmarked]:
    """Of code that is part of the key, where rows take long, on the host."""
    if not isinstance(mechanism, Landmarked) or not is_kept(mechanism, space):
        return False
    without_curves = isinstance(mechanism, RanText) and len(space) <= SMALL
    return space.device.type == "cpu" and not without_curves


def _paths(mechanism: Landmarked, space: EmbeddingSpace) -> tuple[Path, Path]:
    """Of those that were asked for, and of others."""
    path = partial(_files.cache_path, suffix=".npy")
    key = key_on_disk(mechanism, space)
    return path("prepared", *key), path("landmarks", *key)
