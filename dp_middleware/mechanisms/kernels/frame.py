"""How scores of points and tokens are computed: at which scale, and equal ones as one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import EmbeddingSpace

NOBODY = -1
"""No token, or no column."""

_LARGEST_SCALE = 2.0**32  # so that points far from tiny vectors do not overflow


@dataclass(frozen=True)
class Frame:
    """A scale, and the distinct points of a space.

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
    """The frame of a space, computed once per process."""
    return space.derived("nearest-frame", lambda: _framed(space.points, space.radius))


def _framed(points: Floats, longest: float) -> Frame:
    scale = min(2.0 ** -math.frexp(longest)[1], _LARGEST_SCALE) if longest > 0 else 1.0
    groups: dict[bytes, int] = {}
    group = np.array([groups.setdefault((v + 0.0).tobytes(), len(groups)) for v in points])
    first, second = (np.full(len(groups), NOBODY) for _ in range(2))
    for token, column in enumerate(group):  # a zero has two signs, hence + 0.0
        if first[column] == NOBODY:
            first[column] = token
        elif second[column] == NOBODY:
            second[column] = token
    return Frame(scale, first, second, group)
