"""Which tokens may be the nearest to a point: scores of a matrix product, and how far they err.

For a point w and a token's point v, <w, v> - ||v||^2 / 2 is largest where the distance is
smallest. Scores have few digits, so whatever lies within a margin of the best one stays: the
nearest token always does, and float64 differences decide among them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.mechanisms.kernels.frame import NOBODY, frame
from dp_middleware.mechanisms.kernels.noise import UNIT

Pairs = tuple[Ids, Ids]

_FOLDS = 16  # columns compared as one: their largest score first
_SINGLE = 2.0**-24  # largest relative error of one float32 operation


class Filter(ABC):
    """Scores of one precision for the distinct vectors of a space.

    Args:
        space: V tokens with vectors.
    """

    def __init__(self, space: EmbeddingSpace) -> None:
        self._frame = frame(space)
        columns = space.points[self._frame.first] * self._frame.scale
        self._prepare(columns, 0.5 * np.einsum("md,md->m", columns, columns), space)

    @abstractmethod
    def _prepare(self, columns: Floats, halves: Floats, space: EmbeddingSpace) -> None:
        """Make the table from scaled vectors (m, d) and half their squared lengths (m,)."""

    @abstractmethod
    def _margin(self, lengths: Floats, dimensions: int) -> Floats:
        """At least twice the error of a score, for scaled points of these lengths; (n,)."""

    @abstractmethod
    def _near(self, queries: Floats, shrink: Floats, margin: Floats, barred: Ids) -> Pairs:
        """Rows, ascending, and columns of all scores within the margin of their row's best.

        Args:
            queries: Scaled points, float64 (n, d).
            shrink: Powers of two (n,) that bring them to length at most 1; scores count so.
            margin: (n,), also so.
            barred: A column of each row that has no score, or -1.
        """

    def survivors(self, points: Floats, barred: Ids) -> Pairs:
        """Pairs of row and column, rows ascending: with the nearest column of each row.

        A row may be missing: nothing was found out about it. The float64 squares that decide
        are off by (ceil(log2 d) + 3) UNIT (l + 1)^2 for a scaled point of length l; twice that
        is a part of the margin.
        """
        queries, dimensions = points * self._frame.scale, points.shape[1]
        lengths = np.sqrt(np.einsum("nd,nd->n", queries, queries))
        shrink = np.ldexp(1.0, -np.maximum(np.frexp(lengths)[1], 0))  # no overflow of float32
        margin = self._margin(lengths, dimensions)
        margin += 4 * (math.ceil(math.log2(dimensions)) + 4) * UNIT * (lengths + 1) ** 2
        margin = margin * shrink + 2.0**-90  # and what underflows
        return self._near(queries, shrink, margin, barred)


class Single(Filter):
    """float32 on the host. NumPy's, as those of torch may have fewer digits by a setting."""

    def _prepare(self, columns: Floats, halves: Floats, space: EmbeddingSpace) -> None:
        self._size = len(columns)
        self._table = np.zeros((columns.shape[1] + 1, _padded(self._size)), dtype=np.float32)
        self._table[:-1, : self._size] = columns.T
        self._table[-1, : self._size] = -halves

    def _margin(self, lengths: Floats, dimensions: int) -> Floats:
        """A sum of d + 1 products is off by (d + 4) units of l + 1/2, in any order."""
        return 4 * (dimensions + 8) * _SINGLE * (lengths + 1)

    def _near(self, queries: Floats, shrink: Floats, margin: Floats, barred: Ids) -> Pairs:
        moved = np.empty((len(queries), queries.shape[1] + 1), dtype=np.float32)
        np.multiply(queries, shrink[:, None], out=moved[:, :-1], casting="same_kind")
        moved[:, -1] = shrink
        scores = moved @ self._table
        scores[:, self._size :] = -np.inf
        held = np.flatnonzero(barred != NOBODY)
        scores[held, barred[held]] = -np.inf
        folds = _folds(scores)
        peaks = folds.max(axis=1)
        return _at_least(folds, peaks, peaks.max(axis=1) - np.float32(margin))


class Double(Filter):
    """float64 on the space's device: its float32 may be less exact than that (TF32), by a setting.

    Points come from the host, at less than the speed of such a product.
    """

    def _prepare(self, columns: Floats, halves: Floats, space: EmbeddingSpace) -> None:
        self._space = space
        self._table = space.on_device(np.ascontiguousarray(np.column_stack([columns, -halves]).T))

    def _margin(self, lengths: Floats, dimensions: int) -> Floats:
        """As in float32."""
        return 4 * (dimensions + 8) * UNIT * (lengths + 1)

    def _near(self, queries: Floats, shrink: Floats, margin: Floats, barred: Ids) -> Pairs:
        moved = np.column_stack([queries, np.ones(len(queries))]) * shrink[:, None]
        scores = self._space.on_device(moved) @ self._table
        held = np.flatnonzero(barred != NOBODY)
        places = self._space.on_device(held), self._space.on_device(barred[held])
        scores[places] = -torch.inf
        least = scores.amax(dim=1) - self._space.on_device(margin)
        found = torch.nonzero(scores >= least[:, None]).cpu().numpy()
        return found[:, 0], found[:, 1]


def filter_of(space: EmbeddingSpace) -> Filter:
    """Makes the filter for the space's device, once."""
    kind: type[Filter] = Single if space.device.type == "cpu" else Double
    return space.derived(("nearest-filter", kind.__name__), partial(kind, space))


def _padded(size: int) -> int:
    return -(-size // _FOLDS) * _FOLDS


def _folds(scores: NDArray[Any]) -> NDArray[Any]:
    """(n, _FOLDS, m / _FOLDS), the same memory."""
    return scores.reshape(len(scores), _FOLDS, -1)


def _at_least(folds: NDArray[Any], peaks: NDArray[Any], least: NDArray[Any]) -> Pairs:
    """Rows and columns of the scores that are no less than their row's limit.

    Args:
        folds: Scores (n, folds, width).
        peaks: (n, width), the largest over the folds: few of them reach the limit.
        least: (n,).
    """
    width, size = folds.shape[2], folds.shape[1] * folds.shape[2]
    rows, cells = np.divmod(np.flatnonzero(peaks >= least[:, None]), width)
    places = (rows * size + cells)[:, None] + np.arange(0, size, width)
    near = folds.reshape(-1)[places] >= least[rows, None]
    found, columns = np.divmod(places[near], size)
    return found, columns
