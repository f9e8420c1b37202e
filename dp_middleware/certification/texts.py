"""Certificates of mechanisms that release a text, or a vector, for a whole text."""

from __future__ import annotations

from dp_middleware.certification import wording
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.text_mechanisms import TextMechanism
from dp_middleware.mechanisms.vector_response import VectorResponse
from dp_middleware.privacy import Adjacency, Certificate, PureDP

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


def certify_text(
    mechanism: TextMechanism, space: EmbeddingSpace, adjacency: Adjacency
) -> Certificate:
    """States what the mechanism guarantees for a whole text, from the integers that it draws from.

    The guarantee does not depend on the space, which is that of the sanitizer; the adjacency is one
    of texts or of sentences.
    """
    return Certificate(
        guarantee=PureDP(epsilon=mechanism.loss),
        adjacency=adjacency,
        method="exact",
        assumptions=(
            *_TEXTS,
            *((_SENTENCES,) * adjacency.by_sentence),
            *mechanism.assumptions(space),
        ),
        claimed=mechanism.claimed_on(space),
        epsilon=mechanism.loss,
        mechanism=mechanism.fingerprint,
        space=space.fingerprint,
    )


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
    return Certificate(
        guarantee=PureDP(epsilon=drawn.loss),
        adjacency=relation,
        method="proof",
        assumptions=(*_VECTORS, kept),
        claimed=mechanism.claimed_epsilon,
        epsilon=drawn.loss,
        mechanism=mechanism.fingerprint,
        space=mechanism.basis.fingerprint,
    )
