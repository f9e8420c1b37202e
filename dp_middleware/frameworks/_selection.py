"""Choosing one of several public candidates for a private text, and the certificate of both."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dp_middleware import _validate
from dp_middleware.embedding import EmbeddingSpace
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.errors import IncompatibleGuarantees, ParameterError
from dp_middleware.privacy import Certificate, PureDP
from dp_middleware.sampling import sampler
from dp_middleware.vocabulary.vocabulary import UNKNOWN

Sensitivity = Literal["candidates", "paper", "naive"]

LARGEST_NORM = 1 + 1e-9

_ARITHMETIC = 1e-12  # added to a sensitivity: above the float64 error of two utilities
_ROUNDING = 1e-6  # nats: the loss that rounding to integers may add, proof in Selection
_DEEPEST = 24.0  # nats below the best candidate at which probabilities level out


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Release candidate y for x with probability proportional to exp(epsilon u / (2 Delta)).

    u(x, y) = clip_[0,1]((<m(x), m(y)> + alpha) / (1 + alpha)), m the mean of the vectors of all
    tokens: of norm at most 1, the zero vector for an unknown token. PrivRewrite, phase 2, but m is
    **not** renormalised: one token of two that cancel each other would turn m(x) round.

    Guarantee:
        epsilon-DP for one replaced token of x, given the candidates and the number T of tokens.
        u moves by at most Delta: 1 ("naive"); min(1, 2 / (T (1 + alpha))) ("paper"); or the largest
        range over v of <e(v), m(y)> / (T (1 + alpha)) over the candidates ("candidates").
        Utilities more than 2 Delta 24 / epsilon below the best are raised to that: a maximum of
        two functions of sensitivity Delta has sensitivity Delta. No probability is then below
        e^-24 / m, so its integer of 64 bits is above 2^64 e^-30, or it has 128 bits: rounding
        moves a logarithm by at most 3e-7 and a loss by 6e-7, and we draw with epsilon - 1e-6.

    Attributes:
        epsilon: Nats per token occurrence of x. Positive.
        alpha: Shift of the inner product, at least 0; from 1 on nothing is ever clipped.
        sensitivity: Which bound is used.
    """

    epsilon: float
    alpha: float = 1.0
    sensitivity: Sensitivity = "candidates"

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon)
        _validate.one_of(("candidates", "paper", "naive"), sensitivity=self.sensitivity)
        if self.alpha != 0:
            _validate.positive(alpha=self.alpha)

    def utilities(self, ids: Ids, similarities: Floats) -> Floats:
        """Returns u(x, y) of x, int64 (T,), and m candidates, float64 (m,) in [0, 1]. Private."""
        count = max(1, len(ids))  # a text without tokens has the zero vector
        means = [math.fsum(column) / count for column in similarities[ids].T.tolist()]
        utilities: Floats = (np.array(means) + self.alpha) / (1 + self.alpha)
        return utilities.clip(0.0, 1.0)

    def delta(self, count: int, similarities: Floats) -> float:
        """Returns the most that a utility moves when one of ``count`` tokens is replaced.

        1 for any text in place of any other: a mean of vectors moves no further than one can.
        """
        if self.sensitivity == "naive":
            return 1.0
        ranges = similarities.max(axis=0) - similarities.min(axis=0)
        widest = 2.0 if self.sensitivity == "paper" else float(ranges.max())
        return min(1.0, widest / (count * (1 + self.alpha)) + _ARITHMETIC)

    def log_probs(
        self, ids: Ids, candidates: Sequence[Ids], space: EmbeddingSpace, count: int | None = None
    ) -> Floats:
        """Returns the law of the chosen index, float64 (m,).

        Args:
            ids: int64 (T,), -1 for an unknown token. Private.
            candidates: Ids of each of m candidates, at least one id each. Public.
            space: V tokens with vectors of norm at most 1.
            count: Public number of tokens, of which one may change, at most T; 1 where the whole
                text may. Default T, which is then public.
        """
        similarities = token_similarities(candidates, space)
        utilities = self.utilities(ids, similarities)
        spent = max(0.0, self.epsilon - _ROUNDING)
        scale = spent / (2 * self.delta(len(ids) if count is None else count, similarities))
        below = np.maximum(scale * (utilities - utilities.max()), -_DEEPEST)
        law: Floats = sampler.log_softmax(below[None, :])[0]
        return law

    def table(
        self, ids: Ids, candidates: Sequence[Ids], space: EmbeddingSpace, count: int | None = None
    ) -> sampler.Table:
        """Returns the integers that are drawn from, of :meth:`log_probs`. Private."""
        return sampler.tables(self.log_probs(ids, candidates, space, count)[None, :])[0]


def token_similarities(candidates: Sequence[Ids], space: EmbeddingSpace) -> Floats:
    """<e(v), m(y)> for every token v and candidate y, float64 (V + 1, m) in [-1, 1].

    The last row is of id -1. Utilities and their sensitivity are both taken from these numbers.
    """
    means = [space.vectors[ids[ids != UNKNOWN]].sum(axis=0) / len(ids) for ids in candidates]
    similarities = np.zeros((len(space) + 1, len(candidates)))
    np.matmul(space.vectors, np.stack(means, axis=1), out=similarities[:-1])
    np.clip(similarities, -1.0, 1.0, out=similarities)
    return similarities


def require_short_vectors(space: EmbeddingSpace) -> None:
    """Refuses a space with a vector of norm above 1, on which the sensitivity would be wrong."""
    norms = np.linalg.norm(space.vectors, axis=1)
    if above := int((norms > LARGEST_NORM).sum()):
        raise ParameterError(
            f"expected token vectors of norm at most 1, got {above} of {len(space)} above it, "
            f"the largest {norms.max():.6g}; divide all vectors by that"
        )


def pure_epsilon(certificate: Certificate) -> float:
    """Nats per token occurrence; IncompatibleGuarantees: not pure, or not finite."""
    guarantee = certificate.guarantee
    if not isinstance(guarantee, PureDP) or not certificate.finite:
        raise not_pure(type(guarantee).__name__)
    return guarantee.epsilon


def compose(first: Certificate, epsilon: float, settings: str) -> Certificate:
    """The certificate of a sanitizer and of a choice with these nats and public settings."""
    one = pure_epsilon(first)
    claimed = one if first.metric else first.claimed  # a metric claim is per unit of distance
    digest = hashlib.sha256(f"{first.mechanism}/{settings}".encode()).hexdigest()[:16]
    notes = (
        f"the chat model alone sees {one:g} nats; {epsilon:g} more are for choosing a candidate",
        "candidates, pruning and fallback depend on the text through what was sanitized only",
    )
    return first.revised(
        guarantee=PureDP(epsilon=one + epsilon),
        epsilon=one + epsilon,
        method="proof",
        claimed=claimed + epsilon,
        mechanism=f"privrewrite-{digest}",
        assumptions=(*first.assumptions, *notes),
        metric=None,
        witness=None,
    )


def not_pure(kind: str) -> IncompatibleGuarantees:
    """The refusal of a sanitizer with another kind of guarantee."""
    return IncompatibleGuarantees(
        f"expected a sanitizer with a pure, finite epsilon to add the choice's to, got {kind}; "
        "use a mechanism such as dp.TokenExponential or dp.NearestResponse"
    )
