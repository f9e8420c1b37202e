"""Which tokens may be the nearest to a point: scores of a matrix product, and how far they err.

For a point w and a token's point v, <w, v> - ||v||^2 / 2 is largest where the distance is
smallest. Scores have few digits, so whatever lies within a margin of the best one stays: the
nearest token always does, and float64 differences decide among them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.mechanisms.kernels.frame import NOBODY, frame
from dp_middleware.mechanisms.kernels.noise import UNIT

Pairs = tuple[Ids, Ids]

_FOLDS = 16  # columns compared as one: their largest score first
_PARTS = 3  # of half a squared length, 8 bits each
_SINGLE = 2.0**-24  # largest relative error of one float32 operation
_NONE = 2**15 - 1  # no number of 16 bits is as large
_EIGHT_BITS = 2.0**-8  # largest relative error of rounding to bfloat16


class Filter(ABC):
    """Scores of one precision for the distinct vectors of a space.

    Args:
        space: V tokens with vectors.

    Attributes:
        many: Columns left for a point beyond which a finer filter pays.
    """

    many: ClassVar[float] = math.inf

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
        scores = _single(queries, shrink, 1) @ self._table
        scores[:, self._size :] = -np.inf
        held = np.flatnonzero(barred != NOBODY)
        scores[held, barred[held]] = -np.inf
        folds = _folds(scores)
        peaks = folds.max(axis=1)
        return _at_least(folds, peaks, peaks.max(axis=1) - np.float32(margin))


class Brief(Filter):
    """bfloat16 on the host, several times as fast where the processor multiplies matrices of it.

    Positive numbers of this type are ordered as the integers of the same bits, so all is
    compared as int16. Half the largest squared length is added to all scores: as the points are
    nearly about their mean, the best score of a row is hardly ever negative then. A row whose
    limit is not positive is left out.
    """

    many: ClassVar[float] = 16

    def _prepare(self, columns: Floats, halves: Floats, space: EmbeddingSpace) -> None:
        self._size, dimensions = columns.shape
        table = torch.zeros(dimensions + _PARTS, _padded(self._size), dtype=torch.bfloat16)
        table[:dimensions, : self._size] = torch.from_numpy(columns.T)
        kept = table[:dimensions, : self._size].double().numpy().T
        self._lost = float(np.linalg.norm(columns - kept, axis=1).max())
        self._longest = float(np.sqrt(2 * halves.max()))
        left = torch.from_numpy(halves.max() - halves)
        for part in range(dimensions, dimensions + _PARTS):
            table[part, : self._size] = left
            left = left - table[part, : self._size].double()
        self._table = table

    def _margin(self, lengths: Floats, dimensions: int) -> Floats:
        """Of what rounding takes from tokens, by the inequality of Cauchy and Schwarz.

        The tokens lose what was measured, half squares keep 24 bits. Products of two 8 bits are
        exact, and float32 sums of d + 3 of them off by 2^-23 each (so much if digits are cut off)
        of l + 1. What the points lose and that the result has 8 bits is up to :meth:`_near`.
        """
        return 2.05 * self._lost * lengths + 4 * (dimensions + 12) * 2 * _SINGLE * (lengths + 1)

    def _near(self, queries: Floats, shrink: Floats, margin: Floats, barred: Ids) -> Pairs:
        exact = _single(queries, shrink, _PARTS)
        points = torch.from_numpy(exact).to(torch.bfloat16)
        exact -= points.float().numpy()
        margin = margin + 2.05 * self._longest * np.linalg.norm(exact, axis=1)
        product = torch.empty(len(points), self._table.shape[1], dtype=torch.bfloat16)
        torch.mm(points, self._table, out=product)  # so autocasting cannot change its type
        scores = product.view(torch.int16).numpy()
        lowest = np.int16(-1)  # below all that is positive
        scores[:, self._size :] = lowest
        held = np.flatnonzero(barred != NOBODY)
        scores[held, barred[held]] = lowest
        folds = _folds(scores)
        peaks = folds.max(axis=1)
        best = (peaks.max(axis=1).astype(np.int32) << 16).view(np.float32)
        # the best score and another's rounding, each at most 2^-8 of the best
        least = np.float32(best * (1 - 2.01 * _EIGHT_BITS) - margin)
        limit = np.where(least > 0, least.view(np.int32) >> 16, _NONE).astype(np.int16)
        return _at_least(folds, peaks, limit)


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


def filters(space: EmbeddingSpace) -> Iterator[Filter]:
    """For the space's device, from coarse to fine; each is made where it is first needed."""
    kinds: tuple[type[Filter], ...] = (Double,)
    if space.device.type == "cpu":
        kinds = (Brief, Single) if multiplies_bfloat16() else (Single,)
    for kind in kinds:
        yield space.derived(("nearest-filter", kind.__name__), partial(kind, space))


def multiplies_bfloat16() -> bool:
    """Whether this processor multiplies matrices of bfloat16 (AMX), adding in float32."""
    known: Any = getattr(torch.cpu, "get_capabilities", dict)()  # not there in older releases
    return bool(known.get("amx_bf16", False)) and bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]


def _padded(size: int) -> int:
    return -(-size // _FOLDS) * _FOLDS


def _single(queries: Floats, shrink: Floats, ones: int) -> NDArray[np.float32]:
    """float32 (n, d + ones): shrunk queries, then that many ones, shrunk too."""
    dimensions = queries.shape[1]
    made = np.empty((len(queries), dimensions + ones), dtype=np.float32)
    np.multiply(queries, shrink[:, None], out=made[:, :dimensions], casting="same_kind")
    made[:, dimensions:] = shrink[:, None]
    return made


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
