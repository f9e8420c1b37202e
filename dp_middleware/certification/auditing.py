"""A lower bound on epsilon from samples alone, to hold a claim against."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dp_middleware import _validate, sampling
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.mechanisms.base import ChannelMechanism
from dp_middleware.privacy import Witness

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]

_PAIR_TOKENS = 48


class LowerBound(float):
    """A number: epsilon is at least this, except with the stated probability.

    Attributes:
        failure_probability: Probability, over the samples, that the bound is wrong.
        witness: The pair of tokens told apart and the likeliest output of the event, or ``None``
            if the bound comes from the retention rate over the vocabulary.
        samples: Draws used.
    """

    failure_probability: float
    witness: Witness | None
    samples: int

    @classmethod
    def of(
        cls, epsilon: float, failure_probability: float, witness: Witness | None, samples: int
    ) -> LowerBound:
        """The bound with its evidence."""
        bound = cls(epsilon)
        bound.failure_probability = failure_probability
        bound.witness, bound.samples = witness, samples
        return bound

    @property
    def epsilon(self) -> float:
        """The bound as a plain float, nats."""
        return float(self)


def audit(
    mechanism: ChannelMechanism,
    space: EmbeddingSpace,
    *,
    claim: float | None = None,
    samples: int = 20_000,
    failure_probability: float = 1e-3,
    entropy: sampling.Entropy = sampling.os_entropy,
) -> LowerBound:
    """A lower bound on the loss under substitution, from draws of the real sampler.

    Two tests, each with half of the failure probability, the better one counts:

    * A pair: of 48 tokens spread over the vocabulary, the two whose rows differ most at the
      claim, and the event {y : P(y|x) > exp(claim) P(y|x')}; Clopper-Pearson bounds on its
      probability under both. Pair and event come from the rows, so the draws are independent.
    * Retention: any epsilon-LDP mechanism keeps a uniformly drawn token with probability at most
      e^epsilon / (e^epsilon + V - 1). One rate over the vocabulary falsifies a claim.

    Args:
        mechanism: A channel mechanism.
        space: V tokens with vectors.
        claim: The epsilon in doubt, nats; default the paper's.
        samples: Draws of each test. A pair test cannot show more than about ln(samples).
        failure_probability: Probability that the result exceeds the true loss.
        entropy: Source of the draws.
    """
    _validate.at_least(100, samples=samples)
    _validate.probability(failure_probability=failure_probability)
    if claim is not None:
        _validate.positive(claim=claim)
    doubted = mechanism.claimed_epsilon if claim is None else claim
    sampler = sampling.Sampler(lambda ids: mechanism.rows(ids, space))
    risk = failure_probability / 2
    kept = _retention(sampler, len(space), samples, risk, entropy)
    told, witness = _pair(mechanism, space, sampler, doubted, samples, risk, entropy)
    best = witness if told > 0 and told >= kept else None
    return LowerBound.of(max(told, kept), failure_probability, best, 3 * samples)


def _retention(
    sampler: sampling.Sampler, size: int, samples: int, risk: float, entropy: sampling.Entropy
) -> float:
    """Lower bound from the rate at which uniformly drawn tokens stay unchanged."""
    if size < 2:
        return 0.0
    words = np.frombuffer(entropy(8 * samples), dtype=np.uint64)
    tokens = (words % np.uint64(size)).astype(np.int64)  # bias below V / 2^64
    rate, _ = _clopper_pearson(int((sampler.draw(tokens, entropy) == tokens).sum()), samples, risk)
    return max(0.0, math.log(rate * (size - 1) / (1 - rate))) if 0 < rate < 1 else 0.0


def _pair(
    mechanism: ChannelMechanism,
    space: EmbeddingSpace,
    sampler: sampling.Sampler,
    claim: float,
    samples: int,
    risk: float,
    entropy: sampling.Entropy,
) -> tuple[float, Witness | None]:
    """Lower bound from one pair and one event, each chosen before any draw."""
    tokens = space.spread(_PAIR_TOKENS)
    if len(tokens) < 2:
        return 0.0, None
    rows = np.exp(mechanism.rows(tokens, space))
    # the mass by which the claim fails; claims above ln(samples) cannot be tested with so few
    factor = math.exp(min(claim, math.log(samples) - 2))
    excess = np.array([[np.maximum(p - factor * q, 0).sum() for q in rows] for p in rows])
    first, second = np.unravel_index(int(excess.argmax()), excess.shape)
    event = rows[first] > factor * rows[second]
    hits, misses = (
        int(event[sampler.draw(np.full(samples, tokens[k]), entropy)].sum())
        for k in (first, second)
    )
    low, _ = _clopper_pearson(hits, samples, risk / 2)
    _, high = _clopper_pearson(misses, samples, risk / 2)
    names = space.vocabulary.tokens
    witness = Witness(
        token=names[tokens[first]],
        other=names[tokens[second]],
        output=names[int(np.where(event, rows[first], 0.0).argmax())],
    )
    return (max(0.0, math.log(low / high)) if low > 0 else 0.0), witness


def _clopper_pearson(hits: int, samples: int, risk: float) -> tuple[float, float]:
    """Lower and upper confidence bounds on a rate, each failing with probability ``risk``."""
    from scipy.stats import beta

    low = float(beta.ppf(risk, hits, samples - hits + 1)) if hits else 0.0
    high = float(beta.isf(risk, hits + 1, samples - hits)) if hits < samples else 1.0
    return low, high
