"""Certificates by proof: with a context, by noise, and for a whole text or a vector.

With a context of released tokens the rows of two adjacent texts, at equal releases so far, differ
at the changed position only: the loss is that of one position, by adaptive composition. In one of
raw tokens the changed token moves the row at every position that sees it, each at this loss.
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np

from dp_middleware.certification import wording
from dp_middleware.certification.enumeration import RECOMPUTED
from dp_middleware.embedding.arrays import slices
from dp_middleware.embedding.space import EmbeddingSpace, once
from dp_middleware.errors import CannotCalibrate, ParameterError
from dp_middleware.mechanisms.kernels import noise
from dp_middleware.mechanisms.text_mechanisms import (
    ContextualMechanism,
    NoiseMechanism,
    TextMechanism,
)
from dp_middleware.mechanisms.vector_response import VectorResponse
from dp_middleware.privacy import Adjacency, Certificate, Guarantee, MetricDP, NoGuarantee, PureDP
from dp_middleware.sampling import sampler

M = TypeVar("M", bound=ContextualMechanism)

_NO_LENGTH = "the text's length or the model's window is not known; pass length="
_SMALLEST = 1e-9  # nominal epsilon, relative to the target
_CLOSED = 1e-12  # relative width of a bracket
_NOISE = (
    wording.NOISE_ENTROPY,
    wording.LENGTH,
    "for vectors of unit length the distance is the chord sqrt(2 (1 - cos)), not the cosine "
    "distance 1 - cos, in which no such bound holds",
)
_REPLACED = (
    "replaced by a uniformly drawn token before noise is added: a mixture of tokens, one diameter "
    "away from every token at most"
)
_NO_NOISE = "no noise is added: what is released is a function of the text"
_ROUNDING = 1 + 2.0**-52  # a distance is the root of an exact number, rounded once
_LARGEST_FLOAT_DISTANCE = 1e-6
_COARSE = (
    "the vectors are so long for this noise that float64 cannot draw it: the law may differ by {} "
    f"in total variation; expected at most {_LARGEST_FLOAT_DISTANCE:g}; scale the vectors down, or "
    "leave out those far from the rest"
)
_TEXTS = (
    wording.ENTROPY,
    "units, their number and the order in which they are offered are public",
    wording.TEXT_TIME,
    wording.ENCODER,
)
_SENTENCES = (
    "the number of sentences is public, which end at a line's end or at . ! ? before a blank; all "
    "of a text cost as many times epsilon together, and so does what several of them tell"
)
_VECTORS = (
    wording.NOISE_ENTROPY,
    wording.TEXT_TIME,
    wording.ENCODER,
    "the mean, the components and their variances come from public texts alone",
    "vectors are rounded to a public grid, and what that and float64 cost is part of epsilon; "
    "logarithms, powers and normal quantiles are taken to be as exact as their libraries state",
)


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
    notes = (
        wording.ENTROPY,
        wording.LENGTH,
        "what rounding to integers can add is included",
        wording.unknown(space),
        *wording.classes(space, adjacency),
        seen,
        *mechanism.assumptions(space),
    )
    guarantee = NoGuarantee(reason=reason) if reason else PureDP(epsilon=epsilon)
    return wording.stated(mechanism, space, adjacency, guarantee, notes)


def calibrate_contextual(
    mechanism: M, space: EmbeddingSpace, epsilon: float, adjacency: Adjacency, length: int | None
) -> M:
    """Finds the nominal epsilon whose certified epsilon is the one asked for, or just below.

    The certified epsilon grows with the nominal one; it is bisected. At the largest nominal epsilon
    if even that is certified below the target, as on a space of one token. CannotCalibrate: what
    the sizes of the buckets alone reveal exceeds the target, or nothing is guaranteed at all.
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


