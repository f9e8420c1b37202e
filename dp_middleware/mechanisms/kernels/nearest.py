"""The nearest tokens of points, exactly: products filter, differences of vectors decide.

For a point w and a token's point v, <w, v> - ||v||^2 / 2 is largest where the distance is smallest.
Scores have few digits, so whatever lies within a margin of the best one stays. And tokens near to
noisy points, which is all that the noise mechanisms do.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dp_middleware.embedding.arrays import Floats, Ids, slices
from dp_middleware.embedding.grid import folded, unit_rows
from dp_middleware.embedding.space import EmbeddingSpace, once
from dp_middleware.mechanisms.kernels.noise import UNIT, random_vectors, snapped, spacing
from dp_middleware.sampling.sampler import Entropy

BLOCK = 512  # points of one matrix product
_SCORES = 1 << 24  # scores held at a time
_COORDINATES = 1 << 14  # of noise made at a time: they stay in a processor's cache
_PAIRED = 1 << 16  # coordinates of differences held at a time
_LARGEST_SCALE = 2.0**32  # so that points far from tiny vectors do not overflow
_SINGLE = 2.0**-24  # largest relative error of one float32 operation

Nearness = Literal["distance", "cosine"]
NEARNESSES: tuple[str, ...] = get_args(Nearness)

NOBODY = -1  # no token


def release(
    centres: Floats,
    space: EmbeddingSpace,
    eta: float,
    entropy: Entropy,
    nearness: Nearness = "distance",
) -> Ids:
    """Draws tokens near to centres (n, d) plus noise of density exp(-eta ||z||), int64 (n,)."""
    tokens = np.empty(len(centres), dtype=np.int64)
    for part in slices(len(centres), _rows(space)):
        tokens[part] = nearest(space, noisy(centres[part], eta, entropy), nearness=nearness)
    return tokens


def noisy(centres: Floats, eta: float, entropy: Entropy) -> Floats:
    """Adds noise to centres and snaps them; float64 (n, d)."""
    count, dimensions = centres.shape
    step, points = spacing(eta, dimensions), np.empty_like(centres)
    for part in slices(count, max(1, _COORDINATES // dimensions)):
        noise = random_vectors(len(centres[part]), dimensions, eta, entropy)
        noise += centres[part]
        points[part] = snapped(noise, step)
    return points


def nearest(
    space: EmbeddingSpace,
    points: Floats,
    excluded: Ids | None = None,
    nearness: Nearness = "distance",
) -> Ids:
    """Finds the token nearest to each point, ties to the smallest id; int64 (n,).

    Points, float64 (n, d), are about the centre as the space's are. The ``"distance"`` is the
    float64 sum of squared differences, added in a fixed order: other points do not matter. The
    largest ``"cosine"`` is that of vectors as they are, 0 of a zero one; equal ones are one, and
    rounding may choose another of two that are equal to the last digits. ``excluded`` int64 (n,) is
    a token per point that is not an answer; V > 1.
    """
    found = np.empty(len(points), dtype=np.int64)
    for part in slices(len(points), _rows(space)):
        left_out = None if excluded is None else excluded[part]
        if nearness == "cosine":
            found[part] = _most_alike(space, points[part], left_out)
        else:
            found[part] = _decided(space, points[part], *_near(space, points[part], left_out))
    return found


def _rows(space: EmbeddingSpace) -> int:
    """Points searched at a time."""
    return max(1, min(BLOCK, _SCORES // len(space)))


@once
def _equals(space: EmbeddingSpace) -> tuple[Ids, Ids]:
    """The first token of the point of each token, and the next one or :data:`NOBODY`; (V,)."""
    groups: dict[bytes, list[int]] = {}
    for token, point in enumerate(space.points + 0.0):  # a zero has two signs
        groups.setdefault(point.tobytes(), []).append(token)
    two = np.full((len(space), 2), NOBODY)
    for tokens in groups.values():
        two[tokens, : len(tokens)] = tokens[:2]
    return two[:, 0], two[:, 1]


@once
def _units(space: EmbeddingSpace) -> Floats:
    return unit_rows(space.vectors)


def _most_alike(space: EmbeddingSpace, points: Floats, excluded: Ids | None) -> Ids:
    """Of each point the token of the largest cosine, of equal ones the first that may be."""
    cosines = (points + (space.vectors[0] - space.points[0])) @ _units(space).T
    if excluded is not None:
        cosines[np.arange(len(points)), excluded] = -np.inf
    best, (first, second) = cosines.argmax(axis=1), _equals(space)
    left = NOBODY if excluded is None else excluded
    return np.asarray(np.where(first[best] == left, second[best], first[best]))


def _near(space: EmbeddingSpace, points: Floats, excluded: Ids | None) -> tuple[Ids, Ids]:
    """Pairs of row and token, rows ascending: with the nearest token of each row.

    A sum of d + 1 products is off by (d + 4) units of l + 1/2 for a scaled point of length l, the
    float64 squares that decide by (ceil(log2 d) + 3) UNIT (l + 1)^2; twice that is added.
    """
    scale, table = _table(space)
    queries, dimensions = points * scale, points.shape[1]
    lengths = np.sqrt(np.einsum("nd,nd->n", queries, queries))
    shrink = np.ldexp(1.0, -np.maximum(np.frexp(lengths)[1], 0))  # no overflow of float32
    margin = 4 * (dimensions + 8) * _SINGLE * (lengths + 1)
    margin += 4 * (math.ceil(math.log2(dimensions)) + 4) * UNIT * (lengths + 1) ** 2
    margin = margin * shrink + 2.0**-90  # and what underflows
    moved = np.column_stack([queries, np.ones(len(queries))]) * shrink[:, None]
    scores = moved.astype(np.float32) @ table
    if excluded is not None:
        scores[np.arange(len(scores)), excluded] = -np.inf
    least = scores.max(axis=1) - margin.astype(np.float32)
    rows, tokens = np.divmod(np.flatnonzero(scores >= least[:, None]), scores.shape[1])
    return rows, tokens


@once
def _table(space: EmbeddingSpace) -> tuple[float, NDArray[np.float32]]:
    """A power of two that brings points to length at most 1; these points and their lengths."""
    longest = space.radius
    scale = min(2.0 ** -math.frexp(longest)[1], _LARGEST_SCALE) if longest > 0 else 1.0
    columns = space.points * scale
    halves = 0.5 * np.einsum("md,md->m", columns, columns)
    return scale, np.vstack([columns.T, -halves]).astype(np.float32)


def _decided(space: EmbeddingSpace, points: Floats, rows: Ids, ids: Ids) -> Ids:
    """Of each row's candidates the nearest in float64, the smallest id of several."""
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    assert len(starts) == len(points)  # the best score of a row is within its margin
    if len(starts) == len(rows):  # one candidate each
        return ids
    squares = np.zeros(len(rows))
    counts = np.diff(starts, append=len(rows))
    open_ = np.flatnonzero(counts[rows] > 1)  # the others are decided
    for some in slices(len(open_), max(1, _PAIRED // points.shape[1])):
        part = open_[some]
        difference = points[rows[part]]
        difference -= space.points[ids[part]]
        difference *= difference
        squares[part] = folded(difference)
    best = squares == np.minimum.reduceat(squares, starts)[rows]
    return np.asarray(np.minimum.reduceat(np.where(best, ids, len(space)), starts))
