"""Certificates for a mechanism on a space, computed once and kept on disk."""

from __future__ import annotations

import math
from typing import Any

from dp_middleware import _validate
from dp_middleware.certification import storage, wording
from dp_middleware.certification.contextual import certify_contextual
from dp_middleware.certification.enumeration import Loss, enumerate_pairs
from dp_middleware.certification.noise import certify_noise
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.base import (
    ChannelMechanism,
    ContextualMechanism,
    Mechanism,
    NoiseMechanism,
)
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
from dp_middleware.vocabulary.vocabulary import UNKNOWN

_ALWAYS = (
    wording.ENTROPY,
    wording.LENGTH,
    "where another machine takes exponentials and logarithms, integers may differ by one unit, and "
    "ln P by 1e-11 (1e-12 |ln P| where that is more); both are included",
)
_UNKNOWN_DISTANCE = (
    "in the metric guarantee the unknown symbol counts as one diameter away from every token"
)


def certify(
    mechanism: Mechanism,
    space: EmbeddingSpace,
    *,
    adjacency: Adjacency | None = None,
    length: int | None = None,
) -> Certificate:
    """What the mechanism guarantees per token occurrence on the space.

    A channel: exact, by enumeration of the integers drawn from: O(V^2 d) time, O(V) memory beside
    one block. Under substitution a channel with a metric proof has that guarantee beside the exact
    one. Kept on disk, keyed by mechanism, space, adjacency and the code that computes rows. A noise
    or contextual mechanism: by its proof, with constants for this space and length.

    Args:
        mechanism: A mechanism of any shape.
        space: V tokens with vectors.
        adjacency: Default :meth:`Adjacency.substitution`, over V plus the unknown symbol.
        length: Number of tokens of the text, public; ``None``: any. Matters only where a token
            moves the law at other positions: a window (``DChiStencil``) or a raw context
            (``Cape``), for which nothing finite holds at every length.

    Raises:
        ParameterError: ``adjacency`` has labels for another number of tokens, or ``length`` is
            not a positive integer.
    """
    relation = adjacency if adjacency is not None else Adjacency.substitution()
    check(mechanism, space, relation, length)
    if isinstance(mechanism, NoiseMechanism):
        return certify_noise(mechanism, space, relation, length)
    if isinstance(mechanism, ContextualMechanism):
        return certify_contextual(mechanism, space, relation, length)
    assert isinstance(mechanism, ChannelMechanism)  # as checked
    key = (mechanism.fingerprint, relation.fingerprint)
    stored = _from(storage.load("certificates", mechanism, space, *key), relation)
    if stored is not None:
        return stored
    certificate = _certificate(mechanism, space, relation)
    storage.store(certificate.to_dict(), "certificates", mechanism, space, *key)
    return certificate


def check(
    mechanism: Mechanism, space: EmbeddingSpace, adjacency: Adjacency, length: int | None
) -> None:
    """Refuse arguments that cannot be certified together."""
    if not isinstance(mechanism, ChannelMechanism | ContextualMechanism | NoiseMechanism):
        raise ParameterError(f"expected a mechanism, got {type(mechanism).__name__}")
    if not isinstance(adjacency, Adjacency):
        raise ParameterError(f"expected dp.Adjacency, got {type(adjacency).__name__}")
    labels = adjacency.classes
    if labels is not None and len(labels) not in (len(space), len(space) + 1):
        raise ParameterError(
            f"expected {len(space)} class labels, one per token, got {len(labels)}"
        )
    if length is not None:
        _validate.at_least(1, length=length)


def _from(data: dict[str, Any] | None, adjacency: Adjacency) -> Certificate | None:
    try:
        return None if data is None else Certificate.from_dict(data, adjacency)
    except (ValueError, KeyError, TypeError):
        return None  # damaged: computed again


def _certificate(
    mechanism: ChannelMechanism, space: EmbeddingSpace, adjacency: Adjacency
) -> Certificate:
    loss = enumerate_pairs(mechanism, space, adjacency)
    epsilon = loss.epsilon
    method: Method = "exact"
    guarantee: Guarantee = PureDP(epsilon=epsilon)
    metric: MetricDP | None = None
    beside_unknown = wording.unknown_has_neighbours(space, adjacency)
    if beside_unknown and space.vocabulary.unknown == "drop":
        epsilon, method = math.inf, "none"
        guarantee = NoGuarantee(reason=wording.DROPPED)
    elif math.isinf(epsilon):
        method = "none"
        guarantee = NoGuarantee(
            reason="some output is possible for one token and impossible "
            "for another; see the witness"
        )
    elif mechanism.notion == "metric" and adjacency.classes is None:
        metric = MetricDP(epsilon=mechanism.epsilon, slack=loss.rounding)
    return Certificate(
        guarantee=guarantee,
        adjacency=adjacency,
        method=method,
        assumptions=_assumptions(mechanism, space, adjacency, metric),
        claimed=mechanism.claimed_on(space),
        epsilon=epsilon,
        mechanism=mechanism.fingerprint,
        space=space.fingerprint,
        metric=metric,
        witness=_witness(loss, space),
        recovery=loss.recovery,
        retention=loss.retention,
    )


def _assumptions(
    mechanism: ChannelMechanism,
    space: EmbeddingSpace,
    adjacency: Adjacency,
    metric: MetricDP | None,
) -> tuple[str, ...]:
    unknown_has_distance = metric is not None and space.vocabulary.has_unknown_symbol
    return (
        *_ALWAYS,
        wording.unknown(space),
        *wording.classes(space, adjacency),
        *((_UNKNOWN_DISTANCE,) if unknown_has_distance else ()),
        *mechanism.assumptions(space),
    )


def _witness(loss: Loss, space: EmbeddingSpace) -> Witness | None:
    if loss.token == loss.other:
        return None
    tokens = space.vocabulary.tokens
    token, other = (None if i == UNKNOWN else tokens[i] for i in (loss.token, loss.other))
    return Witness(token=token, other=other, output=tokens[loss.output])
