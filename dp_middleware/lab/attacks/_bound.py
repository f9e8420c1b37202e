"""What no attacker can exceed: from a certificate alone, and exactly among known texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware import _validate
from dp_middleware.embedding.arrays import Floats
from dp_middleware.embedding.plain import searcher
from dp_middleware.embedding.service import EmbeddingService
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.lab.attacks.rows import prior_of, summed
from dp_middleware.lab.metrics.results import AttackResult, exactly
from dp_middleware.mechanisms.document_response import DocumentResponse
from dp_middleware.mechanisms.text_mechanisms import Encoder
from dp_middleware.mechanisms.weighted_response import WeightedResponse
from dp_middleware.privacy import ApproxDP, Certificate
from dp_middleware.vocabulary.words import word_numbers


def recovery_bound(
    certificate: Certificate,
    space: EmbeddingSpace,
    *,
    prior: ArrayLike | None = None,
    top: int = 1,
    by: Literal["word", "id"] = "word",
) -> float:
    """Bounds the success that a certificate leaves to any attacker, whatever the mechanism.

    Let P(y|x) <= e^eps P(y|x') for all x, x', and let S be the tokens guessed for y, of prior mass
    p(S) and with M the largest P(y|x) in it. Then sum over S of p(x) P(y|x) is at most p(S) M and
    the same sum over the others at least (1 - p(S)) e^-eps M, so that the posterior of S is at most
    p(S) e^eps / (p(S) e^eps + 1 - p(S)). This grows with p(S), which is at most q, the mass of the
    ``top`` likeliest words (or tokens, ``by="id"``):

        rate <= q e^eps / (1 + q (e^eps - 1)) <= min(1, q e^eps).

    k-ary randomised response attains it. Between tokens of a public class it holds in each class,
    and is the mean over classes. It also bounds an attacker who knows all other tokens of the text,
    with the prior of the token given those. ``prior`` is float (V,), default uniform.

    Raises:
        ParameterError: The certificate is for another space or allows a delta.
    """
    _validate.at_least(1, top=top)
    _validate.one_of(("word", "id"), by=by)
    weights = prior_of(prior, space)
    if certificate.space != space.fingerprint:
        raise ParameterError("expected a certificate for this space, got one for another")
    if isinstance(certificate.guarantee, ApproxDP):
        raise ParameterError("expected a certificate of a pure or metric guarantee, got a delta")
    epsilon = certificate.epsilon
    units = word_numbers(space.vocabulary) if by == "word" else np.arange(len(space))
    if certificate.adjacency.classes is None:
        return bound_of(summed(weights, units), epsilon, top)
    classes = np.array(certificate.adjacency.numbers[: len(space)])
    inside = [classes == number for number in np.unique(classes[weights > 0])]
    parts = [summed(weights[own], units[own]) for own in inside]
    masses = [float(part.sum()) for part in parts]
    bounds = [bound_of(part / part.sum(), epsilon, top) for part in parts]
    return min(1.0, float(np.dot(masses, bounds)))


def bound_of(prior: Floats, epsilon: float, top: int) -> float:
    """Bounds as :func:`recovery_bound`, for any secrets of which no two lose more than epsilon."""
    likeliest = min(1.0, float(np.sort(prior)[::-1][:top].sum()))
    return 1.0 / (1.0 + math.exp(-epsilon) * (1.0 - likeliest) / likeliest)


def bayes_among(
    candidates: Sequence[str],
    mechanism: DocumentResponse | WeightedResponse,
    encoder: Encoder | None = None,
) -> AttackResult:
    """Computes how often the best attacker names the released text, one of N >= 2 that he knows.

    Every candidate is as likely. He names the one with the largest P(y|x), so he is right with
    probability 1/N sum over y of max over x of P(y|x): with D different answers
    (1 + lambda (D - m)) / N, where m is 1, or the answers' share of mu if some candidate has none.
    No mechanism of epsilon allows more than e^epsilon / (e^epsilon + N - 1).
    ``details`` have ``"candidates"``, ``"blind"`` (1/N), ``"bound"`` and ``"different"`` (D).

    Raises:
        ParameterError: Fewer than two candidates.
    """
    _validate.at_least(2, candidates=len(candidates))
    if isinstance(mechanism, DocumentResponse):  # the same law
        mechanism = WeightedResponse(epsilon=mechanism.epsilon, code=mechanism.code)
    if encoder is None:
        encoder = EmbeddingService() if mechanism.needs_encoder else searcher()
    answers = {mechanism.answer(text, encoder) for text in candidates}
    count, share = len(candidates), float(mechanism.coin.share)
    own = [answer for answer in answers if answer is not None]
    drawn = sum(map(mechanism.fitted.weight, own)) if None in answers else 1
    rate = (1 + share * (len(own) - float(drawn))) / count
    return AttackResult(
        attack="bayes_among",
        rate=rate,
        **exactly(rate),
        assumptions=("exact; the text is one of the candidates, each as likely",),
        details={
            "candidates": float(count),
            "blind": 1 / count,
            "bound": bound_of(np.full(count, 1 / count), mechanism.loss, 1),
            "different": float(len(own)),
        },
    )
