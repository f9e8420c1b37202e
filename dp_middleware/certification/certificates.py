"""Certificates for a mechanism on a space, computed once and kept on disk."""

from __future__ import annotations

import math
from typing import Any

from dp_middleware.certification import storage
from dp_middleware.certification.enumeration import Loss, enumerate_pairs
from dp_middleware.embedding.space import ZERO_DISTANCE, EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.base import ChannelMechanism
from dp_middleware.privacy import (
    Adjacency,
    Certificate,
    Guarantee,
    Method,
    MetricDP,
    NoGuarantee,
    PureDP,
    Witness,
)
from dp_middleware.vocabulary import UNKNOWN

_ALWAYS = (
    "the operating system's entropy is uniform",
    "the number of tokens is public; a changed word may change several tokens",
    "integers may differ by one unit, and ln P by 1e-11 (1e-12 |ln P| where that is more), where "
    "rows are recomputed on another device; both are included",
)
_UNKNOWN = {
    "uniform": "an unknown token is released as a uniform draw",
    "split": "an unknown word is split into known tokens; what is left is a uniform draw",
    "drop": "an unknown token is dropped: the number of tokens reveals it",
    "raise": "a text with an unknown token is refused, which reveals that it has one",
}
_ALONE = "whether a token is in the vocabulary is public"


def certify(
    mechanism: ChannelMechanism, space: EmbeddingSpace, *, adjacency: Adjacency | None = None
) -> Certificate:
    """What the mechanism guarantees per token occurrence on the space.

    Exact by enumeration of the integers drawn from: O(V^2 d) time, O(V) memory beside one block.
    For a metric mechanism by its proof, with the diameter of the space. Kept on disk, keyed by
    mechanism, space, adjacency and the code that computes rows.

    Args:
        mechanism: A channel mechanism.
        space: V tokens with vectors.
        adjacency: Default :meth:`Adjacency.substitution`, over V plus the unknown symbol.

    Raises:
        ParameterError: ``adjacency`` has labels for another number of tokens.
    """
    if not isinstance(mechanism, ChannelMechanism):
        raise ParameterError(f"expected a mechanism, got {type(mechanism).__name__}")
    if not isinstance(adjacency, Adjacency | None):
        raise ParameterError(f"expected dp.Adjacency, got {type(adjacency).__name__}")
    relation = adjacency if adjacency is not None else Adjacency.substitution()
    labels = relation.classes
    if labels is not None and len(labels) not in (len(space), len(space) + 1):
        raise ParameterError(
            f"expected {len(space)} class labels, one per token, got {len(labels)}"
        )
    key = (mechanism.fingerprint, relation.fingerprint)
    stored = _from(storage.load("certificates", mechanism, space, *key), relation)
    if stored is not None:
        return stored
    certificate = _certificate(mechanism, space, relation)
    storage.store(certificate.to_dict(), "certificates", mechanism, space, *key)
    return certificate


def _from(data: dict[str, Any] | None, adjacency: Adjacency) -> Certificate | None:
    try:
        return None if data is None else Certificate.from_dict(data, adjacency)
    except (ValueError, KeyError, TypeError):
        return None  # damaged: computed again


def _certificate(
    mechanism: ChannelMechanism, space: EmbeddingSpace, adjacency: Adjacency
) -> Certificate:
    loss = enumerate_pairs(mechanism, space, adjacency)
    everything = adjacency.classes is None
    labels = adjacency.classes or ()
    dropped = len(labels) == len(space) + 1 and labels[-1] in labels[:-1]  # beside other tokens
    epsilon = loss.epsilon
    method: Method = "exact"
    guarantee: Guarantee = PureDP(epsilon=epsilon)
    if (everything or dropped) and space.vocabulary.unknown == "drop":
        epsilon, method = math.inf, "none"
        guarantee = NoGuarantee(reason=_UNKNOWN["drop"])
    elif math.isinf(epsilon):
        method = "none"
        guarantee = NoGuarantee(
            reason="some output is possible for one token and impossible "
            "for another; see the witness"
        )
    elif everything and mechanism.notion == "metric":
        epsilon = max(mechanism.epsilon * space.diameter + loss.rounding, loss.epsilon)
        # distances below ZERO_DISTANCE count as 0: each of score and normaliser moves by as much
        slack = loss.rounding + 2 * mechanism.epsilon * ZERO_DISTANCE
        guarantee, method = MetricDP(epsilon=mechanism.epsilon, slack=slack), "proof"
    return Certificate(
        guarantee=guarantee,
        adjacency=adjacency,
        method=method,
        assumptions=_assumptions(mechanism, space, adjacency),
        claimed=mechanism.claimed_epsilon,
        epsilon=epsilon,
        mechanism=mechanism.fingerprint,
        space=space.fingerprint,
        loss=max(loss.epsilon, epsilon) if math.isinf(epsilon) else loss.epsilon,
        witness=_witness(loss, space),
        recovery=loss.recovery,
        retention=loss.retention,
    )


def _assumptions(
    mechanism: ChannelMechanism, space: EmbeddingSpace, adjacency: Adjacency
) -> tuple[str, ...]:
    unknown = _UNKNOWN[space.vocabulary.unknown]
    metric = mechanism.notion == "metric" and adjacency.classes is None
    return (
        *_ALWAYS,
        unknown,
        *(("the class of a token is public",) if adjacency.classes is not None else ()),
        *((_ALONE,) if len(adjacency.classes or ()) == len(space) else ()),
        *(("the unknown symbol counts as one diameter away from every token",) if metric else ()),
        *mechanism.assumptions(space),
    )


def _witness(loss: Loss, space: EmbeddingSpace) -> Witness | None:
    if loss.token == loss.other:
        return None
    tokens = space.vocabulary.tokens
    token, other = (None if i == UNKNOWN else tokens[i] for i in (loss.token, loss.other))
    return Witness(token=token, other=other, output=tokens[loss.output])
