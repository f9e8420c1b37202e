"""Certificates for a mechanism on a space, computed once and kept on disk."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

from dp_middleware import _files, _validate
from dp_middleware._files import code_fingerprint
from dp_middleware._waits import told
from dp_middleware.certification import proofs, wording
from dp_middleware.certification.enumeration import Loss, enumerate_pairs
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms import landmarks
from dp_middleware.mechanisms.base import ChannelMechanism, Mechanism, is_kept
from dp_middleware.mechanisms.text_mechanisms import (
    ContextualMechanism,
    NoiseMechanism,
    TextMechanism,
)
from dp_middleware.mechanisms.vector_response import VectorResponse
from dp_middleware.privacy import Adjacency, Certificate, MetricDP, NoGuarantee, PureDP, Witness
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
    space: EmbeddingSpace | None = None,
    *,
    adjacency: Adjacency | None = None,
    length: int | None = None,
) -> Certificate:
    """States what the mechanism guarantees per token occurrence on the space, or for a text.

    A channel: exact, by enumeration of the integers drawn from: O(V^2 d) time, O(V) memory beside
    one block. Under substitution a channel with a metric proof has that guarantee beside the exact
    one. Kept on disk, keyed by mechanism, space, adjacency and the code that computes rows. A noise
    or contextual mechanism: by its proof, with constants for this space and length. A
    ``VectorResponse``, which has no space: by its proof, per text.

    Args:
        mechanism: A mechanism of any shape.
        space: V tokens with vectors; ``None`` for a mechanism of vectors.
        adjacency: Default :meth:`Adjacency.substitution`, over V plus the unknown symbol; of a
            mechanism of whole texts :meth:`Adjacency.texts`, and no other.
        length: Number of tokens of the text, public; ``None``: any. Matters only where a token
            moves the law at other positions: a window (``DChiStencil``) or a raw context
            (``Cape``), for which nothing finite holds at every length.

    Raises:
        ParameterError: ``adjacency`` has labels for another number of tokens, or ``length`` is
            not a positive integer, or the space is missing.
    """
    if isinstance(mechanism, VectorResponse):
        return proofs.certify_vectors(mechanism, adjacency)
    if space is None:
        raise ParameterError("expected space= for a mechanism of tokens, got none")
    relation = check(mechanism, space, adjacency, length)
    if isinstance(mechanism, TextMechanism):
        return proofs.certify_text(mechanism, space, relation)
    if isinstance(mechanism, NoiseMechanism):
        return proofs.certify_noise(mechanism, space, relation, length)
    if isinstance(mechanism, ContextualMechanism):
        return proofs.certify_contextual(mechanism, space, relation, length)
    assert isinstance(mechanism, ChannelMechanism)  # as checked
    key = (mechanism.fingerprint, relation.fingerprint)
    stored = load("certificates", mechanism, space, *key)
    if stored is not None:
        with suppress(ValueError, KeyError, TypeError):  # damaged: computed again
            return Certificate.from_dict(stored, relation)
    with told(f"certifying {mechanism.name} on {len(space):,} tokens"):
        certificate = _certificate(mechanism, space, relation)
    store(certificate.to_dict(), "certificates", mechanism, space, *key)
    return certificate


def adjacency_of(mechanism: Mechanism) -> Adjacency:
    """Says what a certificate compares if nothing else is asked for."""
    whole = isinstance(mechanism, TextMechanism)
    return Adjacency.texts() if whole else Adjacency.substitution()


def check(
    mechanism: Mechanism, space: EmbeddingSpace, adjacency: Adjacency | None, length: int | None
) -> Adjacency:
    """Returns the adjacency, default substitution; refuses what cannot be certified together."""
    if adjacency is None:
        adjacency = adjacency_of(mechanism)
    if not isinstance(
        mechanism, ChannelMechanism | ContextualMechanism | NoiseMechanism | TextMechanism
    ):
        raise ParameterError(f"expected a mechanism, got {type(mechanism).__name__}")
    if not isinstance(adjacency, Adjacency):
        raise ParameterError(f"expected dp.Adjacency, got {type(adjacency).__name__}")
    if adjacency.whole != isinstance(mechanism, TextMechanism):
        tokens = "an adjacency of tokens for {}, got that of whole texts, which hides their number"
        texts = "dp.Adjacency.texts() or sentences() for {}, which releases whole texts"
        raise ParameterError(
            f"expected {tokens if adjacency.whole else texts}".format(mechanism.name)
        )
    labels, size = adjacency.classes, len(space)
    if labels is not None and len(labels) not in (size, size + 1):
        raise ParameterError(f"expected {size} class labels, one per token, got {len(labels)}")
    if length is not None:
        _validate.at_least(1, length=length)
    return adjacency


def _certificate(
    mechanism: ChannelMechanism, space: EmbeddingSpace, adjacency: Adjacency
) -> Certificate:
    survey = landmarks.survey(mechanism, space)
    loss = enumerate_pairs(mechanism, space, adjacency, survey)
    if survey is not None:
        survey.keep()
    reason = wording.dropped(space, adjacency)
    if not reason and math.isinf(loss.epsilon):
        reason = "some output is possible for one token and impossible for another; see the witness"
    metric: MetricDP | None = None
    if not reason and mechanism.notion == "metric" and adjacency.classes is None:
        metric = MetricDP(epsilon=mechanism.epsilon, slack=loss.rounding)
    unknown_has_distance = metric is not None and space.vocabulary.has_unknown_symbol
    notes = (
        *_ALWAYS,
        wording.unknown(space),
        *wording.classes(space, adjacency),
        *((_UNKNOWN_DISTANCE,) if unknown_has_distance else ()),
        *mechanism.assumptions(space),
    )
    recovery, retention = (None, None) if loss.english is None else loss.english
    return wording.stated(
        mechanism,
        space,
        adjacency,
        NoGuarantee(reason=reason) if reason else PureDP(epsilon=loss.epsilon),
        notes,
        "exact",
        metric=metric,
        witness=_witness(loss, space),
        recovery=loss.recovery,
        retention=loss.retention,
        recovery_in_english=recovery,
        retention_in_english=retention,
    )


def _witness(loss: Loss, space: EmbeddingSpace) -> Witness | None:
    if loss.token == loss.other:
        return None
    tokens = space.vocabulary.tokens
    token, other = (None if i == UNKNOWN else tokens[i] for i in (loss.token, loss.other))
    return Witness(token=token, other=other, output=tokens[loss.output])


def load(
    kind: str, mechanism: Mechanism, space: EmbeddingSpace, *key: str
) -> dict[str, Any] | None:
    """Returns what was stored under a key; ``None`` if it is absent, damaged or not kept."""
    kept = is_kept(mechanism, space)
    return _files.load(kind, *key, space.fingerprint, code_fingerprint()) if kept else None


def store(
    data: dict[str, Any], kind: str, mechanism: Mechanism, space: EmbeddingSpace, *key: str
) -> None:
    """Keeps data where that is worth its while."""
    if is_kept(mechanism, space):
        _files.store(data, kind, *key, space.fingerprint, code_fingerprint())
