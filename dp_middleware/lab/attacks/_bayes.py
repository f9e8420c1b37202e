"""The best possible attacker: on one released token, among known texts, by a certificate alone."""

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
from dp_middleware.lab.attacks import rows
from dp_middleware.lab.attacks.rows import IdArrays, summed
from dp_middleware.lab.metrics import results
from dp_middleware.lab.metrics.results import BY_WORD, AttackResult, Top, exactly, of_ranks, sizes
from dp_middleware.mechanisms.base import Mechanism
from dp_middleware.mechanisms.document_response import DocumentResponse
from dp_middleware.mechanisms.text_mechanisms import Encoder
from dp_middleware.mechanisms.weighted_response import WeightedResponse
from dp_middleware.privacy import ApproxDP, Certificate
from dp_middleware.vocabulary.classes import word_numbers
from dp_middleware.vocabulary.vocabulary import UNKNOWN

AnyResponse = DocumentResponse | WeightedResponse
_ATTACKER = (
    "the attacker knows mechanism, space and the prior of tokens, which is public",
    "each released token is attacked alone: context is not used",
)
_FROM_INTEGERS = "exact for tokens drawn from the prior: from the integers that are drawn from"
_EXACT = (*_ATTACKER, _FROM_INTEGERS, BY_WORD)
_ON_DRAWS = (*_ATTACKER, "of equally likely words the first of the vocabulary is guessed")


def bayes(
    mechanism: Mechanism, space: EmbeddingSpace, *, prior: ArrayLike | None = None, top: Top = 1
) -> AttackResult:
    """Computes the success of the Bayes-optimal context-free attacker: nobody recovers more.

    For each output y the attacker names the ``top`` words of largest sum, over their tokens x, of
    prior(x) P(y|x); the rate is the sum of these over all y (the Bayes vulnerability of a channel,
    Smith 2009, FoSSaCS): for tokens drawn from the prior, an upper bound on every attack that sees
    one released token. ``by_id`` is of the token itself: with the uniform prior and one guess a
    certificate's ``recovery``. O(V^2 d) time, O(top V) memory.

    ``prior`` is float (V,), default uniform, and public. ``details`` has ``"top k"`` for each
    number of guesses, ``"blind k"``, the success of guessing without looking, and both ``by id``.

    Raises:
        ParameterError: The mechanism is no channel, or the prior is no law over the tokens.
    """
    counts, weights, law = sizes(top), rows.prior_of(prior, space), rows.channel(mechanism)
    most = min(counts[-1], len(space))
    both = rows.leaders(law, space, weights, rows.outputs_of(law, space), most)
    details: dict[str, float] = {}
    shares = (summed(weights, word_numbers(space.vocabulary)), weights)
    for unit, likeliest, prior_of_unit in zip(("", " by id"), both, shares, strict=True):
        reached = np.minimum(likeliest.values.sum(dim=1).cumsum(dim=0).numpy(), 1.0)
        guessed = np.minimum(np.cumsum(np.sort(prior_of_unit)[::-1]), 1.0)
        details |= {f"top {k}{unit}": float(reached[min(k, most) - 1]) for k in counts}
        details |= {f"blind {k}{unit}": float(guessed[:k][-1]) for k in counts}
    rate, by_id = (details[f"top {counts[0]}{unit}"] for unit in ("", " by id"))
    exact = exactly(rate) | {"assumptions": _EXACT, "details": details, "by_id": by_id}
    return AttackResult(attack="bayes", rate=rate, **exact)


def bayes_on(
    raw: IdArrays,
    released: IdArrays,
    mechanism: Mechanism,
    space: EmbeddingSpace,
    *,
    prior: ArrayLike | None = None,
    top: Top = 1,
) -> AttackResult:
    """Runs the attacker of :func:`bayes` on releases of real texts.

    ``raw`` holds int (n,) for each text, -1 for a token that is not attacked (unknown or kept),
    private; ``released`` the ids drawn for them, token by token.

    Raises:
        ParameterError: As :func:`bayes`; ids that are not aligned; or a release that the mechanism
            cannot have made of a token of the prior.
    """
    counts, weights, law = sizes(top), rows.prior_of(prior, space), rows.channel(mechanism)
    texts = rows.pairs(raw, released, space)
    attacked, sent = rows.attacked_of(texts)
    if not len(sent):
        return of_ranks("bayes_on", [], counts, _ON_DRAWS, {})
    seen, columns = np.unique(sent, return_inverse=True)
    impossible = len(np.setdiff1d(seen, rows.outputs_of(law, space)))
    if not impossible:
        by_word, by_token = rows.leaders(law, space, weights, seen, min(counts[-1], len(space)))
        impossible = int((by_token.ids[0] == UNKNOWN).sum())
    if impossible:
        raise ParameterError(
            f"expected releases of {law.name}, got {impossible} of {len(seen)} distinct tokens "
            "that it releases for no token of the prior; leave out tokens kept by a policy"
        )
    words, blind, places = word_numbers(space.vocabulary), dict[str, float](), []
    of_words = ("", by_word, words[attacked], summed(weights, words))
    for unit, leading, own, shares in (of_words, (" by id", by_token, attacked, weights)):
        right = leading.ids.numpy()[:, columns] == own
        places.append(np.where(right.any(axis=0), right.argmax(axis=0) + 1, results.MISSED))
        order = np.argsort(-shares, kind="stable")
        blind |= {f"blind {k}{unit}": float(np.isin(own, order[:k]).mean()) for k in counts}
    return of_ranks("bayes_on", rows.split(np.stack(places), texts), counts, _ON_DRAWS, blind)


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
    p(S), and M the largest P(y|x) in it. Then the sum over S of p(x) P(y|x) is at most p(S) M, that
    over the others at least (1 - p(S)) e^-eps M, and p(S) at most q, the mass of the ``top``
    likeliest words (or tokens, ``by="id"``), so that

        rate <= q e^eps / (1 + q (e^eps - 1)) <= min(1, q e^eps).

    Randomised response attains it. Between tokens of a public class it is the mean over classes. It
    also bounds an attacker who knows all other tokens, with the prior given those. ``prior`` is
    float (V,), default uniform.

    Raises:
        ParameterError: The certificate is for another space or allows a delta.
    """
    _validate.at_least(1, top=top)
    _validate.one_of(("word", "id"), by=by)
    weights = rows.prior_of(prior, space)
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
    candidates: Sequence[str], mechanism: AnyResponse, encoder: Encoder | None = None
) -> AttackResult:
    """Computes how often the best attacker names the released text, one of N >= 2 that he knows.

    Every candidate is as likely. He names the one with the largest P(y|x), so he is right with
    probability 1/N sum over y of max over x of P(y|x): with D different answers
    (1 + lambda (D - m)) / N, where m is 1, or the answers' share of mu if some candidate has none.
    ``details`` have ``"candidates"``, ``"blind"`` (1/N), ``"different"`` (D) and ``"bound"``, what
    any mechanism of epsilon allows at most. ParameterError: fewer than two candidates.
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
    told = ("exact; the text is one of the candidates, each as likely",)
    bound = bound_of(np.full(count, 1 / count), mechanism.loss, 1)
    details = {"candidates": float(count), "blind": 1 / count, "bound": bound}
    details["different"] = float(len(own))
    exact = exactly(rate) | {"assumptions": told, "details": details}
    return AttackResult(attack="bayes_among", rate=rate, **exact)
