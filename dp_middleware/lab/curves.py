"""How privacy adds up over many releases: the range of the loss, and zero-concentration.

All from the integers that are drawn from. Where another machine takes exponentials and logarithms,
integers may differ by one unit and ln P by about 1e-11 (see enumeration.py): every probability is
taken at the worse end of that interval, high for x and low for x', so that no loss is understated.
"""

from __future__ import annotations

import math

from dp_middleware.certification.certificates import certify, check
from dp_middleware.certification.enumeration import classes_of
from dp_middleware.embedding.arrays import Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.lab._bounds import blocks, pairwise, whole
from dp_middleware.mechanisms.base import ChannelMechanism
from dp_middleware.privacy import Adjacency
from dp_middleware.privacy.conversions import zcdp_of_bounded_range, zcdp_of_pure

EXACT_UP_TO = 1 << 31
"""Pairs of adjacent inputs times outputs that are enumerated: V up to about 1,290.

About two seconds on one core.
"""


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
