"""Codebooks of what a language model ranks highest: equal logits give equal ones everywhere."""

from __future__ import annotations

import math

import numpy as np

from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.mechanisms.kernels import exact

LEAST = 8  # codewords: with fewer a release says little, and a wrong model would decide all
NEARBY = 0.3  # worth of releasing the codeword nearest to a token that is not listed
_UNITS = 2.0**40  # of the likeliest token; sums of integers are exact for up to 2^22 tokens
_FIRST = 1024  # largest shares that are looked at before others
_ALL = 1.0 + 1e-6  # of the shares, and what rounding adds
_LOWEST = -500.0  # of what is exponentiated; below _UNITS of nothing long before


def mixed(logits: Floats, mixture: float, unigram: Floats) -> Floats:
    """Computes (1 - mixture) softmax(logits) + mixture unigram, float64 (V,).

    Single operations of IEEE 754 and sums of integers, so that no machine ranks otherwise.
    """
    weights = exact.exp(np.maximum(logits - logits.max(), _LOWEST))
    weights = np.rint(weights * _UNITS)
    shares = weights / float(weights.astype(np.int64).sum())
    return np.asarray((1.0 - mixture) * shares + mixture * unigram)


def codebook(shares: Floats, epsilon: float) -> Ids:
    """Finds the places of the M largest shares, ascending, ties by place; all if these are few.

    With C the sum of these shares, M maximises the expected worth of what is released, (e^epsilon -
    1) (C + NEARBY (1 - C)) / (e^epsilon + M - 1); the smallest such M. ``shares`` float64 (V,) are
    what the model expects here.
    """
    floor = float(exact.exp(np.array([max(-epsilon, _LOWEST)]))[0])
    order, worth = _worths(shares, floor, _FIRST)
    bound = (_ALL / float(worth.max()) - 1.0) / floor  # with more, even all shares are worth less
    if len(order) < min(bound, len(shares)):
        order, worth = _worths(shares, floor, math.ceil(bound))
    return np.sort(order[: len(order) - len(worth) + 1 + int(worth.argmax())])


def _worths(shares: Floats, floor: float, count: int) -> tuple[Ids, Floats]:
    """Places of the ``count`` largest shares, or all; worths of LEAST codewords and more."""
    order = _descending(shares, count)
    hit = np.cumsum(shares[order])  # one after another
    worth = (NEARBY + (1.0 - NEARBY) * hit) / (1.0 + floor * np.arange(len(order)))
    return order, worth[min(LEAST, len(order)) - 1 :]


def _descending(shares: Floats, count: int) -> Ids:
    """Places of the largest shares, and of those equal to the least; descending, ties by place."""
    if count >= len(shares):
        return np.argsort(-shares, kind="stable")
    least = np.partition(shares, -count)[-count]
    places = np.flatnonzero(shares >= least)
    return places[np.argsort(-shares[places], kind="stable")]


def two_weights(epsilon: float, size: int) -> tuple[float, float]:
    """Computes ln P of the nearest codeword and of each other, exactly epsilon apart."""
    near = -math.log1p((size - 1) * math.exp(-epsilon))
    return near, near - epsilon
