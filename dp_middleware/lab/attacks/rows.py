"""What attacks look at: texts token by token, ranks among scores, rows drawn with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_middleware._forks import StaysHere
from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.base import ChannelMechanism, Mechanism, rows_of
from dp_middleware.sampling import sampler
from dp_middleware.vocabulary.classes import word_numbers
from dp_middleware.vocabulary.vocabulary import UNKNOWN, Vocabulary

IdArrays = Sequence[ArrayLike]
"""Ids of each of some texts, int (n,)."""

_SUM_ERROR = 1e-9


@dataclass(frozen=True)
class WordPair(StaysHere):
    """Holds one text, int64 (n,), -1 for an unknown token, and its release. Private."""

    raw: Ids = field(repr=False)
    released: Ids = field(repr=False)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Tells the positions whose raw token is in the vocabulary, bool (n,)."""
        return np.asarray(self.raw != UNKNOWN)


def pairs(raw: IdArrays, released: IdArrays, space: EmbeddingSpace) -> list[WordPair]:
    """Returns checked pairs of all texts; raises ParameterError where they are not aligned."""
    if len(raw) != len(released):
        raise ParameterError(f"expected a release a text, got {len(raw)} and {len(released)}")
    texts = []
    for number, ids_of_text in enumerate(zip(raw, released, strict=True)):
        before, after = map(np.asarray, ids_of_text)
        if before.shape != after.shape or before.ndim != 1:
            raise ParameterError(f"expected ids aligned token by token, not so in text {number}")
        known = before != UNKNOWN
        ids = np.full(before.shape, UNKNOWN, dtype=np.int64)
        ids[known] = space.checked(before[known])
        texts.append(WordPair(ids, space.checked(after)))
    return texts


def attacked_of(texts: Sequence[WordPair]) -> tuple[Ids, Ids]:
    """Joins the tokens that are attacked, of all texts, and what was released for them."""
    both = [np.stack([text.raw, text.released])[:, text.known] for text in texts]
    raw, released = np.concatenate([np.empty((2, 0), np.int64), *both], axis=1)
    return raw, released


def split(places: Ids, texts: Sequence[WordPair]) -> list[Ids]:
    """Parts what is known of joined tokens, (k, n), text by text again."""
    ends = np.cumsum([int(text.known.sum()) for text in texts])[:-1]
    return np.split(places, ends, axis=1)


def both_ranks(
    scores: Floats, ids: Ids, vocabulary: Vocabulary, *, pooled: Literal["sum", "best"] = "sum"
) -> Ids:
    """Places each id's word, by its tokens' ``"sum"`` or ``"best"``, and each id, int64 (2, n).

    By descending score (n, V), from 1, ties by index.
    """
    words, by_id = word_numbers(vocabulary), _ranks(scores, ids)
    if len(words) == words.max() + 1:
        return np.stack([by_id, by_id])
    order = np.argsort(words, kind="stable")
    pool = np.logaddexp if pooled == "sum" else np.maximum
    joint = pool.reduceat(scores[:, order], _begins(words[order]), axis=1)
    return np.stack([_ranks(joint, words[ids]), by_id])


def _ranks(scores: Floats, ids: Ids) -> Ids:
    own = scores[np.arange(len(ids)), ids][:, None]
    before = (scores == own) & (np.arange(scores.shape[1]) < ids[:, None])
    return np.asarray(((scores > own) | before).sum(axis=1) + 1)


def _begins(numbers: Ids) -> Ids:
    """Places in sorted numbers at which another one begins."""
    return np.flatnonzero(np.diff(numbers, prepend=-1))


def channel(mechanism: Mechanism) -> ChannelMechanism:
    """Returns the mechanism, if it has a row per token; else raises ParameterError."""
    if isinstance(mechanism, ChannelMechanism):
        return mechanism
    name = getattr(mechanism, "name", type(mechanism).__name__)
    raise ParameterError(
        f"expected a channel, whose law depends on one token only, got {name}: its exact Bayes "
        "attack is not available; use embedding_inversion, masked_token or llm_inference"
    )


