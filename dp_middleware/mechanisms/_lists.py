"""Candidate lists by distance: nearest tokens, greedy classes, public word lists."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from dp_middleware.embedding.space import BLOCK, ZERO_DISTANCE, EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.base import Floats, Ids

_UNASSIGNED = -1


def nearest(ids: Ids, space: EmbeddingSpace, size: int) -> tuple[Ids, Floats]:
    """The ``size`` nearest tokens of each id and their distances, ascending, ties by index.

    The id itself is always first, also among duplicates. At most V of them.

    Returns:
        int64 (n, min(size, V)) and float64 of the same shape.
    """
    size = min(size, len(space))
    listed = np.empty((len(ids), size), dtype=np.int64)
    lengths = np.empty((len(ids), size))
    for start in range(0, len(ids), BLOCK):
        block = ids[start : start + BLOCK]
        own = (np.arange(len(block)), block)
        distances = space.distances(block)
        distances[own] = -1.0
        listed[start : start + BLOCK] = smallest(distances, size)
        distances[own] = 0.0
        lengths[start : start + BLOCK] = np.take_along_axis(
            distances, listed[start : start + BLOCK], axis=1
        )
    return listed, lengths


def smallest(values: Floats, count: int) -> Ids:
    """Column indices of the ``count`` smallest values of each row, ascending, ties by index."""
    size = values.shape[1]
    if count == 1:
        first: Ids = values.argmin(axis=1, keepdims=True)
        return first
    if count >= size:
        return np.argsort(values, axis=1, kind="stable")
    largest = np.partition(values, count - 1, axis=1)[:, count - 1 : count]
    within = values <= largest
    surplus = np.flatnonzero(np.count_nonzero(within, axis=1) > count)
    if surplus.size:  # equal to the largest: the first ones by index
        below = values[surplus] < largest[surplus]
        room = count - np.count_nonzero(below, axis=1)[:, None]
        equal = values[surplus] == largest[surplus]
        within[surplus] = below | (equal & (np.cumsum(equal, axis=1) <= room))
    chosen = np.nonzero(within)[1].reshape(len(values), count)
    order = np.argsort(np.take_along_axis(values, chosen, axis=1), axis=1, kind="stable")
    return np.take_along_axis(chosen, order, axis=1)


def exact_distances(number: int, others: Ids, space: EmbeddingSpace) -> Floats:
    """Distances from one token to a few others, from the differences of their vectors."""
    distances = np.linalg.norm(space.vectors[others] - space.vectors[number], axis=1)
    return np.where(distances < ZERO_DISTANCE, 0.0, distances)


def greedy_classes(space: EmbeddingSpace, size: int) -> Ids:
    """The class of each token: the first free token takes its ``size`` - 1 nearest free ones."""
    labels = np.full(len(space), _UNASSIGNED, dtype=np.int64)
    label = 0
    while (free := np.flatnonzero(labels == _UNASSIGNED)).size:
        leaders = free[:BLOCK]
        for leader, distances in zip(leaders, space.distances(leaders), strict=True):
            if labels[leader] != _UNASSIGNED:
                continue
            distances[leader] = -1.0
            free = free[labels[free] == _UNASSIGNED]
            labels[free[smallest(distances[None, free], size)[0]]] = label
            label += 1
    return labels


def members(labels: Ids) -> list[Ids]:
    """The tokens of each class, in index order."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.cumsum(np.bincount(labels))[:-1])


def word_list(words: Iterable[str], name: str) -> frozenset[str]:
    """A public list of words, compared without case and surrounding blanks.

    Raises:
        ParameterError: Not a collection of str, or one str.
    """
    if isinstance(words, str) or not isinstance(words, Iterable):
        raise ParameterError(f"expected {name} as a collection of words, got one value")
    listed = frozenset(words)
    if not all(isinstance(word, str) for word in listed):
        raise ParameterError(f"expected {name} to hold str only")
    return frozenset(word.strip().lower() for word in listed)


def stop_words() -> frozenset[str]:
    """English function words, scikit-learn's list."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS)


def on_list(space: EmbeddingSpace, words: frozenset[str]) -> NDArray[np.bool_]:
    """Which tokens of the space are on a list that :func:`word_list` made, bool (V,)."""

    def compute() -> NDArray[np.bool_]:
        return np.array([t.strip().lower() in words for t in space.vocabulary.tokens])

    return space.derived(("on-list", words), compute)
