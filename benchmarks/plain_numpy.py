"""Channel mechanisms as plain NumPy arrays, written from the papers' formulas: the baseline.

Each call computes whole rows of weights for some tokens and draws from them in float64, with
NumPy's generator: what a careful reader of a paper would write, without certificates or a cache.
Classes, densities and the noise on them, which are public, are taken as computed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from exact_epsilon import mechanism_named

import dp_middleware as dp
from dp_middleware.mechanisms import ChannelMechanism
from dp_middleware.mechanisms.kernels.density import density, table_noise
from dp_middleware.mechanisms.rantext import noise_epsilon

__all__ = ["draw", "mechanism_named"]

BLOCK = 64  # tokens at a time

GENERATOR = np.random.default_rng(0)

Weights = Callable[[np.ndarray], np.ndarray]


def draw(mechanism: ChannelMechanism, space: dp.EmbeddingSpace) -> Weights:
    """A function from ids to released ids."""
    weights = _OF[mechanism.name](mechanism, space)

    def released(ids: np.ndarray) -> np.ndarray:
        blocks = np.array_split(ids, -(-len(ids) // BLOCK))
        return np.concatenate([_chosen(weights(block)) for block in blocks])

    return released


def _chosen(weights: np.ndarray) -> np.ndarray:
    """One column of each row, drawn by its weight."""
    sums = np.cumsum(weights, axis=1)
    uniform = GENERATOR.random(len(sums)) * sums[:, -1]
    return np.array([np.searchsorted(s, u) for s, u in zip(sums, uniform, strict=True)])


def _distances(space: dp.EmbeddingSpace) -> Weights:
    vectors = space.vectors
    squares = np.einsum("vd,vd->v", vectors, vectors)

    def of(ids: np.ndarray) -> np.ndarray:
        products = squares[ids, None] + squares - 2 * vectors[ids] @ vectors.T
        found = np.sqrt(np.maximum(products, 0))
        found[np.arange(len(ids)), ids] = 0
        return found

    return of


def _token_exponential(m: dp.TokenExponential, space: dp.EmbeddingSpace) -> Weights:
    unit = space.vectors / np.linalg.norm(space.vectors, axis=1, keepdims=True)
    return lambda ids: np.exp(m.epsilon / 2 * np.maximum(0, unit[ids] @ unit.T))


def _santext(m: dp.SanText, space: dp.EmbeddingSpace) -> Weights:
    distances = _distances(space)
    return lambda ids: np.exp(-m.epsilon / 2 * distances(ids))


def _truncated(m: dp.TruncatedExponential, space: dp.EmbeddingSpace) -> Weights:
    distances, cut = _distances(space), m.cut(len(space))
    return lambda ids: np.exp(-m.epsilon / 2 * np.minimum(distances(ids), cut))


def _santext_plus(m: dp.SanTextPlus, space: dp.EmbeddingSpace) -> Weights:
    distances, sensitive = _distances(space), np.zeros(len(space), dtype=bool)
    sensitive[m.outputs(space)] = True

    def of(ids: np.ndarray) -> np.ndarray:
        weights = np.exp(-m.epsilon / 2 * distances(ids)) * sensitive
        weights /= weights.sum(axis=1, keepdims=True)
        own = np.flatnonzero(~sensitive[ids])
        weights[own] *= 1 - m.keep
        weights[own, ids[own]] = m.keep
        return weights

    return of


def _on_lists(listed: np.ndarray, distances: np.ndarray, epsilon: float) -> np.ndarray:
    """exp(epsilon u / 2) on lists, u min-max scaled nearness; 0 elsewhere."""
    near = np.where(listed, distances, np.nan)
    low, high = np.nanmin(near, axis=1)[:, None], np.nanmax(near, axis=1)[:, None]
    scaled = (distances - low) / np.where(high > low, high - low, 1)
    return np.where(listed, np.exp(epsilon / 2 * (1 - np.where(listed, scaled, 0))), 0)


def _custext(m: dp.CusText, space: dp.EmbeddingSpace) -> Weights:
    distances, labels = _distances(space), np.array(m.classes(space))
    return lambda ids: _on_lists(labels[ids, None] == labels, distances(ids), m.epsilon)


def _own_lists(m: dp.CusTextAggressive, space: dp.EmbeddingSpace) -> Weights:
    distances = _distances(space)

    def of(ids: np.ndarray) -> np.ndarray:
        found = distances(ids)
        nearest = np.argpartition(found, m.candidates, axis=1)[:, : m.candidates]
        listed = np.zeros(found.shape, dtype=bool)
        np.put_along_axis(listed, nearest, True, axis=1)
        weights = _on_lists(listed, found, m.epsilon)
        return np.where(listed, weights, 1) if m.full_support else weights

    return of


def _rantext(m: dp.RanText, space: dp.EmbeddingSpace) -> Weights:
    """In two steps: noise gives the radius, then a draw from the list."""
    distances, scale = _distances(space), np.ptp(space.vectors, axis=0) / noise_epsilon(m.epsilon)

    def of(ids: np.ndarray) -> np.ndarray:
        noise = GENERATOR.laplace(scale=scale, size=(len(ids), len(scale)))
        radii = np.linalg.norm(noise, axis=1, keepdims=True)
        found = distances(ids)
        weights = np.exp(m.epsilon / 2 * np.maximum(0, 1 - found / radii))
        return np.where(found < radii, weights, 0) if m.literal else weights

    return of


def _dyntext(m: dp.DynText, space: dp.EmbeddingSpace) -> Weights:
    """In two steps: noise on the density gives the list's length, then a draw from the list."""
    public = density(space, m.candidates, m.epsilon_density, m.delta)
    tabled = public.lengths(table_noise(m.table_seed, len(space)))
    sigma, f, all_distances = np.exp(public.log_sigma), public.counts, _distances(space)

    def of(ids: np.ndarray) -> np.ndarray:
        if m.reading == "table":
            lengths = tabled[ids, None]
        else:
            noisy = (f[ids] + GENERATOR.normal(size=len(ids)) * sigma[ids] - f.min()) / np.ptp(f)
            lengths = np.clip(np.floor((1 - noisy) * m.candidates), 1, m.candidates)[:, None]
        found, on = all_distances(ids), np.arange(m.candidates) < lengths
        nearest = np.argpartition(found, m.candidates, axis=1)[:, : m.candidates]
        order = np.argsort(np.take_along_axis(found, nearest, axis=1), axis=1)
        nearest = np.take_along_axis(nearest, order, axis=1)
        distances = np.take_along_axis(found, nearest, axis=1)
        farthest = np.where(on, distances, 0).max(axis=1, keepdims=True)
        scores = np.exp(m.epsilon / 2 * (1 - distances / np.where(farthest > 0, farthest, 1)))
        outside = 1.0 if m.full_support else 0.0
        weights = np.full((len(ids), len(space)), outside)
        listed = np.where(on, scores, outside)
        np.put_along_axis(weights, nearest, listed, axis=1)
        return weights

    return of


def _nearest_response(m: dp.NearestResponse, space: dp.EmbeddingSpace) -> Weights:
    """With all tokens as outputs."""
    distances = _distances(space)

    def of(ids: np.ndarray) -> np.ndarray:
        found = distances(ids)
        nearest = np.argpartition(found, m.candidates, axis=1)[:, : m.candidates]
        weights = np.ones(found.shape)
        np.put_along_axis(weights, nearest, np.exp(m.epsilon), axis=1)
        return weights

    return of


_OF: dict[str, Callable[..., Weights]] = {
    "token-exponential": _token_exponential,
    "santext": _santext,
    "santext-plus": _santext_plus,
    "truncated-exponential": _truncated,
    "custext": _custext,
    "custext-plus": _custext,
    "custext-aggressive": _own_lists,
    "custext-strict": _own_lists,
    "rantext": _rantext,
    "rantext-strict": _rantext,
    "dyntext": _dyntext,
    "dyntext-strict": _dyntext,
    "nearest-response": _nearest_response,
}
