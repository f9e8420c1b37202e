"""Embedding inversion: the tokens nearest to the released one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware.embedding.arrays import Ids
from dp_middleware.embedding.space import BLOCK, EmbeddingSpace
from dp_middleware.lab.attacks._pairs import pairs, ranks, word_ranks
from dp_middleware.lab.metrics.results import AttackResult, of_ranks, sizes

_ASSUMPTIONS = (
    "the attacker knows the space and guesses the tokens nearest to the released one",
    "the order is by Euclidean distance, ties by index, the released token itself first",
)


def embedding_inversion(
    raw: Sequence[ArrayLike],
    released: Sequence[ArrayLike],
    space: EmbeddingSpace,
    *,
    top: int | Sequence[int] = (1, 5, 10),
) -> AttackResult:
    """Guesses the k words nearest to each released token; the rate is the share of true ones.

    A word is as near as its nearest token; with ``by id`` the guesses are tokens. Never better than
    :func:`bayes`; with one guess it guesses that the word was released unchanged. Reference: Song
    and Raghunathan (2020), CCS; as used by InferDPT, STENCIL and Cape, k = 1, 5, 10. ``raw`` is int
    (n,) for each text, -1 for an unknown token, private; the rate is that of the smallest ``top``.

    Raises:
        ParameterError: Ids that are not aligned or outside the vocabulary.
    """
    counts, texts = sizes(top), pairs(raw, released, space)
    lengths = [int(text.known.sum()) for text in texts]
    none = np.empty(0, dtype=np.int64)
    own = np.concatenate([none, *(text.raw[text.known] for text in texts)])
    released_ids = np.concatenate([none, *(text.released[text.known] for text in texts)])
    ends = np.cumsum(lengths)[:-1]
    places, by_id = (np.split(of_all, ends) for of_all in _places(own, released_ids, space))
    return of_ranks("embedding_inversion", places, counts, _ASSUMPTIONS, {}, by_id=by_id)


def _places(own: Ids, released: Ids, space: EmbeddingSpace) -> tuple[Ids, Ids]:
    """Ranks of each true word, and of each true token, by distance from the released one."""
    distinct, inverse = np.unique(np.stack([released, own]), axis=1, return_inverse=True)
    places = np.empty((2, distinct.shape[1]), dtype=np.int64)
    for start in range(0, distinct.shape[1], BLOCK):
        centres, tokens = distinct[:, start : start + BLOCK]
        nearness = -space.distances(centres)
        nearness[np.arange(len(centres)), centres] = 1.0  # itself before its duplicates
        part = slice(start, start + BLOCK)
        places[0, part] = word_ranks(nearness, tokens, space.vocabulary, pooled="best")
        places[1, part] = ranks(nearness, tokens)
    by_word, by_id = places[:, inverse.ravel()]
    return by_word, by_id
