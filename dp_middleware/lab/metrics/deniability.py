"""Plausible deniability: how often a token stays itself (N_x), how many outputs it has (S_x)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware import _validate
from dp_middleware._torch import torch
from dp_middleware.contexts import Context
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import EmbeddingSpace, on_host
from dp_middleware.errors import ParameterError
from dp_middleware.lab.metrics import results
from dp_middleware.lab.metrics.results import BY_WORD, MetricResult, of_law, of_mean
from dp_middleware.mechanisms.base import ChannelMechanism, Mechanism, rows_of
from dp_middleware.mechanisms.drawing import drawer
from dp_middleware.mechanisms.text_mechanisms import ContextualMechanism
from dp_middleware.sampling import sampler
from dp_middleware.vocabulary.classes import word_numbers

_QUANTILES = {"minimum": 0.0, "p05": 0.05, "median": 0.5, "p95": 0.95, "maximum": 1.0}
_ROUNDED = 1e-12  # of a cumulative sum of probabilities
_EXACT = "exact, from the integers that are drawn from"


def retention(
    mechanism: ChannelMechanism, space: EmbeddingSpace, *, ids: ArrayLike | None = None
) -> MetricResult:
    """Computes N_x = Pr[M(x) = x] (Feyisetan et al. 2020, SANTEXT), its mean over tokens, exact.

    Another token of the same word is the same word; ``by_id`` is of the tokens: over the whole
    vocabulary at most :func:`~retention_bound`, and the certificate's ``retention``. Weighted by
    ``ids``, each as often as it is listed, it may be more. Details are quantiles over the tokens.

    Raises:
        ParameterError: Not a channel (see :func:`retention_on`), or an id outside 0 .. V - 1.
    """
    tokens, counted = _tokens(space, ids)
    words, own, own_by_id = space.on_device(word_numbers(space.vocabulary).copy()), [], []
    for members, rows in _blocks(mechanism, space, tokens):
        places = space.on_device(members)[:, None]
        own_by_id.append(on_host(rows.gather(1, places)[:, 0]))
        own.append(on_host(rows.mul_(words == words[places]).sum(dim=1)))
    kept = np.concatenate(own)[counted]
    by_id = float(np.concatenate(own_by_id)[counted].mean())
    assumptions = (_EXACT, BY_WORD, _weighting(ids))
    return of_law("retention", float(kept.mean()), *assumptions, by_id=by_id, **_quantiles(kept))


def mapping_set_size(
    mechanism: ChannelMechanism,
    space: EmbeddingSpace,
    *,
    ids: ArrayLike | None = None,
    draws: int = 100,
    mass: float = 0.95,
) -> MetricResult:
    """Computes S_x, how many outputs a token has, exact: the mean over tokens.

    As papers count (SANTEXT, InferDPT): distinct outputs in n ``draws``, whose expectation is the
    sum over y of 1 - (1 - P(y|x))^n. An output is a word; ``by_id`` counts tokens. Details have
    ``"smallest set"``, the fewest outputs that have the ``mass`` together, as Feyisetan et al.
    (2020) define S_x, and ``"support"``, those that are possible. All V tokens: O(V^2 log V) time.

    Raises:
        ParameterError: Not a channel, an id outside 0 .. V - 1, or a parameter out of range.
    """
    _validate.at_least(1, draws=draws)
    _validate.probability(mass=mass)
    words = word_numbers(space.vocabulary)
    order = np.argsort(words, kind="stable")
    begins = np.flatnonzero(np.diff(words[order], prepend=-1))
    tokens, counted = _tokens(space, ids)
    blocks, by_id = [], []
    for rows in (on_host(block) for _, block in _blocks(mechanism, space, tokens)):
        by_id.append(_expected_distinct(rows, draws))
        joint = np.add.reduceat(rows[:, order], begins, axis=1)
        sizes = _expected_distinct(joint, draws), _smallest_set(joint, mass)
        blocks.append(np.stack([*sizes, (joint > 0).sum(axis=1)]))
    distinct, *others = np.concatenate(blocks, axis=1)[:, counted]
    smallest, support = (float(sizes.mean()) for sizes in others)
    details = {"smallest set": smallest, "support": support, "draws": float(draws), "mass": mass}
    told = (f"exact expectation of outputs in {draws} draws", BY_WORD, _weighting(ids))
    own, details = float(np.concatenate(by_id)[counted].mean()), details | _quantiles(distinct)
    return of_law("mapping set size", float(distinct.mean()), *told, by_id=own, **details)


def mapping_set_size_drawn(
    mechanism: Mechanism,
    space: EmbeddingSpace,
    *,
    ids: ArrayLike,
    draws: int = 100,
    context: Context | None = None,
    entropy: sampler.Entropy = sampler.os_entropy,
) -> MetricResult:
    """Counts S_x as papers do: distinct outputs in n draws, for a mechanism of any shape.

    Each of the public ``ids`` is a text of its own; a noise mechanism sees it repeated, whose mean
    over a window is its own vector. ParameterError: an id outside 0 .. V - 1, none at all, or a
    context missing or not used.
    """
    _validate.at_least(1, draws=draws)
    tokens = _tokens(space, ids)[0]
    draw = drawer(mechanism, space, context).draw
    shape = (draws, 1) if isinstance(mechanism, ContextualMechanism) else (1, draws)
    drawn = [np.concatenate(draw(list(np.full(shape, k)), entropy)) for k in tokens.tolist()]
    words = word_numbers(space.vocabulary)
    sizes = [float(len(np.unique(words[ids]))) for ids in drawn]
    told = f"distinct outputs in {draws} draws of each token, counted; {BY_WORD}"
    scale = (1.0, float(min(draws, len(space))))
    result = of_mean("mapping set size", sizes, scale, told, {"draws": float(draws)})
    return replace(result, by_id=float(np.mean([len(np.unique(ids)) for ids in drawn])))


def token_cosine(
    mechanism: ChannelMechanism,
    space: EmbeddingSpace,
    *,
    ids: ArrayLike | None = None,
    vectors: ArrayLike | None = None,
) -> MetricResult:
    """Computes the mean cosine of a token's vector and that of what is released for it, exact.

    As Fig. 2 of DYNTEXT (Zhang et al. 2025), which takes GloVe's: ``vectors``, float (V, d),
    default the space's own. No pair with a zero row counts. ``ids`` as for :func:`retention`.

    Raises:
        ParameterError: Not a channel, an id outside 0 .. V - 1, other vectors, or no pair with two.
    """
    points = np.asarray(space.points if vectors is None else vectors, dtype=np.float64)
    if points.ndim != 2 or len(points) != len(space):
        raise ParameterError(f"expected vectors of shape ({len(space)}, d), got {points.shape}")
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    units = np.divide(points, lengths, out=np.zeros_like(points), where=lengths > 0)
    both = np.hstack([units, lengths > 0])  # the last column tells who has a vector
    tokens, counted = _tokens(space, ids)
    sums = [both[own] * (on_host(law) @ both) for own, law in _blocks(mechanism, space, tokens)]
    summed = np.concatenate(sums)[counted].sum(axis=0)
    if not summed[-1]:
        raise ParameterError("expected tokens with vectors, got none")
    return of_law("token cosine", float(summed[:-1].sum() / summed[-1]), _EXACT, _weighting(ids))


def _tokens(space: EmbeddingSpace, ids: ArrayLike | None) -> tuple[Ids, Ids]:
    """Distinct ids, and for each listed one its place among them."""
    listed = np.arange(len(space)) if ids is None else space.checked(ids)
    if not listed.size:
        raise ParameterError("expected at least one token, got none")
    distinct, places = np.unique(listed, return_inverse=True)
    return distinct.astype(np.int64), places.astype(np.int64)


def _blocks(
    mechanism: ChannelMechanism, space: EmbeddingSpace, tokens: Ids
) -> Iterator[tuple[Ids, torch.Tensor]]:
    """Tokens and the probabilities of their outputs, float64 (n, V), of the integers drawn from."""
    if not isinstance(mechanism, ChannelMechanism):
        kind = type(mechanism).__name__
        raise ParameterError(f"expected a law per token, got {kind}; count its draws: retention_on")
    for start in range(0, len(tokens), space.block):
        own = tokens[start : start + space.block]
        rounded = sampler.integer_rows(rows_of(mechanism, own, space))
        yield own, rounded.weights.mul_(rounded.units)


def _expected_distinct(rows: Floats, draws: int) -> Floats:
    with np.errstate(divide="ignore"):  # a certain output
        return np.asarray(-np.expm1(draws * np.log1p(-np.minimum(rows, 1.0))).sum(axis=1))


def _smallest_set(rows: Floats, mass: float) -> Floats:
    reached = np.cumsum(-np.sort(-rows, axis=1), axis=1) >= mass - _ROUNDED
    return np.asarray(reached.argmax(axis=1) + 1.0)


def _quantiles(values: Floats) -> dict[str, float]:
    return {name: float(np.quantile(values, share)) for name, share in _QUANTILES.items()}


def _weighting(ids: ArrayLike | None) -> str:
    return "tokens uniform over the vocabulary" if ids is None else "mean over the tokens listed"


def retention_bound(epsilon: float, size: int) -> float:
    """Bounds the mean N_x of tokens (``by_id``) of any epsilon-DP mechanism over V = size tokens.

    For every output y and all x, P(y|y) <= e^epsilon P(y|x). Summed over y and averaged over x: the
    mean N_x is at most e^epsilon / (e^epsilon + V - 1), which randomised response attains.
    """
    _validate.at_least(1, size=size)
    _validate.nonnegative(epsilon=epsilon)
    return 1.0 / (1.0 + (size - 1) * math.exp(-epsilon))


def retention_on(
    raw: Sequence[Ids], released: Sequence[Ids], space: EmbeddingSpace | None = None
) -> MetricResult:
    """Counts the tokens of texts that were released as themselves, for any mechanism.

    ``raw`` holds int64 (n,) for each text; -1, an unknown token, never stays itself. With ``space``
    words are counted, and ``by_id`` tokens; without it ids. The interval is a bootstrap over texts
    that have any token. ParameterError: not aligned, or no token at all.
    """
    if [*map(len, raw)] != [*map(len, released)]:
        raise ParameterError("expected a released token for each raw token of each text")
    pairs = [(np.asarray(x), np.asarray(y)) for x, y in zip(raw, released, strict=True) if len(x)]
    if not pairs:
        raise ParameterError("expected at least one token, got texts without any")
    lengths = np.array([len(text) for text, _ in pairs])
    kept = by_id = np.array([(x == y).sum() for x, y in pairs])
    unit = "counted by id: another token of the same word is another token"
    if space is not None:
        words, unit = word_numbers(space.vocabulary), BY_WORD
        kept = np.array([((x >= 0) & (words[x] == words[y])).sum() for x, y in pairs])
    return MetricResult(
        metric="retention",
        value=float(kept.sum() / lengths.sum()),
        **results.over_texts(results.rate_interval(kept, lengths), len(lengths)),
        assumptions=("counted on draws; tokens weigh as often as they occur", unit),
        details={"tokens": float(lengths.sum())},
        by_id=float(by_id.sum() / lengths.sum()),
    )
