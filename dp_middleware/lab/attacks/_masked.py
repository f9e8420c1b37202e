"""The masked-token attack: a masked language model fills in what was there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware.contexts import MaskedContext
from dp_middleware.embedding.arrays import Ids
from dp_middleware.embedding.space import BLOCK, EmbeddingSpace
from dp_middleware.errors import ParameterError, library
from dp_middleware.lab.attacks._pairs import WordPair, pairs, ranks, word_ranks
from dp_middleware.lab.metrics.inputs import RougeTokenizer
from dp_middleware.lab.metrics.results import AttackResult, of_ranks, sizes

DEFAULT_MODEL = "bert-base-uncased"

Model = str | Path | tuple[Any, Any] | MaskedContext

_ASSUMPTIONS = (
    "the attacker fills in each released token, masked, from the released ones around it",
    "guesses are tokens of the space's vocabulary; the released token itself is not looked at",
)


def masked_token(
    raw: Sequence[ArrayLike],
    released: Sequence[ArrayLike],
    space: EmbeddingSpace,
    *,
    model: Model = DEFAULT_MODEL,
    top: int | Sequence[int] = 1,
) -> AttackResult:
    """Masks each released token in turn, predicts the word there, compares with the raw one.

    A word has the probabilities of its tokens together. ``details["rouge_l"]`` is the mean Rouge-L
    (F measure) of the text of all likeliest tokens against the raw one. Reference: the mask token
    inference attack of Yue et al. (2021) and Chen et al. (2023), with BERT. ``raw`` is int (n,) for
    each text, -1 for an unknown token, private; ``model`` what :class:`dp_middleware.MaskedContext`
    takes, or one, which is not loaded again.

    Raises:
        MissingExtra: rouge-score is not installed.
        ParameterError: Ids that are not aligned, or a model that cannot be loaded or does not mask.
    """
    counts, texts = sizes(top), pairs(raw, released, space)
    scorers = library("rouge_score.rouge_scorer", "eval")
    scorer = scorers.RougeScorer(["rougeL"], tokenizer=RougeTokenizer())
    context = model if isinstance(model, MaskedContext) else MaskedContext(model)
    if context.unmasked:
        raise ParameterError("expected a context that masks, got one with unmasked=True")
    places, by_id, overlaps = [], [], []
    for text in texts:
        if not text.known.any():
            continue
        own, own_by_id, guesses = _attack(text, space, context)
        places.append(own)
        by_id.append(own_by_id)
        decoded = (space.vocabulary.decode(ids) for ids in (text.raw[text.known], guesses))
        overlaps.append(float(scorer.score(*decoded)["rougeL"].fmeasure))
    details = {"rouge_l": float(np.mean(overlaps))} if overlaps else {}
    return of_ranks("masked_token", places, counts, _ASSUMPTIONS, details, by_id=by_id)


def _attack(text: WordPair, space: EmbeddingSpace, context: MaskedContext) -> tuple[Ids, Ids, Ids]:
    """Ranks of the known tokens' words, of the tokens, and the first guesses for them."""
    own, start = np.where(text.known, text.raw, 0), 0
    places, by_id, guesses = (np.empty_like(own) for _ in range(3))
    for logits in context.blocks(text.released, space, BLOCK):
        part = slice(start, start + len(logits))
        places[part] = word_ranks(logits, own[part], space.vocabulary, pooled="sum")
        by_id[part], guesses[part] = ranks(logits, own[part]), logits.argmax(axis=1)
        start = part.stop
    return places[text.known], by_id[text.known], guesses[text.known]
