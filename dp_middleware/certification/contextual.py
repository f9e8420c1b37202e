"""Certificates by proof for mechanisms that read a context, and their calibration.

A text is released position by position, so its law is a product of rows. With a context of
released tokens the rows of two adjacent texts, at equal releases so far, differ at the changed
position only: the loss is that of one position, by adaptive composition. With a context of raw
tokens the changed token moves the logits, and so the row, at every position that sees it: each
of them may cost the loss of one position.
"""

from __future__ import annotations

import math
from typing import TypeVar

from dp_middleware.certification import wording
from dp_middleware.certification.enumeration import RECOMPUTED
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import CannotCalibrate
from dp_middleware.mechanisms.text_mechanisms import ContextualMechanism
from dp_middleware.privacy import Adjacency, Certificate, NoGuarantee, PureDP
from dp_middleware.sampling import sampler

M = TypeVar("M", bound=ContextualMechanism)

_NO_LENGTH = "the text's length or the model's window is not known; pass length="
_SMALLEST = 1e-9  # nominal epsilon, relative to the target
_CLOSED = 1e-12  # relative width of a bracket


def certify_contextual(
    mechanism: ContextualMechanism, space: EmbeddingSpace, adjacency: Adjacency, length: int | None
) -> Certificate:
    """States what the mechanism guarantees per token occurrence on the space, by proof.

    The loss holds for any two tokens, so classes change nothing but whether an unknown token that
    is dropped has a neighbour. ``length`` is the number of positions that a changed token can
    influence through raw logits: that of the tokens of the text or the context's window, whichever
    is smaller. Public; not used with ``context="released"``.
    """
    reason = _why_none(mechanism, space, adjacency, length)
    epsilon = math.inf if reason else _epsilon(mechanism, space, length)
    seen = "logits are made from released tokens and a public model alone"
    if mechanism.context == "raw":
        seen = "a changed token moves the law wherever its raw text is seen: "
        seen += f"at {length} positions at most, each counted in full" if length else _NO_LENGTH
    return Certificate(
        guarantee=NoGuarantee(reason=reason) if reason else PureDP(epsilon=epsilon),
        adjacency=adjacency,
        method="none" if reason else "proof",
        assumptions=(
            wording.ENTROPY,
            wording.LENGTH,
            "what rounding to integers can add is included",
            wording.unknown(space),
            *wording.classes(space, adjacency),
            seen,
            *mechanism.assumptions(space),
        ),
        claimed=mechanism.claimed_on(space),
        epsilon=epsilon,
        mechanism=mechanism.fingerprint,
        space=space.fingerprint,
    )


def calibrate_contextual(
    mechanism: M, space: EmbeddingSpace, epsilon: float, adjacency: Adjacency, length: int | None
) -> M:
    """Finds the nominal epsilon whose certified epsilon is the one asked for, or just below.

    The certified epsilon grows with the nominal one; it is bisected. At the largest nominal epsilon
    if even that is certified below the target, as on a space of one token.

    Raises:
        CannotCalibrate: What the sizes of the buckets alone reveal exceeds the target, or nothing
            is guaranteed whatever the parameter.
    """
    reason = _why_none(mechanism, space, adjacency, length)
    if reason:
        raise CannotCalibrate(f"nothing is guaranteed by {mechanism.name}: {reason}")

    def certified(nominal: float) -> float:
        return _epsilon(mechanism.at(nominal), space, length)

    low, high = min(_SMALLEST * epsilon, mechanism.largest), mechanism.largest
    least = certified(low)
    if least > epsilon:
        raise CannotCalibrate(
            f"no parameter of {mechanism.name} has a certified epsilon below {least:.4g}, which "
            "the sizes of its buckets alone can reveal; expected more than that, got "
            f"epsilon={epsilon:g}; use cape-strict, fewer buckets, or a shorter text"
        )
    if certified(high) <= epsilon:
        return mechanism.at(high)
    while high > low * (1 + _CLOSED):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if certified(middle) <= epsilon else (low, middle)
    return mechanism.at(low)


def _why_none(
    mechanism: ContextualMechanism, space: EmbeddingSpace, adjacency: Adjacency, length: int | None
) -> str:
    """Why nothing is guaranteed; empty if something is."""
    without_length = mechanism.context == "raw" and length is None
    return wording.dropped(space, adjacency) or (_NO_LENGTH if without_length else "")


def _epsilon(mechanism: ContextualMechanism, space: EmbeddingSpace, length: int | None) -> float:
    loss = mechanism.position_loss(len(space))
    loss += _slack(loss, len(space))
    return loss if mechanism.context == "released" or length is None else length * loss


def _slack(loss: float, size: int) -> float:
    """Nats that floats and integers can add to the loss of one position.

    Against the uniform row, the loss says that every ln P is at least -ln V - loss. An integer
    of a row is off by one unit at most, of 2^-64, or of 2^-128 if that row has a P below e^-30;
    one that was raised to 1 adds nothing. The likeliest token, of P >= 1/V, takes what is left:
    it is off by V units, and by V times the error of the row's sum.
    """
    lowest = -math.log(size) - loss
    bits_64, bits_128 = 64 * math.log(2) + max(lowest, sampler.WIDE_BELOW), 128 * math.log(2)
    unit = math.exp(-max(math.log(2), min(bits_64, bits_128 + lowest)))
    floats = RECOMPUTED * max(1.0, -0.1 * lowest) * (1.0 + 1e-2 * size)
    likeliest = size**2 * 2.0**-64
    return 2 * (-math.log1p(-unit) + floats + likeliest)
