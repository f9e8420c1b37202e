"""The nominal parameter whose exact loss is the epsilon asked for."""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np

from dp_middleware import _files, _validate
from dp_middleware._waits import told
from dp_middleware.certification.certificates import certify, check, place
from dp_middleware.certification.enumeration import RECOMPUTED, classes_of, scout
from dp_middleware.certification.proofs import contextual_epsilon, why_none
from dp_middleware.embedding.arrays import Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import CannotCalibrate
from dp_middleware.mechanisms import ContextualMechanism, NoiseMechanism, near_lists
from dp_middleware.mechanisms.base import ChannelMechanism, Mechanism, takes_long
from dp_middleware.mechanisms.text_mechanisms import TextMechanism
from dp_middleware.privacy import Adjacency

M = TypeVar("M", bound=Mechanism)
C = TypeVar("C", bound=ChannelMechanism)
N = TypeVar("N", bound=NoiseMechanism)
X = TypeVar("X", bound=ContextualMechanism)

_UNREACHABLE = "no parameter of {} was found whose exact loss is below {:g}"
_INFINITE = (
    "the loss of {} is infinite for every epsilon under this adjacency: some output is possible "
    "for one token and impossible for another, or unknown tokens are dropped; use its strict "
    "variant, another unknown=, or Adjacency.within"
)
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
        epsilon: Target, nats per occurrence or text; the result has no more.
        adjacency: As for :func:`certify`, as the next, and ParameterError.
        length: Number of tokens of the text, public.

    Raises:
        CannotCalibrate: The loss is infinite whatever the parameter, or above the target.
    """
    _validate.positive(epsilon=epsilon)
    relation = check(mechanism, space, adjacency, length)
    if isinstance(mechanism, NoiseMechanism):
        return _by_constant(mechanism, space, epsilon, relation, length)
    if isinstance(mechanism, ContextualMechanism):
        return _by_bisection(mechanism, space, epsilon, relation, length)
    if isinstance(mechanism, TextMechanism):  # its loss is its epsilon, rounded down
        return mechanism.at(min(epsilon, mechanism.largest))
    assert isinstance(mechanism, ChannelMechanism)  # as checked
    kept = _place(mechanism, space, epsilon, relation)
    stored = (_files.load(*kept) if kept else None) or {}
    if isinstance(stored.get("nominal"), float):
        known = mechanism.at(stored["nominal"])
        if certify(known, space, adjacency=relation).epsilon <= epsilon:
            return known
    with told(f"calibrating {mechanism.name} to epsilon {epsilon:g}"):
        calibrated = _by_enumeration(mechanism, space, epsilon, relation)
    if kept:
        _files.store({"nominal": calibrated.nominal}, *kept)
    return calibrated


def is_quick(
    mechanism: Mechanism, space: EmbeddingSpace, epsilon: float, adjacency: Adjacency
) -> bool:
    """Tells whether :func:`calibrate` and :func:`certify` after it need no pass over many rows."""
    if not isinstance(mechanism, ChannelMechanism) or not takes_long(space):
        return True
    kept = _place(mechanism, space, epsilon, adjacency)
    return near_lists.are_ready(mechanism, space) or bool(kept and _files.load(*kept) is not None)


def _place(
    mechanism: Mechanism, space: EmbeddingSpace, epsilon: float, adjacency: Adjacency
) -> tuple[str, ...]:
    key = mechanism.at(1.0).fingerprint, adjacency.fingerprint, repr(float(epsilon))
    return place(mechanism, space, "calibrations", *key)


def _by_constant(
    mechanism: N, space: EmbeddingSpace, epsilon: float, adjacency: Adjacency, length: int | None
) -> N:
    """The certified epsilon is proportional to eta."""
    if mechanism.scale is None:
        raise CannotCalibrate(f"nothing is guaranteed by {mechanism.name}: it adds no noise")
    one = certify(mechanism.at(1.0), space, adjacency=adjacency, length=length)
    per_unit = _finite(one.epsilon, mechanism)
    nominal = epsilon * (1 - 1e-12) / per_unit if per_unit > 0 else epsilon
    return mechanism.at(min(nominal, mechanism.largest))


def _by_bisection(
    mechanism: X, space: EmbeddingSpace, epsilon: float, adjacency: Adjacency, length: int | None
) -> X:
    """The certified epsilon grows with the nominal one, up to the largest."""
    reason = why_none(mechanism, space, adjacency, length)
    if reason:
        raise CannotCalibrate(f"nothing is guaranteed by {mechanism.name}: {reason}")

    def certified(nominal: float) -> float:
        return contextual_epsilon(mechanism.at(nominal), space, length)

    low, high = min(1e-9 * epsilon, mechanism.largest), mechanism.largest
    least = certified(low)
    if least > epsilon:
        raise CannotCalibrate(
            f"no parameter of {mechanism.name} has a certified epsilon below {least:.4g}, which "
            "the sizes of its buckets alone can reveal; expected more than that, got "
            f"epsilon={epsilon:g}; use cape-strict, fewer buckets, or a shorter text"
        )
    if certified(high) <= epsilon:
        return mechanism.at(high)
    while high > low * (1 + 1e-12):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if certified(middle) <= epsilon else (low, middle)
    return mechanism.at(low)


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
    _finite(loss.epsilon, mechanism)
    rows = np.union1d(rows, loss.extreme)
    best: tuple[float, C] | None = None
    for _ in range(_PASSES):
        nominal, closed = _root(mechanism, space, adjacency, rows, epsilon * (1 - _AIM))
        candidate = mechanism.at(nominal)
        exact = _finite(certify(candidate, space, adjacency=adjacency).epsilon, mechanism)
        if exact <= epsilon and (best is None or exact > best[0]):
            best = (exact, candidate)
        if exact <= epsilon and (closed or exact >= epsilon * (1 - _CLOSE)):
            break
        rows = np.union1d(rows, scout(candidate, space, adjacency).extreme)
    if best is None:
        raise CannotCalibrate(_UNREACHABLE.format(mechanism.name, epsilon))
    return best[1]


def _spread_rows(space: EmbeddingSpace, adjacency: Adjacency) -> Ids:
    """About 256 rows spread over the vocabulary, whole classes if there are several."""
    several = [members for members in classes_of(space, adjacency) if len(members) > 1]
    if not several:
        return np.empty(0, dtype=np.int64)
    if len(several) == 1:
        several = list(several[0][:, None])
    mean_size = sum(map(len, several)) / len(several)
    count = min(len(several), max(2, round(_FIRST_ROWS / mean_size)))
    chosen = np.unique(np.linspace(0, len(several) - 1, count).astype(int))
    return np.concatenate([several[k] for k in chosen])


def _root(
    mechanism: C, space: EmbeddingSpace, adjacency: Adjacency, rows: Ids, target: float
) -> tuple[float, bool]:
    """The nominal epsilon of the largest loss on ``rows`` up to the target; whether that is final.

    It is where the bracket closed without coming near: on a jump, or at the largest parameter.
    """

    def loss(nominal: float) -> float:
        return scout(mechanism.at(nominal), space, adjacency, rows).epsilon

    reach = 2 * space.radius if mechanism.notion == "metric" else 1.0
    unit = 1 / reach if reach > 0 else 1.0  # of the parameter, for a nat or two
    largest = min(_LARGEST_NOMINAL * unit, mechanism.largest)
    start = min(target * unit, mechanism.largest)
    low, high = start, start
    at_low = at_high = _finite(loss(start), mechanism)
    while at_low > target:
        low, high = low / 2, low
        at_low = loss(low)
        if low < start * _STEP:
            raise CannotCalibrate(_UNREACHABLE.format(mechanism.name, target))
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


def _finite(loss: float, mechanism: Mechanism) -> float:
    if math.isinf(loss):
        raise CannotCalibrate(_INFINITE.format(mechanism.name))
    return loss
