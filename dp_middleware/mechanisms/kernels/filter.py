"""Which tokens may be the nearest to a point: scores of a matrix product, and how far they err.

For a point w and a token's point v, <w, v> - ||v||^2 / 2 is largest where the distance is
smallest. Scores have few digits, so whatever lies within a margin of the best one stays: the
nearest token always does, and float64 differences decide among them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.mechanisms.kernels.noise import UNIT

Pairs = tuple[Ids, Ids]

NOBODY = -1
"""No token, or no column."""

_LARGEST_SCALE = 2.0**32  # so that points far from tiny vectors do not overflow
_FOLDS = 16  # columns compared as one: their largest score first


@dataclass(frozen=True)
class Frame:
    """Holds a scale, and the distinct points of a space.

    Attributes:
        scale: A power of two that brings points to length at most 1; 2^32 at most, so very short
            ones are all candidates.
        first: int64 (m,), ascending: the first token of each group of equal points. They are the
            columns of a table.
        second: int64 (m,): the next one of the group, or -1.
        group: int64 (V,): the column of each token.
    """

    scale: float
    first: Ids
    second: Ids
    group: Ids


def frame(space: EmbeddingSpace) -> Frame:
    """Makes the frame of a space, once per process."""

    def compute() -> Frame:
        longest = space.radius
        scale = min(2.0 ** -math.frexp(longest)[1], _LARGEST_SCALE) if longest > 0 else 1.0
        groups: dict[bytes, int] = {}  # a zero has two signs, hence + 0.0
        numbers = [groups.setdefault((v + 0.0).tobytes(), len(groups)) for v in space.points]
        first, second = (np.full(len(groups), NOBODY) for _ in range(2))
        for token, column in enumerate(numbers):
            if first[column] == NOBODY:
                first[column] = token
            elif second[column] == NOBODY:
                second[column] = token
        return Frame(scale, first, second, np.array(numbers))

    return space.derived("nearest-frame", compute)


class Filter(ABC):
    """Scores the distinct vectors of a space in one precision.

    Attributes:
        unit: Largest relative error of one operation.
    """

    unit: ClassVar[float]

    def __init__(self, space: EmbeddingSpace) -> None:
        known = frame(space)
        columns = space.points[known.first] * known.scale
        halves = 0.5 * np.einsum("md,md->m", columns, columns)
        self._space, self._scale, self._size = space, known.scale, len(columns)
        self._table: Any = self._placed(np.vstack([columns.T, -halves]))

    @abstractmethod
    def _placed(self, table: Floats) -> Any:
        """The table (d + 1, m) where products are made."""

    @abstractmethod
    def _near(self, moved: Floats, margin: Floats, barred: Ids) -> Pairs:
        """Rows, ascending, and columns of all scores within the margin of their row's best.

        ``moved`` float64 (n, d + 1) are points, scaled and brought to length at most 1, with a last
        coordinate for the lengths of tokens; ``barred`` is a column of each row without a score, or
        -1.
        """

    def survivors(self, points: Floats, barred: Ids) -> Pairs:
        """Gives pairs of row and column, rows ascending: with the nearest column of each row.

        A row may be missing: nothing was found out about it. A sum of d + 1 products is off by
        (d + 4) units of l + 1/2, in any order, for a scaled point of length l. The float64
        squares that decide are off by (ceil(log2 d) + 3) UNIT (l + 1)^2; twice that is added.
        """
        queries, dimensions = points * self._scale, points.shape[1]
        lengths = np.sqrt(np.einsum("nd,nd->n", queries, queries))
        shrink = np.ldexp(1.0, -np.maximum(np.frexp(lengths)[1], 0))  # no overflow of float32
        margin = 4 * (dimensions + 8) * self.unit * (lengths + 1)
        margin += 4 * (math.ceil(math.log2(dimensions)) + 4) * UNIT * (lengths + 1) ** 2
        margin = margin * shrink + 2.0**-90  # and what underflows
        moved = np.column_stack([queries, np.ones(len(queries))]) * shrink[:, None]
        return self._near(moved, margin, barred)


class Single(Filter):
    """Uses float32 on the host: NumPy's, as torch's may have fewer digits by a setting."""

    unit = 2.0**-24

    def _placed(self, table: Floats) -> NDArray[np.float32]:
        placed = np.zeros((len(table), -(-self._size // _FOLDS) * _FOLDS), dtype=np.float32)
        placed[:, : self._size] = table
        return placed

    def _near(self, moved: Floats, margin: Floats, barred: Ids) -> Pairs:
        scores = moved.astype(np.float32) @ self._table
        scores[:, self._size :] = -np.inf
        held = np.flatnonzero(barred != NOBODY)
        scores[held, barred[held]] = -np.inf
        folds = scores.reshape(len(scores), _FOLDS, -1)  # the same memory
        peaks = folds.max(axis=1)  # few of them reach the limit
        least = peaks.max(axis=1) - np.float32(margin)
        width, size = folds.shape[2], scores.shape[1]
        rows, cells = np.divmod(np.flatnonzero(peaks >= least[:, None]), width)
        places = (rows * size + cells)[:, None] + np.arange(0, size, width)
        near = scores.reshape(-1)[places] >= least[rows, None]
        found, columns = np.divmod(places[near], size)
        return found, columns


class Double(Filter):
    """Uses float64 on the space's device, whose float32 may be less exact (TF32), by a setting.

    Points come from the host, at less than the speed of such a product.
    """

    unit = UNIT

    def _placed(self, table: Floats) -> torch.Tensor:
        return self._space.on_device(table)

    def _near(self, moved: Floats, margin: Floats, barred: Ids) -> Pairs:
        scores = self._space.on_device(moved) @ self._table
        held = np.flatnonzero(barred != NOBODY)
        scores[self._space.on_device(held), self._space.on_device(barred[held])] = -torch.inf
        least = scores.amax(dim=1) - self._space.on_device(margin)
        found = torch.nonzero(scores >= least[:, None]).cpu().numpy()
        return found[:, 0], found[:, 1]


def filter_of(space: EmbeddingSpace) -> Filter:
    """Makes the filter for the space's device, once."""
    kind: type[Filter] = Single if space.device.type == "cpu" else Double
    return space.derived(("nearest-filter", kind.__name__), partial(kind, space))
