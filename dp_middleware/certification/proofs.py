"""Certificates by proof: with a context, by noise, and for a whole text or a vector.

With a context of released tokens the rows of two adjacent texts, at equal releases so far, differ
at the changed position only: the loss is that of one position, by adaptive composition. In one of
raw tokens the changed token moves the row at every position that sees it, each at this loss.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from dp_middleware.certification.enumeration import RECOMPUTED
from dp_middleware.embedding.arrays import slices
from dp_middleware.embedding.space import EmbeddingSpace, once
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms import ContextualMechanism, Mechanism, NoiseMechanism
from dp_middleware.mechanisms.kernels import noise
from dp_middleware.mechanisms.text_mechanisms import TextMechanism
from dp_middleware.mechanisms.vector_response import VectorResponse
from dp_middleware.privacy import Adjacency, Certificate, Guarantee, MetricDP, NoGuarantee, PureDP
from dp_middleware.privacy.certificate import Method
from dp_middleware.sampling import sampler

_LARGEST_FLOAT_DISTANCE = 1e-6
_ROUNDING = 1 + 2.0**-52  # a distance is the root of an exact number, rounded once

_LINES = (Path(__file__).parent / "sentences.txt").read_text(encoding="utf-8").splitlines()
_SENTENCES = dict(line.split(": ", 1) for line in _LINES)


def say(*names: str) -> tuple[str, ...]:
    """Gives sentences of certificates by their names in ``sentences.txt``."""
    return tuple(_SENTENCES[name] for name in names)


def stated(
    mechanism: Mechanism,
    on: Any,
    adjacency: Adjacency,
    guarantee: Guarantee | str,
    notes: tuple[str, ...],
    method: Method = "proof",
    **more: Any,
) -> Certificate:
    """Makes a certificate on a space or a basis, or says why nothing is guaranteed."""
    if isinstance(guarantee, str):
        guarantee, method = NoGuarantee(reason=guarantee), "none"
    return Certificate(
        guarantee=guarantee,
        adjacency=adjacency,
        method=method,
        assumptions=notes,
        claimed=mechanism.claimed_on(on),
        mechanism=mechanism.fingerprint,
        space=on.fingerprint,
        **{"epsilon": getattr(guarantee, "epsilon", math.inf), **more},
    )


def revealed(
    space: EmbeddingSpace, adjacency: Adjacency, fate: str = "released"
) -> tuple[str, ...]:
    """Says what happens to a token that is not in the vocabulary, and what classes reveal."""
    unknown = _SENTENCES[f"unknown {space.vocabulary.unknown}"].format(_SENTENCES[fate])
    if adjacency.classes is None:
        return (unknown,)
    is_known = ("known",) * (len(adjacency.classes) == len(space))
    return (unknown, *say("class", *is_known))


def _unknown_has_neighbours(space: EmbeddingSpace, adjacency: Adjacency) -> bool:
    if not space.vocabulary.has_unknown_symbol:
        return False
    labels = adjacency.classes
    return labels is None or (len(labels) == len(space) + 1 and labels[-1] in labels[:-1])


def dropped(space: EmbeddingSpace, adjacency: Adjacency) -> str:
    """Says why nothing is guaranteed where an unknown token, unlike neighbours, is dropped."""
    drops = space.vocabulary.unknown == "drop" and _unknown_has_neighbours(space, adjacency)
    return _SENTENCES["unknown drop"] if drops else ""


def certify_contextual(
    mechanism: ContextualMechanism, space: EmbeddingSpace, adjacency: Adjacency, length: int | None
) -> Certificate:
    """States what the mechanism guarantees per token occurrence on the space, for any two tokens.

    ``length``, public, bounds the positions that a changed token can influence through raw logits.
    """
    reason = why_none(mechanism, space, adjacency, length)
    seen = _SENTENCES["public logits"]
    if mechanism.context == "raw":
        where = _SENTENCES["positions" if length else "no length"].format(length)
        seen = _SENTENCES["raw logits"].format(where)
    notes = (*say("entropy", "length", "rounding"), *revealed(space, adjacency), seen)
    notes += mechanism.assumptions(space)
    guarantee = reason or PureDP(epsilon=contextual_epsilon(mechanism, space, length))
    return stated(mechanism, space, adjacency, guarantee, notes)


def why_none(
    mechanism: ContextualMechanism, space: EmbeddingSpace, adjacency: Adjacency, length: int | None
) -> str:
    """Says why nothing is guaranteed; empty if something is."""
    without_length = mechanism.context == "raw" and length is None
    return dropped(space, adjacency) or (_SENTENCES["no length"] if without_length else "")


def contextual_epsilon(
    mechanism: ContextualMechanism, space: EmbeddingSpace, length: int | None
) -> float:
    """Bounds the loss over all positions that a token moves, nats."""
    loss = mechanism.position_loss(len(space))
    loss += _slack(loss, len(space))
    return loss if mechanism.context == "released" or length is None else length * loss


def _slack(loss: float, size: int) -> float:
    """Bounds the nats that floats and integers can add to the loss of one position.

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
    classes a pure one, with the constant times the largest distance inside a class.
    """
    constant = mechanism.lipschitz(length)
    floats = mechanism.float_distance(space, length)
    lengths = _SENTENCES["all lengths" if length is None else "one length"].format(length)
    notes = (*say("noise entropy", "length", "chord"), lengths)
    notes += (*revealed(space, adjacency, "replaced"), *mechanism.assumptions(space))
    reason = _SENTENCES["no noise"] if math.isinf(constant) else ""
    if not reason and floats > _LARGEST_FLOAT_DISTANCE:
        shown = noise.rounded_up(floats), f"{_LARGEST_FLOAT_DISTANCE:g}"
        reason = _SENTENCES["coarse"].format(*shown)
    reason = reason or dropped(space, adjacency)
    if reason:
        return stated(mechanism, space, adjacency, reason, notes)
    if adjacency.classes is None or _unknown_has_neighbours(space, adjacency):
        epsilon = constant * space.diameter * _ROUNDING  # an unknown one may become any token
    else:
        epsilon = constant * _class_diameter(space, adjacency)
    if floats > 0 and math.isfinite(epsilon):
        notes += (_price(floats, epsilon),)
    metric = MetricDP(epsilon=constant) if adjacency.classes is None else None
    guarantee = metric or PureDP(epsilon=epsilon)
    return stated(mechanism, space, adjacency, guarantee, notes, epsilon=epsilon, metric=metric)


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
    return _SENTENCES["price"].format(shown, noise.rounded_up(floats))


def certify_text(
    mechanism: TextMechanism, space: EmbeddingSpace, adjacency: Adjacency
) -> Certificate:
    """States what the mechanism guarantees for texts or sentences, from the integers drawn from."""
    names = ("entropy", "units", "text time", "encoder", "sentences")
    notes = (*say(*names[: 4 + adjacency.by_sentence]), *mechanism.assumptions(space))
    return stated(mechanism, space, adjacency, PureDP(epsilon=mechanism.loss), notes, "exact")


def certify_vectors(mechanism: VectorResponse, adjacency: Adjacency | None) -> Certificate:
    """States what a vector response guarantees per text; ParameterError: an adjacency of tokens."""
    relation = Adjacency.texts() if adjacency is None else adjacency
    if getattr(relation, "fingerprint", None) != "texts":
        raise ParameterError(
            f"expected adjacency=dp.Adjacency.texts() for {mechanism.name}, got {relation!r}: it "
            "releases one vector for a whole text"
        )
    drawn = mechanism.cap
    notes = say("noise entropy", "text time", "encoder", "components", "rounded vectors")
    notes += (f"{drawn.dimensions} components, a cap of cosine {drawn.threshold:.4f}",)
    return stated(mechanism, mechanism.basis, relation, PureDP(epsilon=drawn.loss), notes)
