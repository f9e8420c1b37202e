"""The nearest tokens of points, exactly: products filter, differences of vectors decide.

And tokens near to noisy points, which is all that the noise mechanisms do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.grid import folded, unit_rows
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.mechanisms.kernels.filter import NOBODY, filter_of, frame
from dp_middleware.mechanisms.kernels.noise import random_vectors, snapped, spacing
from dp_middleware.sampling.sampler import Entropy

BLOCK = 512  # points of one matrix product on the host
_SCORES = 1 << 24  # scores held at a time
_COORDINATES = 1 << 14  # of noise made at a time: they stay in a processor's cache
_PAIRED = 1 << 16  # coordinates of differences held at a time

Nearness = Literal["distance", "cosine"]


def release(
    centres: Floats,
    space: EmbeddingSpace,
    eta: float,
    entropy: Entropy,
    nearness: Nearness = "distance",
) -> Ids:
    """Draws tokens near to centres plus independent noise of density exp(-eta ||z||), int64 (n,).

    A function of the snapped noisy vectors alone: see the module ``noise``. ``centres`` float64 (n,
    d) are means of the space's points; eta is in nats per unit of distance.
    """
    tokens = np.empty(len(centres), dtype=np.int64)
    size, find = _rows(space), SEARCHES[nearness]
    for start in range(0, len(centres), size):
        part = slice(start, start + size)
        tokens[part] = find(space, noisy(centres[part], eta, entropy))
    return tokens


def noisy(centres: Floats, eta: float, entropy: Entropy) -> Floats:
    """Adds noise to centres and snaps them; float64 (n, d)."""
    count, dimensions = centres.shape
    step = spacing(eta, dimensions)
    points = np.empty_like(centres)
    size = max(1, _COORDINATES // dimensions)
    for start in range(0, count, size):
        part = slice(start, start + size)
        noise = random_vectors(len(centres[part]), dimensions, eta, entropy)
        noise += centres[part]
        points[part] = snapped(noise, step)
    return points


def nearest(space: EmbeddingSpace, points: Floats, excluded: Ids | None = None) -> Ids:
    """Finds the token nearest to each point by Euclidean distance, ties to the smallest id; (n,).

    The distance is the float64 sum of squared differences, added in a fixed order: the answer for a
    point (n, d), about the centre as the space's points are, does not depend on the others, nor on
    the device. ``excluded`` int64 (n,) is a token per point that is not an answer; needs V > 1.
    """
    found = np.empty(len(points), dtype=np.int64)
    size = _rows(space)
    for start in range(0, len(points), size):
        part = slice(start, start + size)
        left_out = None if excluded is None else excluded[part]
        rows, ids = _candidates(space, points[part], left_out)
        found[part] = _decided(space, points[part], rows, ids)
    return found


def nearest_by_cosine(space: EmbeddingSpace, points: Floats, excluded: Ids | None = None) -> Ids:
    """Finds the token of largest cosine with each point, ties to the smallest id; int64 (n,).

    Of vectors as they are, not about the space's centre, as the points are; equal ones are one. The
    cosine of a zero vector is 0. Rounding may choose another of two that are equal to the last
    digits. ``excluded`` is as for :func:`nearest`.
    """
    known = frame(space)
    unit, centre = space.derived(
        "cosine-frame",
        lambda: (unit_rows(space.vectors[known.first]), space.vectors[0] - space.points[0]),
    )
    found = np.empty(len(points), dtype=np.int64)
    size = _rows(space)
    for start in range(0, len(points), size):
        part = slice(start, start + size)
        cosines = (points[part] + centre) @ unit.T
        if excluded is None:
            found[part] = known.first[cosines.argmax(axis=1)]
            continue
        group = known.group[excluded[part]]
        alone = np.flatnonzero(known.second[group] == NOBODY)
        cosines[alone, group[alone]] = -np.inf
        best = cosines.argmax(axis=1)
        ids = known.first[best]
        found[part] = np.where(ids == excluded[part], known.second[best], ids)
    return found


SEARCHES: dict[Nearness, Callable[..., Ids]] = {"distance": nearest, "cosine": nearest_by_cosine}
"""What finds the token near to each point: ``(space, points, excluded=None)``."""


def _rows(space: EmbeddingSpace) -> int:
    """Points searched at a time."""
    return max(1, min(max(BLOCK, space.block), _SCORES // len(space)))


def _candidates(space: EmbeddingSpace, points: Floats, excluded: Ids | None) -> tuple[Ids, Ids]:
    """Pairs (row, id), rows ascending, among them every row's answer.

    Of tokens with equal vectors only the first can be one, or the second if the first is left out;
    a vector is barred if its only token is.
    """
    known = frame(space)
    if excluded is None:
        rows, columns = _columns(space, points, np.full(len(points), NOBODY))
        return rows, known.first[columns]
    group = known.group[excluded]
    barred = np.where(known.second[group] == NOBODY, group, NOBODY)
    rows, columns = _columns(space, points, barred)
    ids = known.first[columns]
    return rows, np.where(ids == excluded[rows], known.second[columns], ids)


def _columns(space: EmbeddingSpace, points: Floats, barred: Ids) -> tuple[Ids, Ids]:
    """Pairs of row and column that the filter leaves, rows ascending, each with some.

    Where the filter finds nothing, not even one of a number that is none, all columns are left.
    """
    rows, columns = filter_of(space).survivors(points, barred)
    pairs = [(rows, columns)]
    for row in np.flatnonzero(np.bincount(rows, minlength=len(points)) == 0):
        every = np.flatnonzero(np.arange(len(frame(space).first)) != barred[row])
        pairs.append((np.full(len(every), row), every))
    rows, columns = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
    order = np.argsort(rows, kind="stable")
    return rows[order], columns[order]


def _decided(space: EmbeddingSpace, points: Floats, rows: Ids, ids: Ids) -> Ids:
    """Of each row's candidates the nearest in float64, the smallest id of several."""
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    if len(starts) == len(rows):  # one candidate each
        return ids
    squares = np.zeros(len(rows))
    counts = np.diff(starts, append=len(rows))
    open_ = np.flatnonzero(counts[rows] > 1)  # the others are decided
    size = max(1, _PAIRED // points.shape[1])
    for start in range(0, len(open_), size):
        part = open_[start : start + size]
        difference = points[rows[part]]
        difference -= space.points[ids[part]]
        difference *= difference
        squares[part] = folded(difference)
    best = squares == np.minimum.reduceat(squares, starts)[rows]
    found: Ids = np.minimum.reduceat(np.where(best, ids, len(space)), starts)
    return found
