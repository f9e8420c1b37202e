"""CAPE: utilities from a language model's logits and distances, drawn bucket by bucket."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware import _validate
from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Floats
from dp_middleware.embedding.space import EmbeddingSpace, on_host
from dp_middleware.mechanisms.base import LATER
from dp_middleware.mechanisms.text_mechanisms import ContextualMechanism, Reads, checked_logits
from dp_middleware.sampling.integers import normalize

Sensitivity = Literal["worst-case", "printed"]


def equal_frequency(utilities: torch.Tensor, buckets: int) -> torch.Tensor:
    """Gives each token's bucket, ranks cut into runs of equal length; int64 (n, V).

    Bucket 0 holds the largest utilities, ties go by index, and the first ``V mod buckets`` buckets
    hold one token more. With fewer than ``buckets`` tokens each has its own bucket.
    """
    used = min(buckets, utilities.shape[1])
    common, larger = divmod(utilities.shape[1], used)
    numbers = torch.arange(used, device=utilities.device)
    of_rank = numbers.repeat_interleave(common + (numbers < larger))
    order = utilities.argsort(dim=1, stable=True, descending=True)
    return torch.empty_like(order).scatter_(1, order, of_rank.expand_as(order))


def bucket_law(
    index: torch.Tensor,
    utilities: torch.Tensor,
    buckets: int,
    steepness: float,
    sensitivity: Sensitivity = "worst-case",
) -> torch.Tensor:
    """Takes a bucket by the exponential mechanism on mean utilities, then a uniform member.

    ``index`` int64 (n, V) names buckets, of which empty ones are never drawn; ln P of each token,
    float64 (n, V).
    """
    rows, size = index.shape
    if buckets > size:  # most are empty: the same groups, without gaps
        index, order = index.sort(dim=1, stable=True)
        steps = index.diff(dim=1, prepend=index[:, :1]) > 0
        index = torch.empty_like(index).scatter_(1, order, steps.cumsum(dim=1))
        buckets = size
    empty = utilities.new_zeros(rows, buckets)
    sizes = empty.scatter_add(1, index, torch.ones_like(utilities))
    members = sizes.clamp(min=1)
    means = empty.scatter_add(1, index, utilities) / members
    if sensitivity == "printed":
        least = means.masked_fill(sizes == 0, torch.inf).amin(dim=1, keepdim=True)
        span = means.masked_fill(sizes == 0, -torch.inf).amax(dim=1, keepdim=True) - least
        means.sub_(least).div_(span.where(span > 0, 1.0))
    scores = (steepness * means).masked_fill_(sizes == 0, -torch.inf)
    return (normalize(scores) - members.log()).gather(1, index)


DEFAULT_LOGIT_BOUND = 20.0  # for a first try: take it from public text by context.logit_bound
_READS = _validate.choice("raw", "released")


@dataclass(frozen=True, kw_only=True)
class _Bucketed(ContextualMechanism):
    """Shared by the two: u = clip(logit, 0, B)^logit_weight exp(-distance_weight D_norm).

    D_norm is the row's min-max scaled Euclidean distance, 0 where all distances are equal. With a
    logit_weight of 0 the first factor is 1 for every logit, 0 included: the distance alone decides.

    As printed, logits are clipped to [-B, B], and Delta is the range of the utilities that are
    drawn by, those of the row's buckets. Where a power of a negative logit is none, the sign is
    kept: -(-logit)^logit_weight, which is the printed one for a weight of 1. Probabilities then
    depend on buckets' utilities over their range alone, which are in [0, 1] for whatever u.
    """

    logit_bound: float = field(metadata=_validate.POSITIVE)
    context: Reads = field(default="raw", metadata=_READS)
    buckets: int = field(default=50, metadata=_validate.count(most=10**6))
    logit_weight: float = field(default=0.5, metadata=_validate.NONNEGATIVE)
    distance_weight: float = field(default=1.0, metadata=_validate.POSITIVE)
    sensitivity: Sensitivity = field(
        default="worst-case", metadata=LATER | _validate.choice("worst-case", "printed")
    )

    references = ("cape2025",)

    @classmethod
    def with_defaults(cls, nominal: float, space: EmbeddingSpace) -> Self:
        """Takes a logit bound of 20; better take one from public text."""
        return cls(epsilon=nominal, logit_bound=DEFAULT_LOGIT_BOUND)

    @abstractmethod
    def _grouped(self, utilities: torch.Tensor) -> torch.Tensor:
        """Bucket of each token, int64 (n, V)."""

    def assumptions(self, space: EmbeddingSpace) -> tuple[str, ...]:
        """Says what the bound of the logits is taken to be."""
        return ("the logit bound is a public constant",)

    def log_probs(self, ids: ArrayLike, space: EmbeddingSpace, logits: ArrayLike) -> Floats:
        """Computes the law of the token released for ids[i], given logits[i]; float64 (n, V)."""
        numbers = space.checked(ids)
        values = space.on_device(checked_logits(logits, (len(numbers), len(space))))
        is_printed, bound = self.sensitivity == "printed", self.logit_bound
        shares = values.clamp(-bound if is_printed else 0.0, bound).div_(bound)
        signs, nothing = shares.sign(), shares == 0  # powers of 0 are slow
        shares.abs_().masked_fill_(nothing, 1.0).pow_(self.logit_weight)
        shares.masked_fill_(nothing, 0.0**self.logit_weight)  # 1 for a weight of 0
        if is_printed and self.logit_weight:
            shares.mul_(signs)
        distances = space.distance_rows(numbers)
        distances.sub_(distances.amin(dim=1, keepdim=True))
        span = distances.amax(dim=1, keepdim=True)
        distances.div_(span.where(span > 0, 1.0)).mul_(-self.distance_weight)
        utilities = shares.mul_(distances.exp_())  # over their sensitivity B^logit_weight
        given = self.buckets, 0.5 * self.epsilon, self.sensitivity
        return on_host(bucket_law(self._grouped(utilities), utilities, *given))


@dataclass(frozen=True, kw_only=True)
class Cape(_Bucketed):
    """Draws one of the equal-width buckets of utility, then a token of it uniformly.

    Reference:
        Wu et al. (2025), ICML. The Delta printed there (Eq. 11) is the range of the buckets'
        utilities for this very input, which is private; ours is the worst case B^logit_weight, and
        logits are clipped to [0, B], there (Eq. 7) raw ones to [-B, B]: ``sensitivity="printed"``
        takes both as printed. Contexts subtract the mean of a position's logits, unless made with
        ``shift="none"``.

    Guarantee:
        The paper's epsilon + ln max |b_i|/|b_j| (Theorem 4.1) is false: it misses that two
        inputs may have different numbers of non-empty buckets, and its second term depends on the
        text: a certificate's ``claimed`` has its worst case, ln(V - 1). The true supremum over
        all logits is :meth:`position_loss`, far above epsilon for a large vocabulary. With
        ``context="raw"`` a changed token costs that at every position whose logits see it.

    Attributes:
        epsilon: Nats per position. Positive. The paper's claim without its second term.
        logit_bound: Upper bound B to which logits are clipped; public, from public text.
        context: ``"raw"`` as published, or ``"released"``.
        buckets: Number N of intervals; empty ones are not drawn.
        logit_weight: Exponent of the clipped logit, at least 0. At 0 logits do not matter, the
            sensitivity is B^0 = 1, and :meth:`position_loss` an upper bound.
        distance_weight: Factor of the scaled distance. Positive.
        sensitivity: Delta, and the clipping of logits: ``"worst-case"`` or ``"printed"``.
    """

    name = "cape"
    claim = "epsilon + ln max|b_i|/|b_j|"
    truth = "at most epsilon/2 + ln(V buckets) at every position that sees the raw token"

    def claimed_on(self, space: EmbeddingSpace) -> float:
        """Adds the printed second term, ln max |b_i|/|b_j|, at its worst: V - 1 and 1."""
        return self.epsilon + (math.log(max(1, len(space) - 1)) if self.buckets > 1 else 0.0)

    def assumptions(self, space: EmbeddingSpace) -> tuple[str, ...]:
        """Says how the claim is read, too."""
        return (
            *super().assumptions(space),
            "the claim's second term, the largest ratio of bucket sizes, depends on the text: "
            "claimed is its worst case, ln(V - 1)",
        )

    def _grouped(self, utilities: torch.Tensor) -> torch.Tensor:
        """The row's range in equal intervals, the smallest first; one without range is one."""
        low = utilities.amin(dim=1, keepdim=True)
        span = utilities.amax(dim=1, keepdim=True) - low
        share = (utilities - low).mul_(self.buckets)
        share.div_(span.where(span > 0, 1.0))  # without range the share is zero already
        return share.long().clamp_(max=self.buckets - 1)

    def position_loss(self, size: int) -> float:
        """Computes the supremum over all logits, nats.

        The proof is in docs/guarantees.md, ``cape``. One bucket gives 1/V, which is also the row of
        the unknown symbol. Where means are over their own range, that is at least 1 - 1/N less the
        smallest mean, and the j-th exceeds by (N - j)/(N - 1) at most, and by 1: an upper bound, at
        most a/(N - 1) too high.
        """
        if size == 1 or self.buckets == 1:
            return 0.0
        most, steepness = min(self.buckets, size), 0.5 * self.epsilon
        exponents, steps = np.zeros(most), self.buckets - (self.sensitivity == "printed")
        shares = (self.buckets - np.arange(most - 1)) / steps
        exponents[1:] = steepness * np.minimum(1.0, shares)
        rarest = np.log(size - np.arange(most)) + np.logaddexp.accumulate(exponents)
        return float(rarest.max() - np.logaddexp(0.0, -steepness))


