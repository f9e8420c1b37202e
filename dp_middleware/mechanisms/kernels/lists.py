"""Candidate lists by distance: nearest tokens, greedy classes, public word lists."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Floats, Ids, slices
from dp_middleware.embedding.space import EmbeddingSpace, once
from dp_middleware.errors import ParameterError

_NUMBERS = 1 << 17  # of coordinates held at a time: what a cache holds


def nearest(ids: Ids, space: EmbeddingSpace, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Finds each id and its ``size`` - 1 nearest others, ties by index, with distances; (n, K)."""
    size = min(size, len(space))
    listed = torch.empty(len(ids), size, dtype=torch.int64, device=space.device)
    lengths = torch.empty(len(ids), size, dtype=torch.float64, device=space.device)
    for part in slices(len(ids), space.block):
        distances = space.distance_rows(ids[part])
        own = space.on_device(ids[part])[:, None]
        distances.scatter_(1, own, -1.0)
        listed[part] = smallest(distances, size)
        lengths[part] = distances.gather(1, listed[part]).clamp_(min=0.0)
    return listed, lengths


def smallest(values: torch.Tensor, count: int) -> torch.Tensor:
    """Finds the columns of the ``count`` smallest values of each row, ascending, ties by index."""
    if count >= values.shape[1]:
        return values.argsort(dim=1, stable=True)
    found = torch.topk(values, count + 1, dim=1, largest=False)
    chosen = found.indices[:, :count]
    tied = (found.values[:, count - 1] == found.values[:, count]).nonzero()[:, 0]
    if len(tied):  # which of equal values a device finds first is its own affair
        some, largest = values[tied], found.values[tied, count - 1, None]
        below, equal = some < largest, some == largest
        room = count - below.sum(dim=1, keepdim=True)
        within = below | (equal & (equal.cumsum(dim=1) <= room))
        chosen[tied] = within.nonzero()[:, 1].reshape(len(tied), count)
    chosen = chosen.sort(dim=1).values
    return chosen.gather(1, values.gather(1, chosen).argsort(dim=1, stable=True))


@once
def greedy_classes(space: EmbeddingSpace, size: int) -> Ids:
    """Gives each token's class: the first free token takes its ``size`` - 1 nearest free ones."""
    labels, label = np.full(len(space), -1, dtype=np.int64), 0
    while (free := np.flatnonzero(labels < 0)).size:
        leaders = free[: space.block]
        for leader, distances in zip(leaders.tolist(), space.distance_rows(leaders), strict=True):
            if labels[leader] >= 0:
                continue
            distances[leader] = -1.0
            free = free[labels[free] < 0]
            among = distances[space.on_device(free)][None]
            labels[free[smallest(among, size)[0].cpu().numpy()]] = label
            label += 1
    return labels


def members(labels: Ids) -> Ids:
    """Lists each class's tokens by index, int64 (classes, most); short ones repeat their first."""
    order, sizes = np.argsort(labels, kind="stable"), np.bincount(labels)
    places = np.arange(sizes.max())[None, :]
    starts = np.cumsum(sizes) - sizes
    return np.asarray(order[starts[:, None] + np.where(places < sizes[:, None], places, 0)])


def exact_distances(listed: Ids, space: EmbeddingSpace) -> Floats:
    """Computes the space's distances, bit for bit, from each of V tokens to a few, int64 (V, K)."""
    points, distances = space.points, np.empty(listed.shape)
    squares = np.einsum("vd,vd->v", points, points)  # of points: exact in any order
    step = max(1, _NUMBERS // (listed.shape[1] * points.shape[1]))
    for part in slices(len(listed), step):
        products = np.einsum("vkd,vd->vk", points[listed[part]], points[part])
        distances[part] = np.sqrt(squares[part, None] - 2.0 * products + squares[listed[part]])
    return distances


def word_list(words: Iterable[str], name: str) -> frozenset[str]:
    """Makes a public list of words, compared without case and surrounding blanks, or refuses it."""
    listed = None if isinstance(words, str) or not isinstance(words, Iterable) else [*words]
    if listed is None or not all(isinstance(word, str) for word in listed):
        raise ParameterError(f"expected {name} as a collection of words")
    return frozenset(word.strip().lower() for word in listed)


@once
def on_list(space: EmbeddingSpace, words: frozenset[str]) -> NDArray[np.bool_]:
    """Tells which tokens of the space are on a list that :func:`word_list` made, bool (V,)."""
    return np.array([t.strip().lower() in words for t in space.vocabulary.tokens])
