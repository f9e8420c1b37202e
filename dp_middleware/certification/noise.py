"""Certificates for noise mechanisms: by proof, with constants for this space and length."""

from __future__ import annotations

import math

import numpy as np

from dp_middleware.certification import wording
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.mechanisms.kernels import noise
from dp_middleware.mechanisms.text_mechanisms import NoiseMechanism
from dp_middleware.privacy import Adjacency, Certificate, Guarantee, MetricDP, NoGuarantee, PureDP

_ALWAYS = (
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
    return Certificate(
        guarantee=guarantee,
        adjacency=adjacency,
        method="none" if isinstance(guarantee, NoGuarantee) else "proof",
        assumptions=(
            *_ALWAYS,
            lengths,
            wording.unknown(space, _REPLACED),
            *wording.classes(space, adjacency),
            *mechanism.assumptions(space),
            *((_price(floats, epsilon),) if floats > 0 and math.isfinite(epsilon) else ()),
        ),
        claimed=mechanism.claimed_on(space),
        epsilon=epsilon,
        mechanism=mechanism.fingerprint,
        space=space.fingerprint,
        metric=guarantee if isinstance(guarantee, MetricDP) else None,
    )


def _guarantee(
    constant: float, floats: float, space: EmbeddingSpace, adjacency: Adjacency
) -> tuple[Guarantee, float]:
    if math.isinf(constant):
        return NoGuarantee(reason=_NO_NOISE), math.inf
    if floats > _LARGEST_FLOAT_DISTANCE:
        return NoGuarantee(reason=_coarse(floats)), math.inf
    if reason := wording.dropped(space, adjacency):
        return NoGuarantee(reason=reason), math.inf
    if adjacency.classes is None:
        return MetricDP(epsilon=constant), constant * space.diameter * _ROUNDING
    if wording.unknown_has_neighbours(space, adjacency):  # of which it may become any token
        epsilon = constant * space.diameter * _ROUNDING
    else:
        epsilon = constant * _class_diameter(space, adjacency)
    return PureDP(epsilon=epsilon), epsilon


def _class_diameter(space: EmbeddingSpace, adjacency: Adjacency) -> float:
    """At least the largest distance between two tokens of one class."""
    labels = np.array(adjacency.numbers[: len(space)])

    def largest() -> float:
        ids, diameter, labelled = np.arange(len(space)), 0.0, space.on_device(labels)
        for start in range(0, len(space), space.block):
            distances = space.distance_rows(ids[start : start + space.block])
            same = labelled[start : start + space.block, None] == labelled
            diameter = max(diameter, float(distances.where(same, 0.0).max()))
        return diameter * _ROUNDING

    return space.derived(("class-diameter", adjacency.fingerprint), largest)


def _price(floats: float, epsilon: float) -> str:
    """(1 + e^epsilon) t: what floating point costs beside the certified epsilon."""
    logarithm = float(np.logaddexp(0.0, epsilon)) + math.log(floats)
    shown = f"{noise.rounded_up(math.exp(logarithm))} at most" if logarithm < 0 else "1 (vacuous)"
    return (
        f"at the certified epsilon, floating point costs a delta of {shown}: (1 + e^epsilon) t "
        f"with t = {noise.rounded_up(floats)} over all positions that a token moves; for two "
        "tokens at distance d, epsilon is the constant times d"
    )


def _coarse(floats: float) -> str:
    return (
        "the vectors are so long for this noise that float64 cannot draw it: the law may differ "
        f"by {noise.rounded_up(floats)} in total variation; expected at most "
        f"{_LARGEST_FLOAT_DISTANCE:g}; scale the vectors down, or leave out those far from the rest"
    )