@dataclass(frozen=True, kw_only=True)
class CapeStrict(_Bucketed):
    """Repairs Cape: buckets of equal size, and a context of released tokens.

    Reference:
        This library; after Wu et al. (2025), ICML.

    Guarantee:
        At most epsilon + ln((q + 1)/q) per position, q = floor(V / min(buckets, V)): every input
        has the same number of buckets, so score and normaliser each move by at most exp(epsilon/2),
        and sizes differ by one at most. :meth:`position_loss` is the supremum. With
        ``context="released"`` this is also the price of a changed token.

    The attributes are those of :class:`Cape`, with ``context="released"`` by default and V buckets
    if V is smaller. ``sensitivity="printed"`` here costs nothing and leaves no part of epsilon
    unused.
    """

    name = "cape-strict"
    claim = "(epsilon + ln((q + 1)/q))-DP"
    truth = "epsilon + ln((q + 1)/q), q = floor(V / buckets), once per token (our repair)"

    context: Reads = field(default="released", metadata=_READS)

    def claimed_on(self, space: EmbeddingSpace) -> float:
        """Adds to epsilon what buckets of two sizes add on this space."""
        smaller, larger = divmod(len(space), min(self.buckets, len(space)))
        return self.epsilon + (math.log1p(1 / smaller) if larger else 0.0)

    def _grouped(self, utilities: torch.Tensor) -> torch.Tensor:
        return equal_frequency(utilities, self.buckets)

    def position_loss(self, size: int) -> float:
        """Computes the supremum over all logits, nats.

        Means fall from bucket 1 to bucket m. P is largest for y in bucket k if buckets 1 .. k have
        exponent a and the others 0, and smallest if buckets 1 .. k - 1 have a and the others 0: e^a
        / (k e^a + m - k) and 1 / ((k - 1) e^a + m - k + 1), over the size of the bucket. Both fall
        with k, so only the first bucket of each size counts for the one and the last for the other.
        The unknown symbol's uniform row is covered: any row has a P of 1/V or more and one of 1/V
        or less, and any token can stand at that place.
        """
        used, steepness = min(self.buckets, size), 0.5 * self.epsilon
        common, larger = divmod(size, used)
        firsts, lasts = [(larger + 1, common)], [(used, common)]
        if larger:
            firsts, lasts = [*firsts, (1, common + 1)], [*lasts, (larger, common + 1)]
        flat = math.exp(-steepness)

        def smallest(k: int) -> float:
            if k == 1:
                return -math.log(used)
            return -steepness - math.log(k - 1 + (used - k + 1) * flat)

        largest = max(-math.log(k + (used - k) * flat) - math.log(tokens) for k, tokens in firsts)
        return largest - min(smallest(k) - math.log(tokens) for k, tokens in lasts)
