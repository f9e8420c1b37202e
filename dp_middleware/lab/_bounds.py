"""The interval that every probability of a row lies in, on whatever device it is recomputed.

An integer may differ by one unit and ln P by what enumeration.py says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from dp_middleware._torch import torch
from dp_middleware.certification.enumeration import BORDER, RECOMPUTED, left_over_drift
from dp_middleware.embedding.arrays import Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.mechanisms.base import ChannelMechanism, rows_of
from dp_middleware.sampling import sampler

_ARITHMETIC = 1e-14  # relative error of the float64 arithmetic on one probability


def interval(
    mechanism: ChannelMechanism, space: EmbeddingSpace, ids: Ids
) -> tuple[torch.Tensor, torch.Tensor]:
    """Computes the largest and smallest probability of each output on any device, (n, V)."""
    rounded = sampler.integer_rows(rows_of(mechanism, ids, space))
    units = rounded.units
    exact = rounded.weights.mul_(units)
    possible = exact > 0
    smallest = torch.where(possible, exact, 1.0).amin(dim=1, keepdim=True)
    units = torch.where(smallest > BORDER, 2.0**-64, units)
    steepest = -smallest.log()
    drift = RECOMPUTED * (0.1 * steepest).clamp_(min=1.0) + _ARITHMETIC
    largest = rounded.largest[:, None] * rounded.units
    drift += left_over_drift(steepest.clamp(min=1.0), len(space), largest)
    high = torch.where(possible, (exact + units) * drift.exp(), 0.0)
    low = torch.where(possible, torch.maximum(exact - units, units) * (-drift).exp(), 0.0)
    return high, low


def blocks(
    mechanism: ChannelMechanism, space: EmbeddingSpace, members: Ids
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yields :func:`interval` of the members, a block of rows at a time."""
    for start in range(0, len(members), space.block):
        yield interval(mechanism, space, members[start : start + space.block])


def whole(
    mechanism: ChannelMechanism, space: EmbeddingSpace, members: Ids
) -> tuple[torch.Tensor, torch.Tensor]:
    """Computes :func:`interval` of all members at once."""
    highs, lows = zip(*blocks(mechanism, space, members), strict=True)
    return torch.cat(highs), torch.cat(lows)


def pairwise(
    rows: torch.Tensor, others: torch.Tensor, reduce: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """Reduces row - other over the last axis, for all pairs, float64 (n, n)."""
    cells = 1 << (17 if rows.device.type == "cpu" else 24)  # of one block; a core's cache
    side = max(1, math.isqrt(cells // rows.shape[1]))
    result = torch.empty(len(rows), len(others), dtype=rows.dtype, device=rows.device)
    for i in range(0, len(rows), side):
        for j in range(0, len(others), side):
            block = rows[i : i + side, None] - others[None, j : j + side]
            result[i : i + side, j : j + side] = reduce(block)
    return result