def certify_noise(
    mechanism: NoiseMechanism, space: EmbeddingSpace, adjacency: Adjacency, length: int | None
) -> Certificate:
    """States what the mechanism guarantees per token occurrence, all positions together.

    Under substitution a metric guarantee, with ``epsilon`` the constant times the diameter; within
    classes a pure one, with the constant times the largest distance inside a class. ``claimed`` is
    the paper's constant per unit of distance, as for every metric mechanism. ``length`` is the
    public number of tokens of the text; ``None``: the worst over all lengths.
    """
    constant = mechanism.lipschitz(length)
    floats = mechanism.float_distance(space, length)
    guarantee, epsilon = _guarantee(constant, floats, space, adjacency)
    lengths = "the constant is the largest over all numbers of tokens"
    if length is not None:
        lengths = f"the constant is for a text of {length} tokens"
    notes = (
        *_NOISE,
        lengths,
        wording.unknown(space, _REPLACED),
        *wording.classes(space, adjacency),
        *mechanism.assumptions(space),
        *((_price(floats, epsilon),) if floats > 0 and math.isfinite(epsilon) else ()),
    )
    metric = guarantee if isinstance(guarantee, MetricDP) else None
    return wording.stated(
        mechanism, space, adjacency, guarantee, notes, epsilon=epsilon, metric=metric
    )


def _guarantee(
    constant: float, floats: float, space: EmbeddingSpace, adjacency: Adjacency
) -> tuple[Guarantee, float]:
    if math.isinf(constant):
        return NoGuarantee(reason=_NO_NOISE), math.inf
    if floats > _LARGEST_FLOAT_DISTANCE:
        return NoGuarantee(reason=_COARSE.format(noise.rounded_up(floats))), math.inf
    if reason := wording.dropped(space, adjacency):
        return NoGuarantee(reason=reason), math.inf
    if adjacency.classes is None:
        return MetricDP(epsilon=constant), constant * space.diameter * _ROUNDING
    if wording.unknown_has_neighbours(space, adjacency):  # of which it may become any token
        epsilon = constant * space.diameter * _ROUNDING
    else:
        epsilon = constant * _class_diameter(space, adjacency)
    return PureDP(epsilon=epsilon), epsilon


@once
def _class_diameter(space: EmbeddingSpace, adjacency: Adjacency) -> float:
    """At least the largest distance between two tokens of one class."""
    labels = space.on_device(np.array(adjacency.numbers[: len(space)]))
    ids, diameter = np.arange(len(space)), 0.0
    for part in slices(len(space), space.block):
        distances, same = space.distance_rows(ids[part]), labels[part, None] == labels
        diameter = max(diameter, float(distances.where(same, 0.0).max()))
    return diameter * _ROUNDING


def _price(floats: float, epsilon: float) -> str:
    """(1 + e^epsilon) t: what floating point costs beside the certified epsilon."""
    logarithm = float(np.logaddexp(0.0, epsilon)) + math.log(floats)
    shown = f"{noise.rounded_up(math.exp(logarithm))} at most" if logarithm < 0 else "1 (vacuous)"
    return (
        f"at the certified epsilon, floating point costs a delta of {shown}: (1 + e^epsilon) t "
        f"with t = {noise.rounded_up(floats)} over all positions that a token moves; for two "
        "tokens at distance d, epsilon is the constant times d"
    )


def certify_text(
    mechanism: TextMechanism, space: EmbeddingSpace, adjacency: Adjacency
) -> Certificate:
    """States what the mechanism guarantees for texts or sentences, from the integers drawn from."""
    notes = (*_TEXTS, *(_SENTENCES,) * adjacency.by_sentence, *mechanism.assumptions(space))
    guarantee = PureDP(epsilon=mechanism.loss)
    return wording.stated(mechanism, space, adjacency, guarantee, notes, "exact")


def certify_vectors(mechanism: VectorResponse, adjacency: Adjacency | None) -> Certificate:
    """States what a vector response guarantees per text; ParameterError: an adjacency of tokens."""
    relation = Adjacency.texts() if adjacency is None else adjacency
    if getattr(relation, "fingerprint", None) != "texts":
        raise ParameterError(
            f"expected adjacency=dp.Adjacency.texts() for {mechanism.name}, got {relation!r}: it "
            "releases one vector for a whole text"
        )
    drawn = mechanism.cap
    kept = f"{drawn.dimensions} components, a cap of cosine {drawn.threshold:.4f}"
    guarantee = PureDP(epsilon=drawn.loss)
    return wording.stated(mechanism, mechanism.basis, relation, guarantee, (*_VECTORS, kept))
