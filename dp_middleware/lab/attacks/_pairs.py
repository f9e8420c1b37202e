"""Raw and released ids of the same texts, token by token, and ranks among scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_middleware._forks import StaysHere
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.vocabulary.vocabulary import UNKNOWN, Vocabulary
from dp_middleware.vocabulary.words import word_numbers


@dataclass(frozen=True)
class WordPair(StaysHere):
    """Holds one text, int64 (n,), -1 for an unknown token, and its release. Private."""

    raw: Ids = field(repr=False)
    released: Ids = field(repr=False)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Tells the positions whose raw token is in the vocabulary, bool (n,)."""
        return np.asarray(self.raw != UNKNOWN)


def pairs(
    raw: Sequence[ArrayLike], released: Sequence[ArrayLike], space: EmbeddingSpace
) -> list[WordPair]:
    """Returns checked pairs of all texts; raises ParameterError where they are not aligned."""
    if len(raw) != len(released):
        raise ParameterError(
            f"expected a release for each text, got {len(raw)} texts, {len(released)} releases"
        )
    texts = []
    for number, ids_of_text in enumerate(zip(raw, released, strict=True)):
        before, after = map(np.asarray, ids_of_text)
        if before.shape != after.shape or before.ndim != 1:
            raise ParameterError(
                f"expected ids aligned token by token, got shapes {before.shape} and "
                f"{after.shape} for text {number}; pass what was drawn for each token"
            )
        known = before != UNKNOWN
        ids = np.full(before.shape, UNKNOWN, dtype=np.int64)
        ids[known] = space.checked(before[known])
        texts.append(WordPair(ids, space.checked(after)))
    return texts


def ranks(scores: Floats, ids: Ids) -> Ids:
    """Places each id (n,) by descending score (n, V), from 1, ties by index; int64 (n,)."""
    own = scores[np.arange(len(ids)), ids][:, None]
    better = (scores > own).sum(axis=1)
    before = ((scores == own) & (np.arange(scores.shape[1]) < ids[:, None])).sum(axis=1)
    return np.asarray(better + before + 1)


def word_ranks(
    scores: Floats, ids: Ids, vocabulary: Vocabulary, *, pooled: Literal["sum", "best"]
) -> Ids:
    """Places each id's word among all words, from 1, ties by first token; int64 (n,).

    The score of a word is pooled from its tokens: their ``"sum"``, of logarithms, or the
    ``"best"``.
    """
    words = word_numbers(vocabulary)
    if len(words) == words.max() + 1:
        return ranks(scores, ids)
    order = np.argsort(words, kind="stable")
    begins = np.flatnonzero(np.diff(words[order], prepend=-1))
    pool = np.logaddexp if pooled == "sum" else np.maximum
    return ranks(pool.reduceat(scores[:, order], begins, axis=1), words[ids])
