"""The best possible attacker: on one released token, among known texts, by a certificate alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware import _validate
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.plain import searcher
from dp_middleware.embedding.service import EmbeddingService
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.lab.attacks.rows import (
    attacked_of,
    channel,
    leaders,
    outputs_of,
    pairs,
    prior_of,
    summed,
)
from dp_middleware.lab.metrics.results import (
    BY_WORD,
    MISSED,
    AttackResult,
    exactly,
    of_ranks,
    sizes,
)
from dp_middleware.mechanisms.base import Mechanism
from dp_middleware.mechanisms.document_response import DocumentResponse
from dp_middleware.mechanisms.text_mechanisms import Encoder
from dp_middleware.mechanisms.weighted_response import WeightedResponse
from dp_middleware.privacy import ApproxDP, Certificate
from dp_middleware.vocabulary.classes import word_numbers
from dp_middleware.vocabulary.vocabulary import UNKNOWN

_ATTACKER = (
    "the attacker knows mechanism, space and the prior of tokens, which is public",
    "each released token is attacked alone: context is not used",
)
_EXACT = (
    *_ATTACKER,
    "exact for tokens drawn from the prior: from the integers that are drawn from",
    BY_WORD,
)
_ON_DRAWS = (*_ATTACKER, "of equally likely words the first of the vocabulary is guessed")


def bayes(
    mechanism: Mechanism,
    space: EmbeddingSpace,
    *,
    prior: ArrayLike | None = None,
    top: int | Sequence[int] = 1,
) -> AttackResult:
    """Computes the success of the Bayes-optimal context-free attacker: nobody recovers more.

    For each output y the attacker names the ``top`` words of largest sum, over their tokens x, of
    prior(x) P(y|x); the rate is the sum of these over all y: an upper bound, for tokens drawn from
    the prior, on every attack that sees one released token. ``by_id`` is the success of naming the
    token itself: with the uniform prior and one guess a certificate's ``recovery``. One pass over
    blocks of rows: O(V^2 d) time, O(top V) memory.

    Reference: the Bayes vulnerability of a channel, Smith (2009), FoSSaCS. ``prior`` is float (V,),
    default uniform, and public: word counts of a private text are not. ``details`` has ``"top k"``
    for each number of guesses, ``"blind k"``, the success of guessing without looking, and both
    ``by id``.

    Raises:
        ParameterError: The mechanism is no channel, or the prior is no law over the tokens.
    """
    counts, weights, law = sizes(top), prior_of(prior, space), channel(mechanism)
    most = min(counts[-1], len(space))
    both = leaders(law, space, weights, outputs_of(law, space), most)
    details: dict[str, float] = {}
    shares = (summed(weights, word_numbers(space.vocabulary)), weights)
    for unit, likeliest, prior_of_unit in zip(("", " by id"), both, shares, strict=True):
        reached = np.minimum(likeliest.values.sum(dim=1).cumsum(dim=0).numpy(), 1.0)
        guessed = np.minimum(np.cumsum(np.sort(prior_of_unit)[::-1]), 1.0)
        details |= {f"top {k}{unit}": float(reached[min(k, most) - 1]) for k in counts}
        details |= {f"blind {k}{unit}": float(guessed[:k][-1]) for k in counts}
    rate = details[f"top {counts[0]}"]
    return AttackResult(
        attack="bayes",
        rate=rate,
        **exactly(rate),
        assumptions=_EXACT,
        details=details,
        by_id=details[f"top {counts[0]} by id"],
    )


def bayes_on(
    raw: Sequence[ArrayLike],
    released: Sequence[ArrayLike],
    mechanism: Mechanism,
    space: EmbeddingSpace,
    *,
    prior: ArrayLike | None = None,
    top: int | Sequence[int] = 1,
) -> AttackResult:
    """Runs the attacker of :func:`bayes` on releases of real texts.

    Optimal where tokens follow the prior; with counts of these very texts as ``prior`` the attacker
    knows their word frequencies. ``raw`` holds int (n,) for each text, -1 for a token that is not
    attacked (unknown or kept), private; ``released`` the ids drawn for them, token by token.

    Raises:
        ParameterError: As :func:`bayes`; ids that are not aligned; or a release that the mechanism
            cannot have made of a token of the prior.
    """
    counts, weights, law = sizes(top), prior_of(prior, space), channel(mechanism)
    texts = pairs(raw, released, space)
    attacked, sent = attacked_of(texts)
    seen = np.unique(sent)
    impossible = len(np.setdiff1d(seen, outputs_of(law, space)))
    if not impossible and len(seen):
        by_word, by_token = leaders(law, space, weights, seen, min(counts[-1], len(space)))
        impossible = int((by_token.ids[0] == UNKNOWN).sum())
    if impossible:
        raise ParameterError(
            f"expected releases of {law.name}, got {impossible} of {len(seen)} distinct tokens "
            "that it releases for no token of the prior; leave out tokens kept by a policy"
        )
    words, places = word_numbers(space.vocabulary), []
    for text in texts:
        if len(own := text.raw[text.known]):
            columns = np.searchsorted(seen, text.released[text.known])
            both = ((by_word, words[own]), (by_token, own))
            places.append(np.stack([_places(of.ids.numpy()[:, columns], us) for of, us in both]))
    blind = _blind(words[attacked], summed(weights, words), counts, "")
    blind |= _blind(attacked, weights, counts, " by id")
    return of_ranks("bayes_on", places, counts, _ON_DRAWS, blind)


def _blind(own: Ids, prior: Floats, counts: Sequence[int], unit: str) -> dict[str, float]:
    """Share of words, or tokens, that are among the likeliest k of the prior."""
    order, trials = np.argsort(-prior, kind="stable"), max(1, len(own))
    return {f"blind {k}{unit}": float(np.isin(own, order[:k]).sum() / trials) for k in counts}


def _places(guesses: Ids, own: Ids) -> Ids:
    """Rank of each true word or token among its guesses (k, n), int64 (n,)."""
    right = guesses == own
    return np.where(right.any(axis=0), right.argmax(axis=0) + 1, MISSED)


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
