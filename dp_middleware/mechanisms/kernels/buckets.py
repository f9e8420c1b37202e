"""Tokens grouped into buckets of similar utility: the two groupings, their law, their loss.

Utilities are scaled to [0, 1], or with the ``"printed"`` sensitivity the means of a row's buckets
are, over their own range. ``steepness`` is the exponent that a utility of 1 gets, epsilon/2.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from dp_middleware._torch import torch

Sensitivity = Literal["worst-case", "printed"]


def equal_width(utilities: torch.Tensor, buckets: int) -> torch.Tensor:
    """Gives each token's bucket, its row's range cut into equal intervals; int64 (n, V).

    Bucket 0 holds the smallest utilities. A row without range is one bucket.
    """
    low = utilities.amin(dim=1, keepdim=True)
    span = utilities.amax(dim=1, keepdim=True) - low
    share = (utilities - low).mul_(buckets)
    share.div_(span.where(span > 0, 1.0))  # without range the share is zero already
    return share.long().clamp_(max=buckets - 1)


def equal_frequency(utilities: torch.Tensor, buckets: int) -> torch.Tensor:
    """Gives each token's bucket, ranks cut into runs of equal length; int64 (n, V).

    Bucket 0 holds the largest utilities, ties go by index, and the first ``V mod buckets`` buckets
    hold one token more. With fewer than ``buckets`` tokens each has its own bucket.
    """
    size = utilities.shape[1]
    used = min(buckets, size)
    common, larger = divmod(size, used)
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
    if buckets > size:  # most are empty
        index, order = index.sort(dim=1, stable=True)
        steps = index.diff(dim=1, prepend=index[:, :1]) > 0  # the same groups, without gaps
        index = torch.empty_like(index).scatter_(1, order, steps.cumsum(dim=1))
        buckets = size
    empty = utilities.new_zeros(rows, buckets)
    sizes = empty.scatter_add(1, index, torch.ones_like(utilities))
    sums = empty.scatter_add(1, index, utilities)
    members = sizes.clamp(min=1)
    means = sums / members
    if sensitivity == "printed":
        least = means.masked_fill(sizes == 0, torch.inf).amin(dim=1, keepdim=True)
        span = means.masked_fill(sizes == 0, -torch.inf).amax(dim=1, keepdim=True) - least
        means.sub_(least).div_(span.where(span > 0, 1.0))
    scores = (steepness * means).masked_fill_(sizes == 0, -torch.inf)
    return (torch.log_softmax(scores, dim=1) - members.log()).gather(1, index)


def equal_width_loss(
    steepness: float, size: int, buckets: int, sensitivity: Sensitivity = "worst-case"
) -> float:
    """Bounds ln P(y | u) - ln P(y | u') over utilities u, u' in [0, 1]^V: the supremum, nats.

    Largest P: two buckets, the fewest possible where utilities differ (the smallest and the largest
    always lie in different ones), y alone in the upper: e^a / (e^a + 1).

    Smallest P: let m buckets be non-empty. Then y shares its bucket with at most V - m + 1 tokens,
    itself counted. Of the other m - 1 buckets the j-th from above (j = 0, 1, ...) has index N - 1 -
    j at most, so its mean exceeds that of y's by at most (1 - j/N) times the range: P >= 1 / ((V -
    m + 1) (1 + sum_j e^(a (1 - j/N)))). One bucket gives 1/V, which is also the row of the unknown
    symbol.

    Where means are over their own range, that is at least 1 - 1/N less the smallest mean, and the
    j-th exceeds by (N - j)/(N - 1) at most, and by 1: an upper bound, at most a/(N - 1) too high.
    """
    if size == 1 or buckets == 1:
        return 0.0
    most = min(buckets, size)
    exponents = np.zeros(most)
    steps = buckets if sensitivity == "worst-case" else buckets - 1
    exponents[1:] = steepness * np.minimum(1.0, (buckets - np.arange(most - 1)) / steps)
    totals = np.logaddexp.accumulate(exponents)
    rarest = np.log(size - np.arange(most)) + totals
    return float(rarest.max() - np.logaddexp(0.0, -steepness))


def equal_frequency_loss(steepness: float, size: int, buckets: int) -> float:
    """Bounds ln P(y | u) - ln P(y | u') over utilities u, u' in [0, 1]^V: the supremum, nats.

    Means fall from bucket 1 to bucket m. P is largest for y in bucket k if buckets 1 .. k have
    exponent a and the others 0, and smallest if buckets 1 .. k - 1 have a and the others 0: e^a /
    (k e^a + m - k) and 1 / ((k - 1) e^a + m - k + 1), over the size of the bucket. Both fall with
    k, so only the first bucket of each size counts for the one and the last for the other. The
    unknown symbol's uniform row is covered: any row has a P of 1/V or more and one of 1/V or less,
    and any token can stand at that place.
    """
    used = min(buckets, size)
    common, larger = divmod(size, used)
    firsts = [(larger + 1, common)] + ([(1, common + 1)] if larger else [])
    lasts = [(used, common)] + ([(larger, common + 1)] if larger else [])
    flat = math.exp(-steepness)

    def largest(k: int, tokens: int) -> float:
        return -math.log(k + (used - k) * flat) - math.log(tokens)

    def smallest(k: int, tokens: int) -> float:
        if k == 1:
            return -math.log(used) - math.log(tokens)
        return -steepness - math.log(k - 1 + (used - k + 1) * flat) - math.log(tokens)

    return max(largest(*first) for first in firsts) - min(smallest(*last) for last in lasts)
