"""How privacy degrades: delta at every epsilon, from the integers that are drawn from.

Where another machine takes exponentials and logarithms, integers may differ by one unit and ln P by
about 1e-11 (see enumeration.py): every probability is taken at the worse end of that interval, high
for x and low for x', so that none is understated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware import _validate
from dp_middleware._torch import torch
from dp_middleware.certification.certificates import check
from dp_middleware.certification.enumeration import BORDER, RECOMPUTED, classes_of, left_over_drift
from dp_middleware.embedding.arrays import Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.base import ChannelMechanism, rows_of
from dp_middleware.privacy import Adjacency
from dp_middleware.sampling import sampler
from dp_middleware.vocabulary.vocabulary import UNKNOWN

Way = Literal["auto", "exact", "bound"]

EXACT_UP_TO = 1 << 31
"""Pairs of adjacent inputs times outputs that ``"auto"`` enumerates: V up to about 1,290.

About two seconds for each epsilon on one core.
"""

_ARITHMETIC = 1e-14  # relative error of the float64 arithmetic on one probability
_LARGEST_EPSILON = 700.0  # a probability is at least 2^-128: nothing changes above 89


@dataclass(frozen=True, kw_only=True)
class DeltaCurve:
    """Holds for each epsilon a delta such that one token occurrence is (epsilon, delta)-DP.

    Attributes:
        epsilons: Nats, in the order asked for.
        deltas: Probabilities; never below the smallest true one.
        method: ``"exact"``: the smallest delta, up to rounding; ``"bound"``: an upper bound.
    """

    epsilons: tuple[float, ...]
    deltas: tuple[float, ...]
    method: Literal["exact", "bound"]


def delta_curve(
    mechanism: ChannelMechanism,
    space: EmbeddingSpace,
    epsilons: ArrayLike,
    *,
    adjacency: Adjacency | None = None,
    method: Way = "auto",
) -> DeltaCurve:
    """Computes delta(epsilon) = max over x, x' of sum_y max(0, P(y|x) - e^epsilon P(y|x')).

    ``"exact"`` goes over all pairs: O(n^2 V) time for each epsilon, O(n V) memory, for classes of
    n inputs. ``"bound"`` streams blocks of rows twice, O(n V) time, and takes the smaller of two
    upper bounds:

    * max over x of sum_y max(0, P(y|x) - e^epsilon min_x' P(y|x')): no term falls if P(y|x') is
      replaced by something smaller.
    * (e^loss - e^epsilon) / (e^loss + 1), for the largest loss: a set S has
      P(S|x) <= min(e^loss q, 1 - e^-loss (1 - q)), q = P(S|x'), and P(S|x) - e^epsilon q is
      largest where the two meet (Kairouz, Oh and Viswanath, 2015).

    Args:
        mechanism: A channel mechanism.
        space: V tokens with vectors; its device does the arithmetic.
        epsilons: Nats, (m,), each at least 0; ``inf`` gives the mass on outputs that are
            impossible for x'.
        adjacency: Default :meth:`Adjacency.substitution`, over V plus the unknown symbol.
        method: ``"auto"`` is exact up to :data:`EXACT_UP_TO`.

    Raises:
        ParameterError: An epsilon is negative or not a number, or ``adjacency`` has labels for
            another number of tokens.
    """
    _validate.one_of(("auto", "exact", "bound"), method=method)
    try:
        asked = np.asarray(epsilons, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError("expected epsilons as numbers >= 0") from None
    if asked.ndim != 1 or not (asked >= 0).all():
        raise ParameterError("expected epsilons as a one-dimensional sequence of numbers >= 0")
    classes = _neighbours(mechanism, space, adjacency)
    chosen = method if method != "auto" else "exact" if _is_small(classes, space) else "bound"
    factors = [math.exp(min(epsilon, _LARGEST_EPSILON)) for epsilon in asked.tolist()]
    deltas = np.zeros(len(asked))
    if space.vocabulary.unknown == "drop" and any(UNKNOWN in members for members in classes):
        deltas, classes = np.ones(len(asked)), []  # the number of tokens reveals it
    of_class = _exact_deltas if chosen == "exact" else _bounded_deltas
    for members in classes:
        deltas = np.maximum(deltas, of_class(mechanism, space, members, factors))
    summed = 1 + 2.0**-52 * len(space)  # rounding of a sum of V terms, none negative
    return DeltaCurve(
        epsilons=tuple(asked.tolist()),
        deltas=tuple(np.minimum(deltas * summed, 1.0).tolist()),
        method=chosen,
    )


def _neighbours(
    mechanism: ChannelMechanism, space: EmbeddingSpace, adjacency: Adjacency | None
) -> list[Ids]:
    """Classes of more than one input."""
    if not isinstance(mechanism, ChannelMechanism):
        raise ParameterError(f"expected a channel mechanism, got {type(mechanism).__name__}")
    relation = check(mechanism, space, adjacency, None)
    return [members for members in classes_of(space, relation) if len(members) > 1]


def _is_small(classes: list[Ids], space: EmbeddingSpace) -> bool:
    return sum(len(members) ** 2 for members in classes) * len(space) <= EXACT_UP_TO


def _exact_deltas(
    mechanism: ChannelMechanism, space: EmbeddingSpace, members: Ids, factors: list[float]
) -> list[float]:
    high, low = whole(mechanism, space, members)
    excesses = (
        pairwise(high, factor * low, lambda block: block.clamp_(min=0.0).sum(dim=-1))
        for factor in factors
    )
    return [float(excess.max()) for excess in excesses]


def _bounded_deltas(
    mechanism: ChannelMechanism, space: EmbeddingSpace, members: Ids, factors: list[float]
) -> list[float]:
    ceiling = torch.zeros(len(space), dtype=torch.float64, device=space.device)
    floor = torch.ones_like(ceiling)
    for high, low in blocks(mechanism, space, members):
        ceiling = torch.maximum(ceiling, high.amax(dim=0))
        floor = torch.minimum(floor, low.amin(dim=0))
    ratio = float(torch.where(ceiling > 0, ceiling / floor, 1.0).max())  # e^loss, may be inf
    sums = [0.0] * len(factors)
    for high, _ in blocks(mechanism, space, members):
        for k, factor in enumerate(factors):
            excess = torch.sub(high, floor, alpha=factor).clamp_(min=0.0).sum(dim=1)
            sums[k] = max(sums[k], float(excess.max()))
    pure = [max(0.0, (1 - f / ratio) / (1 + 1 / ratio)) for f in factors]
    return [min(pair) for pair in zip(sums, pure, strict=True)]


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
