"""Sentences that certificates of all shapes share."""

from __future__ import annotations

import math
from typing import Any

from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.mechanisms.base import Mechanism
from dp_middleware.privacy import Adjacency, Certificate, Guarantee, NoGuarantee
from dp_middleware.privacy.certificate import Method

ENTROPY = "the operating system's entropy is uniform"
TEXT_TIME = (
    "the number of texts is public, and so is the time that one takes, which grows with its length "
    "up to the encoder's window"
)
ENCODER = (
    "the encoder answers for every text, and the vector of a text does not depend on what else is "
    "encoded at that time; by how much rounding breaks the latter is not covered"
)
NOISE_ENTROPY = (
    "the bytes that noise is made of are uniform: from OpenSSL's generator, seeded with the "
    "operating system's entropy, or from the latter where Python has no OpenSSL"
)
LENGTH = "the number of tokens is public; a changed word may change several tokens"
_DROPPED = "an unknown token is dropped: the number of tokens reveals it"

_UNKNOWN = {
    "uniform": "an unknown token is {fate}",
    "split": "an unknown word is split into known tokens; what is left is {fate}",
    "drop": _DROPPED,
    "raise": "a text with an unknown token is refused, which reveals that it has one",
}


def stated(
    mechanism: Mechanism,
    on: Any,
    adjacency: Adjacency,
    guarantee: Guarantee,
    notes: tuple[str, ...],
    method: Method = "proof",
    **more: Any,
) -> Certificate:
    """A certificate on a space or a basis; epsilon is the guarantee's unless ``more`` has it."""
    nothing = isinstance(guarantee, NoGuarantee)
    return Certificate(
        guarantee=guarantee,
        adjacency=adjacency,
        method="none" if nothing else method,
        assumptions=notes,
        claimed=mechanism.claimed_on(on),
        mechanism=mechanism.fingerprint,
        space=on.fingerprint,
        **{"epsilon": getattr(guarantee, "epsilon", math.inf), **more},
    )


def unknown(space: EmbeddingSpace, fate: str = "released as a uniform draw") -> str:
    """Says what happens to a token that is not in the vocabulary."""
    return _UNKNOWN[space.vocabulary.unknown].format(fate=fate)


def classes(space: EmbeddingSpace, adjacency: Adjacency) -> tuple[str, ...]:
    """Says what an adjacency within classes reveals."""
    if adjacency.classes is None:
        return ()
    alone = "whether a token is in the vocabulary is public"
    return (
        "the class of a token is public",
        *((alone,) if len(adjacency.classes) == len(space) else ()),
    )


def unknown_has_neighbours(space: EmbeddingSpace, adjacency: Adjacency) -> bool:
    """Tells whether some token is adjacent to the unknown symbol."""
    if not space.vocabulary.has_unknown_symbol:
        return False
    labels = adjacency.classes
    return labels is None or (len(labels) == len(space) + 1 and labels[-1] in labels[:-1])


def dropped(space: EmbeddingSpace, adjacency: Adjacency) -> str:
    """Says why nothing is guaranteed where an unknown token, unlike neighbours, is dropped."""
    drops = space.vocabulary.unknown == "drop" and unknown_has_neighbours(space, adjacency)
    return _DROPPED if drops else ""
