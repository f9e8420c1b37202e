"""Certificates for a mechanism on a space, computed once and kept on disk."""

from __future__ import annotations

import math
from contextlib import suppress

from dp_middleware import _files, _validate
from dp_middleware._files import code_fingerprint
from dp_middleware._waits import told
from dp_middleware.certification import proofs
from dp_middleware.certification.enumeration import enumerate_pairs
from dp_middleware.certification.proofs import dropped, revealed, say, stated
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms import ContextualMechanism, NoiseMechanism, landmarks
from dp_middleware.mechanisms.base import ChannelMechanism, Mechanism, is_kept
from dp_middleware.mechanisms.text_mechanisms import TextMechanism
from dp_middleware.mechanisms.vector_response import VectorResponse
from dp_middleware.privacy import Adjacency, Certificate, MetricDP, PureDP, Witness


def certify(
    mechanism: Mechanism,
    space: EmbeddingSpace | None = None,
    *,
    adjacency: Adjacency | None = None,
    length: int | None = None,
) -> Certificate:
    """States what the mechanism guarantees per token occurrence on the space, or for a text.

    A channel: exact, by enumeration of the integers drawn from: O(V^2 d) time, O(V) memory beside
    one block; with a metric proof, that guarantee beside it under substitution. Kept on disk, keyed
    by mechanism, space, adjacency and the code that computes rows. Others: by their proofs, with
    constants for this space and length; a ``VectorResponse`` has no space.

    Args:
        mechanism: A mechanism of any shape.
        space: V tokens with vectors; ``None`` for a mechanism of vectors.
        adjacency: Default :meth:`Adjacency.substitution`, over V plus the unknown symbol; of a
            mechanism of whole texts :meth:`Adjacency.texts`, and no other.
        length: Number of tokens of the text, public; ``None``: any. Matters only where a token
            moves the law at other positions: a window (``DChiStencil``) or a raw context
            (``Cape``), for which nothing finite holds at every length.

    ParameterError: labels for another number of tokens, such a length, or no space.
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
    kept = place(mechanism, space, "certificates", mechanism.fingerprint, relation.fingerprint)
    if kept and (stored := _files.load(*kept)) is not None:
        with suppress(ValueError, KeyError, TypeError):  # damaged: computed again
            return Certificate.from_dict(stored, relation)
    with told(f"certifying {mechanism.name} on {len(space):,} tokens"):
        certificate = _certificate(mechanism, space, relation)
    if kept:
        _files.store(certificate.to_dict(), *kept)
    return certificate


def adjacency_of(mechanism: Mechanism) -> Adjacency:
    """Says what a certificate compares if nothing else is asked for."""
    return Adjacency.texts() if isinstance(mechanism, TextMechanism) else Adjacency.substitution()


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
    reason = dropped(space, adjacency)
    if not reason and math.isinf(loss.epsilon):
        (reason,) = say("supports")
    is_metric = not reason and mechanism.notion == "metric" and adjacency.classes is None
    metric = MetricDP(epsilon=mechanism.epsilon, slack=loss.rounding) if is_metric else None
    notes = (*say("entropy", "length", "elsewhere"), *revealed(space, adjacency))
    if metric is not None and space.vocabulary.has_unknown_symbol:
        notes += say("unknown distance")
    witness, tokens = None, (*space.vocabulary.tokens, None)  # the last: the unknown symbol, -1
    if loss.token != loss.other:
        token, other = tokens[loss.token], tokens[loss.other]
        witness = Witness(token=token, other=other, output=space.vocabulary.tokens[loss.output])
    recovery, retention = (None, None) if loss.english is None else loss.english
    return stated(
        mechanism,
        space,
        adjacency,
        reason or PureDP(epsilon=loss.epsilon),
        (*notes, *mechanism.assumptions(space)),
        "exact",
        metric=metric,
        witness=witness,
        recovery=loss.recovery,
        retention=loss.retention,
        recovery_in_english=recovery,
        retention_in_english=retention,
    )


def place(mechanism: Mechanism, space: EmbeddingSpace, *key: str) -> tuple[str, ...]:
    """Names where something is kept on disk, if that is worth its while."""
    return (*key, space.fingerprint, code_fingerprint()) if is_kept(mechanism, space) else ()
