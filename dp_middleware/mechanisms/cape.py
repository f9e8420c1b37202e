"""CAPE: utilities from a language model's logits and distances, drawn bucket by bucket."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Self

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

DEFAULT_LOGIT_BOUND = 20.0  # for a first try: take it from public text by context.logit_bound
_READS = _validate.choice("raw", "released")
_SENSITIVITIES = LATER | _validate.choice("worst-case", "printed")


def equal_frequency(utilities: torch.Tensor, buckets: int) -> torch.Tensor:
    """Cuts each row's descending ranks into runs of equal length, ties by index; int64 (n, V)."""
    used = min(buckets, utilities.shape[1])
    common, larger = divmod(utilities.shape[1], used)
    numbers = torch.arange(used, device=utilities.device)
    of_rank = numbers.repeat_interleave(common + (numbers < larger))
    order = utilities.argsort(dim=1, stable=True, descending=True)
    return torch.empty_like(order).scatter_(1, order, of_rank.expand_as(order))


@dataclass(frozen=True, kw_only=True)
class _Bucketed(ContextualMechanism):
    """Shared by the two: u = clip(logit, 0, B)^logit_weight exp(-distance_weight D_norm).

    D_norm is the row's min-max scaled Euclidean distance, 0 where all are equal; 0^0 is 1. As
    printed, logits are clipped to [-B, B], the sign is kept where a power of a negative one is
    none, and Delta is the range of the row's bucket utilities.
    """

    logit_bound: float = field(metadata=_validate.POSITIVE)
    context: Reads = field(default="raw", metadata=_READS)
    buckets: int = field(default=50, metadata=_validate.count(most=10**6))
    logit_weight: float = field(default=0.5, metadata=_validate.NONNEGATIVE)
    distance_weight: float = field(default=1.0, metadata=_validate.POSITIVE)
    sensitivity: Sensitivity = field(default="worst-case", metadata=_SENSITIVITIES)

    references = ("cape2025",)
    notes: ClassVar[tuple[str, ...]] = ("the logit bound is a public constant",)

    @classmethod
    def with_defaults(cls, nominal: float, space: EmbeddingSpace) -> Self:
        """Takes a logit bound of 20; better take one from public text."""
        return cls(epsilon=nominal, logit_bound=DEFAULT_LOGIT_BOUND)

    @abstractmethod
    def _grouped(self, utilities: torch.Tensor) -> torch.Tensor:
        """Bucket of each token, int64 (n, V)."""

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
        return on_host(self._bucket_law(self._grouped(utilities), utilities))

    def _bucket_law(self, index: torch.Tensor, utilities: torch.Tensor) -> torch.Tensor:
        """ln P of a bucket by its mean utility, then a uniform member; ``index`` int64 (n, V)."""
        rows, size = index.shape
        if (buckets := self.buckets) > size:  # most are empty: the same groups, without gaps
            index, order = index.sort(dim=1, stable=True)
            steps = index.diff(dim=1, prepend=index[:, :1]) > 0
            index = torch.empty_like(index).scatter_(1, order, steps.cumsum(dim=1))
            buckets = size
        empty = utilities.new_zeros(rows, buckets)
        sizes = empty.scatter_add(1, index, torch.ones_like(utilities))
        members = sizes.clamp(min=1)
        means = empty.scatter_add(1, index, utilities) / members
        if self.sensitivity == "printed":
            least = means.masked_fill(sizes == 0, torch.inf).amin(dim=1, keepdim=True)
            span = means.masked_fill(sizes == 0, -torch.inf).amax(dim=1, keepdim=True) - least
            means.sub_(least).div_(span.where(span > 0, 1.0))
        scores = (0.5 * self.epsilon * means).masked_fill_(sizes == 0, -torch.inf)
        return (normalize(scores) - members.log()).gather(1, index)


