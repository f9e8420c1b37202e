"""A lower bound on epsilon from samples alone, to hold a claim against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware import _validate
from dp_middleware.contexts import Context
from dp_middleware.embedding.arrays import Floats
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.lab.auditing.pairs import Outcome, Sampling, TextPair, from_draws, rank
from dp_middleware.lab.auditing.shapes import Doubt
from dp_middleware.mechanisms.base import Mechanism
from dp_middleware.mechanisms.text_mechanisms import Encoder, NoiseMechanism, TextMechanism
from dp_middleware.mechanisms.vector_response import VectorResponse
from dp_middleware.privacy import Witness
from dp_middleware.sampling.sampler import Entropy, os_entropy
from dp_middleware.vocabulary.vocabulary import UNKNOWN


class LowerBound(float):
    """States that epsilon is at least this number, except with the stated probability.

    A ``claim``, in nats, is refuted if the bound is larger. The ``witness`` is the pair told apart
    (equal tokens: contexts were) and the likeliest output; ``None`` for the retention rate.
    """

    claim: float
    failure_probability: float
    witness: Witness | None
    samples: int

    @property
    def epsilon(self) -> float:
        """Returns the bound as a plain float, nats."""
        return float(self)


def audit(
    mechanism: Mechanism,
    space: EmbeddingSpace | None = None,
    *,
    claim: float | None = None,
    samples: int = 20_000,
    failure_probability: float = 1e-3,
    entropy: Entropy = os_entropy,
    logits: ArrayLike | None = None,
    texts: tuple[Sequence[int], Sequence[int]] | tuple[str, str] | None = None,
    context: Context | None = None,
    encoder: Encoder | None = None,
    vectors: tuple[ArrayLike, ArrayLike] | None = None,
) -> LowerBound:
    """Returns a lower bound on the loss between two inputs, from draws of the real sampler.

    Two tests, each with half of the failure probability, the one that refutes its claim by more
    counts, or else the larger bound:

    * A pair of inputs and an event: Clopper-Pearson bounds on its probability under both. For a
      channel, of 48 tokens spread over the vocabulary the two whose rows differ most at the claim,
      and the event {y : P(y|x) > exp(claim) P(y|x')}, or at a smaller factor where that is out of
      reach; for a contextual mechanism likewise, 48 rows of tokens and ``logits``. For noise, a
      pilot chooses from three pairs of texts of one token. No draw that tests has chosen.
    * Retention: any epsilon-LDP mechanism keeps a uniformly drawn token with probability at most
      e^epsilon / (e^epsilon + V - 1). One rate over the vocabulary falsifies a claim.

    With ``texts`` or ``vectors``, one test: events over the whole release, chosen by a pilot.

    Args:
        mechanism: A mechanism of any shape.
        space: V tokens with vectors; ``None`` for a ``VectorResponse``.
        claim: The epsilon in doubt, nats; default the paper's, for a metric mechanism times the
            distance of the pair.
        samples: Draws of each input of a test, which cannot show more than about ln(samples).
        failure_probability: Probability that the result exceeds the true loss.
        entropy: Source of the draws.
        logits: For a contextual mechanism without texts: float (m, V), up to 24 alternatives of
            what the context may say. Different tokens are compared under the same logits; where
            the context is raw, also the same token under different ones.
        texts: Two adjacent texts as ids (-1: unknown), of one length, different at one position.
            Public: they show in the witness. For a mechanism of whole texts any two strings.
        context: With texts, for a contextual mechanism: where its logits come from.
        encoder: With texts, for a mechanism of whole texts: what scores them.
        vectors: For a ``VectorResponse``: two vectors of texts, float (d,); its events are
            half-spaces.

    Raises:
        ParameterError: Arguments missing for this mechanism, or of no use for it.
    """
    _validate.at_least(100, samples=samples)
    _validate.probability(failure_probability=failure_probability)
    if claim is not None:
        _validate.positive(claim=claim)
    sampling = Sampling(samples, failure_probability, entropy)
    if isinstance(mechanism, VectorResponse):
        if vectors is None or (space, logits, texts, context) != (None, None, None, None):
            raise ParameterError(f"expected vectors= alone for {mechanism.name}: of two texts")
        doubted = mechanism.claimed_epsilon if claim is None else claim
        outcomes = [by_vectors(mechanism, vectors, doubted, sampling)]
        return _strongest(outcomes, None, failure_probability)
    if space is None or vectors is not None:
        raise ParameterError("expected space=, and no vectors=, for a mechanism of tokens")
    doubt = Doubt(mechanism, space, claim, sampling)
    halved = replace(doubt, sampling=Sampling(samples, failure_probability / 2, entropy))
    if isinstance(mechanism, TextMechanism):
        doubt.refuse_logits(logits)
        outcomes = [doubt.by_whole_texts(texts, encoder)]
    elif texts is not None:
        if logits is not None:
            raise ParameterError("expected texts= or logits=, got both")
        outcomes = [doubt.by_texts(texts, context)]
    elif context is not None:
        raise ParameterError("expected texts= with context=: two texts to release under it")
    elif isinstance(mechanism, NoiseMechanism):
        doubt.refuse_logits(logits)
        outcomes = halved.by_noise()
    else:
        outcomes = halved.by_rows(logits)
    return _strongest(outcomes, space, failure_probability)


def _strongest(
    outcomes: list[Outcome], space: EmbeddingSpace | None, failure_probability: float
) -> LowerBound:
    """The one that refutes its claim by most, or else the largest."""
    best = max(outcomes, key=lambda outcome: rank(outcome.epsilon, outcome.claim))
    witness = None
    if space and best.epsilon > 0 and best.tokens is not None and best.output is not None:
        names = space.vocabulary.tokens
        token, other = (None if k == UNKNOWN else names[k] for k in best.tokens)
        output = " ".join(names[k] for k in best.output)
        witness = Witness(token=token, other=other, output=output)
    bound = LowerBound(best.epsilon)
    bound.claim, bound.failure_probability = best.claim, failure_probability
    bound.witness, bound.samples = witness, sum(outcome.draws for outcome in outcomes)
    return bound


def by_vectors(
    mechanism: VectorResponse,
    vectors: tuple[ArrayLike, ArrayLike],
    claim: float,
    sampling: Sampling,
) -> Outcome:
    """Tells two vectors apart by a half-space of what is released for them."""
    if len(vectors) != 2:
        raise ParameterError(f"expected vectors= as two vectors, got {len(vectors)}")
    one, other = (np.asarray(vector, dtype=np.float64) for vector in vectors)
    pair = TextPair(texts=(one, other), tokens=(0, 1), claim=claim)

    def released(vector: Floats, count: int) -> Floats:
        return mechanism.perturb(np.tile(vector, (count, 1)), sampling.entropy)

    scores = [partial(np.dot, b=normal) for normal in (one - other, one, -other)]
    return replace(from_draws([pair], released, 0, sampling, scores), tokens=None)
