"""Certificates for released vectors of whole texts: by proof, rounding included."""

from __future__ import annotations

from dp_middleware.certification import wording
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.vector_response import VectorResponse
from dp_middleware.privacy import Adjacency, Certificate, PureDP

_ALWAYS = (
    wording.NOISE_ENTROPY,
    wording.TEXT_TIME,
    wording.ENCODER,
    "the mean, the components and their variances come from public texts alone",
    "vectors are rounded to a public grid, and what that and float64 cost is part of epsilon; "
    "logarithms, powers and normal quantiles are taken to be as exact as their libraries state",
)


def certify_vectors(mechanism: VectorResponse, adjacency: Adjacency | None) -> Certificate:
    """What a vector response guarantees per text, whatever text stands instead.

    Raises:
        ParameterError: An adjacency of tokens.
    """
    relation = Adjacency.texts() if adjacency is None else adjacency
    if not getattr(relation, "whole", False):
        raise ParameterError(
            f"expected adjacency=dp.Adjacency.texts() for {mechanism.name}, got {relation!r}: it "
            "releases one vector for a whole text"
        )
    drawn = mechanism.cap
    kept = f"{drawn.dimensions} components, a cap of cosine {drawn.threshold:.4f}"
    return Certificate(
        guarantee=PureDP(epsilon=drawn.loss),
        adjacency=relation,
        method="proof",
        assumptions=(*_ALWAYS, kept),
        claimed=mechanism.claimed_epsilon,
        epsilon=drawn.loss,
        mechanism=mechanism.fingerprint,
        space=mechanism.basis.fingerprint,
    )
