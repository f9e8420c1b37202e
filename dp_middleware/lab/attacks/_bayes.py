"""The best possible attacker who sees one released token: exact, and run on releases."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.lab.attacks._pairs import pairs
from dp_middleware.lab.attacks.rows import channel, leaders, outputs_of, prior_of, summed
from dp_middleware.lab.metrics.results import (
    BY_WORD,
    MISSED,
    AttackResult,
    exactly,
    of_ranks,
    sizes,
)
from dp_middleware.mechanisms.base import Mechanism
from dp_middleware.vocabulary.vocabulary import UNKNOWN
from dp_middleware.vocabulary.words import word_numbers

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
    attacked = [text.released[text.known] for text in texts]
    seen = np.unique(np.concatenate([np.empty(0, np.int64), *attacked]))
    impossible = len(np.setdiff1d(seen, outputs_of(law, space)))
    if not impossible and len(seen):
        by_word, by_token = leaders(law, space, weights, seen, min(counts[-1], len(space)))
        impossible = int((by_token.ids[0] == UNKNOWN).sum())
    if impossible:
        raise ParameterError(
            f"expected releases of {law.name}, got {impossible} of {len(seen)} distinct tokens "
            "that it releases for no token of the prior; leave out tokens kept by a policy"
        )
    words, places, places_by_id = word_numbers(space.vocabulary), [], []
    for text in texts:
        if len(own := text.raw[text.known]):
            columns = np.searchsorted(seen, text.released[text.known])
            places.append(_places(by_word.ids.numpy()[:, columns], words[own]))
            places_by_id.append(_places(by_token.ids.numpy()[:, columns], own))
    own = np.concatenate([np.empty(0, np.int64), *(text.raw[text.known] for text in texts)])
    blind = _blind(words[own], summed(weights, words), counts, "")
    blind |= _blind(own, weights, counts, " by id")
    return of_ranks("bayes_on", places, counts, _ON_DRAWS, blind, by_id=places_by_id)


def _blind(own: Ids, prior: Floats, counts: Sequence[int], unit: str) -> dict[str, float]:
    """Share of words, or tokens, that are among the likeliest k of the prior."""
    order, trials = np.argsort(-prior, kind="stable"), max(1, len(own))
    return {f"blind {k}{unit}": float(np.isin(own, order[:k]).sum() / trials) for k in counts}


def _places(guesses: Ids, own: Ids) -> Ids:
    """Rank of each true word or token among its guesses (k, n), int64 (n,)."""
    right = guesses == own
    return np.where(right.any(axis=0), right.argmax(axis=0) + 1, MISSED)
