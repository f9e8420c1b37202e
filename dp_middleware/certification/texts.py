"""Certificates of mechanisms that release a text for a whole text."""

from __future__ import annotations

from dp_middleware.certification import wording
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.mechanisms.text_mechanisms import TextMechanism
from dp_middleware.privacy import Adjacency, Certificate, PureDP

_TEXTS = (
    wording.ENTROPY,
    "units, their number and the order in which they are offered are public",
    wording.TEXT_TIME,
    wording.ENCODER,
)


def certify_text(
    mechanism: TextMechanism, space: EmbeddingSpace, adjacency: Adjacency
) -> Certificate:
    """What the mechanism guarantees for a whole text, from the integers that it draws from.

    Args:
        mechanism: A mechanism of whole texts.
        space: Of the sanitizer; the guarantee does not depend on it.
        adjacency: :meth:`Adjacency.texts`.
    """
    return Certificate(
        guarantee=PureDP(epsilon=mechanism.loss),
        adjacency=adjacency,
        method="exact",
        assumptions=(*_TEXTS, *mechanism.assumptions(space)),
        claimed=mechanism.claimed_on(space),
        epsilon=mechanism.loss,
        mechanism=mechanism.fingerprint,
        space=space.fingerprint,
    )
