"""How privacy degrades: delta at every epsilon, the range of the loss, and zero-concentration.

All from the integers that are drawn from. Where another machine takes exponentials and logarithms,
integers may differ by one unit and ln P by about 1e-11 (see enumeration.py): every probability is
taken at the worse end of that interval, high for x and low for x', so that none is understated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware import _validate
from dp_middleware._torch import torch
from dp_middleware.certification.certificates import certify, check
from dp_middleware.certification.enumeration import classes_of
from dp_middleware.embedding.arrays import Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.lab._bounds import blocks, pairwise, whole
from dp_middleware.mechanisms.base import ChannelMechanism
from dp_middleware.privacy import Adjacency
from dp_middleware.privacy.conversions import zcdp_of_bounded_range, zcdp_of_pure
from dp_middleware.vocabulary.vocabulary import UNKNOWN

Way = Literal["auto", "exact", "bound"]

EXACT_UP_TO = 1 << 31
"""Pairs of adjacent inputs times outputs that ``"auto"`` enumerates: V up to about 1,290.

About two seconds for each epsilon on one core.
"""

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


def bounded_range(
    mechanism: ChannelMechanism, space: EmbeddingSpace, *, adjacency: Adjacency | None = None
) -> float:
    """Bounds max over adjacent x, x' of max_y l - min_y l, l(y) = ln P(y|x) - ln P(y|x').

    Exact up to :data:`EXACT_UP_TO`. Above it the smaller of two bounds, O(V^2): twice the largest
    loss, and the sum of the two largest row ranges max_y ln P(y|x) - min_y ln P(y|x) of a class,
    because l is a difference of two rows. The second gives epsilon at most for weights
    exp(epsilon u / 2) with u in [0, 1] over one output set (each row range is at most
    epsilon / 2), and so for mixtures of them: P(y|x) = E[weight / normaliser] lies between
    E[1 / normaliser] and e^(epsilon / 2) times it. For two levels 1 and e^epsilon the range is
    2 epsilon as soon as two rows differ.

    Returns:
        Nats; ``inf`` where supports differ, or a dropped unknown token reveals itself.
    """
    classes = _neighbours(mechanism, space, adjacency)
    loss = certify(mechanism, space, adjacency=adjacency).epsilon
    return _range(mechanism, space, classes, loss)


def zcdp(
    mechanism: ChannelMechanism, space: EmbeddingSpace, *, adjacency: Adjacency | None = None
) -> float:
    """Returns a rho for one token occurrence: from the exact loss or from the range.

    Releases of m occurrences are (m rho)-zCDP, which for many of them is far less than the sum
    of the losses; see :func:`dp_middleware.privacy.conversions.approx_of_zcdp`.

    Returns:
        The smaller of the two; ``inf`` where the loss is infinite.
    """
    classes = _neighbours(mechanism, space, adjacency)
    loss = certify(mechanism, space, adjacency=adjacency).epsilon
    widest = _range(mechanism, space, classes, loss)
    return min(zcdp_of_pure(loss), zcdp_of_bounded_range(widest))


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


def _range(
    mechanism: ChannelMechanism, space: EmbeddingSpace, classes: list[Ids], loss: float
) -> float:
    if math.isinf(loss):
        return math.inf
    if _is_small(classes, space):
        ranges = (_exact_range(mechanism, space, members) for members in classes)
        return max(ranges, default=0.0)
    return min(2 * loss, max(_two_widest_rows(mechanism, space, members) for members in classes))


def _exact_range(mechanism: ChannelMechanism, space: EmbeddingSpace, members: Ids) -> float:
    """Finite losses only: an output is possible for all members or for none."""
    high, low = whole(mechanism, space, members)
    possible = high[0] > 0
    logs = high[:, possible].log_(), low[:, possible].log_()
    largest = pairwise(*logs, lambda block: block.amax(dim=-1))  # of l(y), (x, x')
    return float((largest + largest.T).max())  # min l is minus the largest of (x', x)


def _two_widest_rows(mechanism: ChannelMechanism, space: EmbeddingSpace, members: Ids) -> float:
    widths: list[float] = []
    for high, low in blocks(mechanism, space, members):
        least = low.masked_fill(low == 0, math.inf).amin(dim=1)
        widths += (high.amax(dim=1) / least).log().tolist()
    return sum(sorted(widths)[-2:])