@dataclass(frozen=True, kw_only=True)
class Cape(_Bucketed):
    """Draws one of the equal-width buckets of utility, then a token of it uniformly.

    Reference:
        Wu et al. (2025), ICML. Its Delta (Eq. 11) is the range of the utilities of this very input,
        which is private; ours is the worst case B^logit_weight, and logits are clipped to [0, B],
        there (Eq. 7) to [-B, B]. Contexts subtract a position's mean logit, unless
        ``shift="none"``.

    Guarantee:
        The paper's epsilon + ln max |b_i|/|b_j| (Theorem 4.1) is false, and depends on the text.
        The supremum is :meth:`position_loss`, far above epsilon for a large vocabulary; with
        ``context="raw"`` a changed token costs that at every position whose logits see it. See
        docs/guarantees.md.

    Attributes:
        epsilon: Nats per position. Positive. The paper's claim without its second term.
        logit_bound: Upper bound B to which logits are clipped; public, from public text.
        context: ``"raw"`` as published, or ``"released"``.
        buckets: Number N of intervals; empty ones are not drawn.
        logit_weight: Exponent of the clipped logit, at least 0. At 0 logits do not matter.
        distance_weight: Factor of the scaled distance. Positive.
        sensitivity: Delta, and the clipping of logits: ``"worst-case"`` or ``"printed"``.
    """

    name = "cape"
    claim = "epsilon + ln max|b_i|/|b_j|"
    truth = "at most epsilon/2 + ln(V buckets) at every position that sees the raw token"
    notes = (
        *_Bucketed.notes,
        "the claim's second term, the largest ratio of bucket sizes, depends on the text: "
        "claimed is its worst case, ln(V - 1)",
    )

    def claimed_on(self, space: EmbeddingSpace) -> float:
        """Adds the printed second term, ln max |b_i|/|b_j|, at its worst: V - 1 and 1."""
        return self.epsilon + (math.log(max(1, len(space) - 1)) if self.buckets > 1 else 0.0)

    def _grouped(self, utilities: torch.Tensor) -> torch.Tensor:
        """The row's range in equal intervals, the smallest first; one without range is one."""
        low = utilities.amin(dim=1, keepdim=True)
        span = utilities.amax(dim=1, keepdim=True) - low
        share = (utilities - low).mul_(self.buckets)
        share.div_(span.where(span > 0, 1.0))  # without range the share is zero already
        return share.long().clamp_(max=self.buckets - 1)

    def position_loss(self, size: int) -> float:
        """Computes the supremum over all logits, nats: proved in docs/guarantees.md.

        As printed, the j-th mean exceeds the smallest by (N - j)/(N - 1) at most, and by 1: a
        bound, at most a/(N - 1) too high. At ``logit_weight`` 0 it is a bound, too.
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
        This library; after Wu et al. (2025), ICML. Attributes are those of :class:`Cape`.

    Guarantee:
        At most epsilon + ln((q + 1)/q) per position, q = floor(V / min(buckets, V)): as many
        buckets for every input, and sizes that differ by one at most. :meth:`position_loss` is the
        supremum, and with ``context="released"``, the default, the price of a changed token.
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

        P is largest for y in bucket k if the buckets 1 .. k have exponent a and the others 0, and
        smallest if 1 .. k - 1 have a; both fall with k, so only the first bucket of each size
        counts for the one, the last for the other. The unknown symbol's 1/V lies between.
        """
        used, steep = min(self.buckets, size), 0.5 * self.epsilon
        common, larger = divmod(size, used)
        firsts, lasts, flat = [(larger + 1, common)], [(used, common)], math.exp(-steep)
        if larger:
            firsts, lasts = [*firsts, (1, common + 1)], [*lasts, (larger, common + 1)]

        def smallest(k: int) -> float:
            return -math.log(used) if k == 1 else -steep - math.log(k - 1 + (used - k + 1) * flat)

        largest = max(-math.log(k + (used - k) * flat) - math.log(tokens) for k, tokens in firsts)
        return largest - min(smallest(k) - math.log(tokens) for k, tokens in lasts)
