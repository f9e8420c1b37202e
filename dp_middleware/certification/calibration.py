"""The nominal parameter whose exact loss is the epsilon asked for."""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np

from dp_middleware import _validate
from dp_middleware._waits import told
from dp_middleware.certification.certificates import certify, check, load, store
from dp_middleware.certification.enumeration import RECOMPUTED, classes_of, scout
from dp_middleware.certification.proofs import calibrate_contextual
from dp_middleware.embedding.arrays import Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import CannotCalibrate
from dp_middleware.mechanisms import near_lists
from dp_middleware.mechanisms.base import ChannelMechanism, Mechanism, takes_long
from dp_middleware.mechanisms.text_mechanisms import (
    ContextualMechanism,
    NoiseMechanism,
    TextMechanism,
)
from dp_middleware.privacy import Adjacency

M = TypeVar("M", bound=Mechanism)
C = TypeVar("C", bound=ChannelMechanism)
N = TypeVar("N", bound=NoiseMechanism)

_CLOSE = 1e-3  # accepted: an exact loss within this share below the target
_AIM = 4e-4  # aimed at: this share below the target
_PASSES = 4  # exact ones, at most
_FIRST_ROWS = 256
_LARGEST_NOMINAL = 1e4
_ROUNDING = 1e-9  # relative, for a mechanism whose exact loss is its nominal epsilon
_STEP = 1e-8  # relative width of a bracket that has closed, and step over a jump


def calibrate(
    mechanism: M,
    space: EmbeddingSpace,
    epsilon: float,
    *,
    adjacency: Adjacency | None = None,
    length: int | None = None,
) -> M:
    """Returns the mechanism with the parameter whose certified epsilon is the one asked for.

    Where a theorem gives the loss as a function of the parameter, from that. Else the loss of a
    few public rows, those that attained the extremes in a scouting pass, brackets the root; exact
    passes over all pairs confirm it. Where the loss jumps over the target, the parameter just
    below the jump; where it never gets as far, the parameter of the largest loss that was tried.
    Kept on disk, as certificates are.

    Args:
        mechanism: Its ``epsilon`` (or ``eta``) is ignored.
        space: V tokens with vectors.
        epsilon: Target, nats per occurrence or text.
        adjacency: As for :func:`certify`.
        length: As for :func:`certify`.

    Returns:
        A mechanism with ``certify(...).epsilon <= epsilon``.

    Raises:
        CannotCalibrate: The loss is infinite whatever the parameter, or never gets below the
            target.
        ParameterError: As for :func:`certify`.
    """
    _validate.positive(epsilon=epsilon)
    relation = check(mechanism, space, adjacency, length)
    if isinstance(mechanism, NoiseMechanism):
        return _by_constant(mechanism, space, epsilon, relation, length)
    if isinstance(mechanism, ContextualMechanism):
        return calibrate_contextual(mechanism, space, epsilon, relation, length)
    if isinstance(mechanism, TextMechanism):  # its loss is its epsilon, rounded down
        return mechanism.at(min(epsilon, mechanism.largest))
    assert isinstance(mechanism, ChannelMechanism)  # as checked
    key = _key(mechanism, epsilon, relation)
    stored = load("calibrations", mechanism, space, *key)
    if stored is not None and isinstance(stored.get("nominal"), float):
        known = mechanism.at(stored["nominal"])
        if certify(known, space, adjacency=relation).epsilon <= epsilon:
            return known
    with told(f"calibrating {mechanism.name} to epsilon {epsilon:g}"):
        calibrated = _by_enumeration(mechanism, space, epsilon, relation)
    store({"nominal": calibrated.nominal}, "calibrations", mechanism, space, *key)
    return calibrated


def is_quick(
    mechanism: Mechanism, space: EmbeddingSpace, epsilon: float, adjacency: Adjacency
) -> bool:
    """Tells whether :func:`calibrate` and :func:`certify` after it need no pass over many rows."""
    if not isinstance(mechanism, ChannelMechanism) or not takes_long(space):
        return True
    if near_lists.are_ready(mechanism, space):
        return True
    key = _key(mechanism, epsilon, adjacency)
    return load("calibrations", mechanism, space, *key) is not None


def _key(mechanism: Mechanism, epsilon: float, adjacency: Adjacency) -> tuple[str, str, str]:
    """Of a calibration on disk."""
    return mechanism.at(1.0).fingerprint, adjacency.fingerprint, repr(float(epsilon))


def _by_constant(
    mechanism: N, space: EmbeddingSpace, epsilon: float, adjacency: Adjacency, length: int | None
) -> N:
    """The certified epsilon is proportional to eta."""
    if mechanism.scale is None:
        raise CannotCalibrate(f"nothing is guaranteed by {mechanism.name}: it adds no noise")
    per_unit = certify(mechanism.at(1.0), space, adjacency=adjacency, length=length).epsilon
    if math.isinf(per_unit):
        raise CannotCalibrate(_infinite(mechanism))
    nominal = epsilon * (1 - 1e-12) / per_unit if per_unit > 0 else epsilon
    return mechanism.at(min(nominal, mechanism.largest))