def prior_of(prior: ArrayLike | None, space: EmbeddingSpace) -> Floats:
    """Returns a checked prior over the tokens, float64 (V,), or raises; default uniform."""
    if prior is None:
        return np.full(len(space), 1.0 / len(space))
    weights = np.asarray(prior, dtype=np.float64)
    total = weights.sum()
    fits = weights.shape == (len(space),) and (weights >= 0).all()  # NaN is not >= 0
    if not fits or abs(total - 1.0) > _SUM_ERROR:
        kind = f"{weights.shape} with a sum of {total:g}"
        raise ParameterError(f"expected a prior ({len(space)},) that sums to one, got {kind}")
    return np.asarray(weights / total)


def summed(prior: Floats, units: Ids) -> Floats:
    """Sums a prior (n,) over the tokens of each word or other unit (numbers, (n,))."""
    return np.bincount(units, weights=prior).astype(np.float64)


def outputs_of(mechanism: ChannelMechanism, space: EmbeddingSpace) -> Ids:
    """Lists tokens that can be released at all, ascending."""
    possible = mechanism.possible(space)
    return np.arange(len(space)) if possible is None else possible


def blocks(
    mechanism: ChannelMechanism, space: EmbeddingSpace, inputs: Ids, outputs: Ids
) -> Iterator[tuple[Ids, torch.Tensor]]:
    """Yields (ids, P(outputs | ids)): the integers drawn from over their total, float64 (k, m).

    On the space's device, columns of :func:`outputs_of`; no block ends inside a word.
    """
    every = outputs_of(mechanism, space)
    possible = space.on_device(every)
    columns = space.on_device(np.searchsorted(every, outputs))
    for ids in _whole_words(inputs, space):
        rows = rows_of(mechanism, ids, space)
        rounded = sampler.integer_rows(rows if len(every) == len(space) else rows[:, possible])
        weights = rounded.weights
        wanted = weights if len(outputs) == len(every) else weights[:, columns]
        yield ids, wanted.mul_(rounded.units)


def _whole_words(inputs: Ids, space: EmbeddingSpace) -> list[Ids]:
    """The inputs word by word, in parts of about as many as the space computes at a time."""
    if not len(inputs):
        return []
    words = word_numbers(space.vocabulary)[inputs]
    order = np.argsort(words, kind="stable")
    begins = _begins(words[order])
    wanted = np.arange(space.block, begins[-1] + 1, space.block)
    return np.split(inputs[order], np.unique(begins[np.searchsorted(begins, wanted)]))


class Leaders:
    """Keeps the largest values of columns, float64 (count, m), and ids of rows; none: -1."""

    def __init__(self, count: int, columns: int, device: torch.device) -> None:
        self.values = torch.zeros(count, columns, dtype=torch.float64, device=device)
        self.ids = torch.full((count, columns), -1, dtype=torch.int64, device=device)

    def update(self, ids: torch.Tensor, block: torch.Tensor) -> None:
        """Takes in rows: only columns in which one of them leads are sorted again."""
        moved = torch.nonzero(block.amax(dim=0) > self.values[-1])[:, 0]
        if not len(moved):
            return
        values = torch.cat([self.values[:, moved], block[:, moved]])
        names = torch.cat([self.ids[:, moved], ids[:, None].expand(-1, len(moved))])
        ordered, order = values.sort(dim=0, descending=True, stable=True)
        count = len(self.values)
        self.values[:, moved] = ordered[:count]
        self.ids[:, moved] = names.gather(0, order[:count])


def leaders(
    mechanism: ChannelMechanism, space: EmbeddingSpace, prior: Floats, outputs: Ids, count: int
) -> tuple[Leaders, Leaders]:
    """Finds for each output y the words, and the tokens x, of largest joint law prior(x) P(y|x)."""
    words = word_numbers(space.vocabulary)
    by_word, by_token = (Leaders(count, len(outputs), space.device) for _ in range(2))
    for ids, block in blocks(mechanism, space, np.flatnonzero(prior), outputs):
        block.mul_(space.on_device(prior[ids])[:, None])
        by_token.update(space.on_device(ids), block)
        numbers, places = np.unique(words[ids], return_inverse=True)
        joint = block
        if len(numbers) < len(ids):
            joint = block.new_zeros(len(numbers), len(outputs))
            joint.index_add_(0, space.on_device(places), block)
        by_word.update(space.on_device(numbers), joint)
    for leading in (by_word, by_token):
        leading.values, leading.ids = leading.values.cpu(), leading.ids.cpu()
    return by_word, by_token
