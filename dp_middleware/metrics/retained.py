"""How often words stay themselves: the most that an epsilon allows, and counted on texts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dp_middleware import _validate
from dp_middleware.embedding.arrays import Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.metrics.results import BY_WORD, MetricResult, over_texts, rate_interval
from dp_middleware.vocabulary.words import word_numbers


def retention_bound(epsilon: float, size: int) -> float:
    """The largest mean N_x of tokens (``by_id``) of any epsilon-DP mechanism over a vocabulary.

    For every output y and all x, P(y|y) <= e^epsilon P(y|x). Summed over y and averaged over x:
    the mean N_x is at most e^epsilon / (e^epsilon + V - 1), which randomised response attains.

    Args:
        epsilon: Nats per occurrence, under substitution of any token for any other; may be inf.
        size: Number V of tokens.
    """
    _validate.at_least(1, size=size)
    if not epsilon >= 0:
        raise ParameterError(f"expected epsilon >= 0, got {epsilon!r}")
    return 1.0 / (1.0 + (size - 1) * math.exp(-epsilon))


def retention_on(
    raw: Sequence[Ids], released: Sequence[Ids], space: EmbeddingSpace | None = None
) -> MetricResult:
    """The share of tokens of texts that were released as themselves: counted, for any mechanism.

    Args:
        raw: Ids of each text, int64 (n,); -1 for an unknown token, which never stays itself.
        released: Ids drawn for them, token by token.
        space: V tokens. With it another token of the same word is the same, and ``by_id`` is the
            share of the tokens themselves; without it words are not known, and ids are counted.

    Returns:
        The share over all tokens, with a bootstrap interval over texts that have any.

    Raises:
        ParameterError: Not aligned, or no token at all.
    """
    if [len(ids) for ids in raw] != [len(ids) for ids in released]:
        raise ParameterError("expected a released token for each raw token of each text")
    pairs = [(np.asarray(x), np.asarray(y)) for x, y in zip(raw, released, strict=True) if len(x)]
    if not pairs:
        raise ParameterError("expected at least one token, got texts without any")
    lengths = np.array([len(text) for text, _ in pairs])
    kept = by_id = np.array([(x == y).sum() for x, y in pairs])
    unit = "counted by id: another token of the same word is another token"
    if space is not None:
        words, unit = word_numbers(space.vocabulary), BY_WORD
        kept = np.array([((x >= 0) & (words[x] == words[y])).sum() for x, y in pairs])
    return MetricResult(
        metric="retention",
        value=float(kept.sum() / lengths.sum()),
        **over_texts(rate_interval(kept, lengths), len(lengths)),
        assumptions=("counted on draws; tokens weigh as often as they occur", unit),
        details={"tokens": float(lengths.sum())},
        by_id=float(by_id.sum() / lengths.sum()),
    )