def _by_enumeration(mechanism: C, space: EmbeddingSpace, epsilon: float, adjacency: Adjacency) -> C:
    if mechanism.tight:
        margin = max(_ROUNDING * epsilon, min(4 * RECOMPUTED, epsilon / 2))
        for _ in range(2):  # rows may be so flat that they move further
            candidate = mechanism.at(epsilon - margin)
            excess = certify(candidate, space, adjacency=adjacency).epsilon - epsilon
            if excess <= 0:
                return candidate
            margin = min(margin + 2 * excess, epsilon / 2)
    rows = _spread_rows(space, adjacency)
    nominal, _ = _root(mechanism, space, adjacency, rows, epsilon)
    loss = scout(mechanism.at(nominal), space, adjacency)  # all rows, near the root
    if math.isinf(loss.epsilon):
        raise CannotCalibrate(_infinite(mechanism))
    rows = np.union1d(rows, loss.extreme)
    best: tuple[float, C] | None = None
    for _ in range(_PASSES):
        nominal, closed = _root(mechanism, space, adjacency, rows, epsilon * (1 - _AIM))
        candidate = mechanism.at(nominal)
        exact = certify(candidate, space, adjacency=adjacency).epsilon
        if math.isinf(exact):
            raise CannotCalibrate(_infinite(mechanism))
        if exact <= epsilon and (best is None or exact > best[0]):
            best = (exact, candidate)
        if exact <= epsilon and (closed or exact >= epsilon * (1 - _CLOSE)):
            break
        rows = np.union1d(rows, scout(candidate, space, adjacency).extreme)
    if best is None:
        raise CannotCalibrate(_unreachable(mechanism, epsilon))
    return best[1]


def _unreachable(mechanism: Mechanism, epsilon: float) -> str:
    return f"no parameter of {mechanism.name} was found whose exact loss is below {epsilon:g}"


def _spread_rows(space: EmbeddingSpace, adjacency: Adjacency) -> Ids:
    """About 256 rows spread over the vocabulary, whole classes if there are several."""
    several = [members for members in classes_of(space, adjacency) if len(members) > 1]
    if not several:
        return np.empty(0, dtype=np.int64)
    if len(several) == 1:
        several, count = list(several[0][:, None]), _FIRST_ROWS
    else:
        mean_size = sum(map(len, several)) / len(several)
        count = min(len(several), max(2, round(_FIRST_ROWS / mean_size)))
    chosen = np.unique(np.linspace(0, len(several) - 1, count).astype(int))
    return np.concatenate([several[k] for k in chosen])


def _root(
    mechanism: C, space: EmbeddingSpace, adjacency: Adjacency, rows: Ids, target: float
) -> tuple[float, bool]:
    """The nominal epsilon found with the largest loss on ``rows`` up to the target.

    Also whether the bracket closed without coming near: on a jump, or at the largest parameter.
    """

    def loss(nominal: float) -> float:
        return scout(mechanism.at(nominal), space, adjacency, rows).epsilon

    reach = 2 * space.radius if mechanism.notion == "metric" else 1.0
    unit = 1 / reach if reach > 0 else 1.0  # of the parameter, for a nat or two
    largest = min(_LARGEST_NOMINAL * unit, mechanism.largest)
    start = min(target * unit, mechanism.largest)
    low, high = start, start
    at_low = at_high = loss(start)
    if math.isinf(at_low):
        raise CannotCalibrate(_infinite(mechanism))
    while at_low > target:
        low, high = low / 2, low
        at_low = loss(low)
        if low < start * _STEP:
            raise CannotCalibrate(_unreachable(mechanism, target))
    best = at_low, low
    while at_high <= target:
        low, at_low, high = high, at_high, high * 1.5
        best = max(best, (at_low, low))
        if high > largest:
            return best[1], True
        at_high = loss(high)
    for jump in mechanism.jumps:
        if low < jump < high and loss(jump) <= target < loss(jump * (1 + _STEP)):
            return jump, True
    trials = 0
    while at_low < target * (1 - _AIM / 4):
        if high / low - 1 < _STEP:
            return low, True
        trials += 1
        middle = math.sqrt(low * high)
        if trials % 3:  # interpolate, but halve often enough to close in on a kink
            aim = (target * (1 - _AIM / 8) - at_low) / (at_high - at_low)
            middle = min(max(low + (high - low) * aim, low), high)
        at_middle = loss(middle)
        if at_middle <= target:
            low, at_low = middle, at_middle
        else:
            high, at_high = middle, at_middle
    return low, False


def _infinite(mechanism: Mechanism) -> str:
    return (
        f"the loss of {mechanism.name} is infinite for every epsilon under this adjacency: some "
        "output is possible for one token and impossible for another, or unknown tokens are "
        "dropped; use its strict variant, another unknown=, or Adjacency.within"
    )
