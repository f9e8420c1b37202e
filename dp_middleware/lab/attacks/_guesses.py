"""Attacks by vectors and models: the nearest words, the likeliest ones, and both with the law."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dp_middleware import _validate
from dp_middleware.contexts import Context, MaskedContext
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import BLOCK, EmbeddingSpace, on_host
from dp_middleware.errors import ParameterError
from dp_middleware.lab.attacks import rows
from dp_middleware.lab.attacks.rows import IdArrays, WordPair, both_ranks
from dp_middleware.lab.metrics.results import AttackResult, Top, of_ranks, rouge_scorer, sizes
from dp_middleware.mechanisms.base import ChannelMechanism, Mechanism
from dp_middleware.sampling import sampler

_MOST_BYTES = 1 << 28  # of columns held at a time
_ASSUMPTION = "the attacker knows mechanism and space; the prior is the language model's"
_GIVEN = {
    "raw": "the attacker is told the true tokens that the language model reads at a position: the "
    "informed adversary of differential privacy",
    "guesses": "the language model reads the attacker's own first guesses to the left",
}
Score = Callable[[slice, Floats], Floats]
_BY_MODEL = (
    "the attacker fills in each released token, masked, from the released ones around it",
    "guesses are tokens of the space's vocabulary; the released token itself is not looked at",
)
_BY_VECTORS = (
    "the attacker knows the space and guesses the tokens nearest to the released one",
    "the order is by Euclidean distance, ties by index, the released token itself first",
)


def embedding_inversion(
    raw: IdArrays, released: IdArrays, space: EmbeddingSpace, *, top: Top = (1, 5, 10)
) -> AttackResult:
    """Guesses the k words nearest to each released token (Song and Raghunathan 2020, CCS).

    A word is as near as its nearest token; ``by id`` the guesses are tokens. As used by InferDPT,
    STENCIL and Cape, k = 1, 5, 10. ``raw`` is int (n,) for each text, -1 for an unknown token,
    private; the rate is that of the smallest ``top``. ParameterError: ids that are not aligned or
    outside the vocabulary.
    """
    counts, texts = sizes(top), rows.pairs(raw, released, space)
    places = rows.split(_places(*rows.attacked_of(texts), space), texts)
    return of_ranks("embedding_inversion", places, counts, _BY_VECTORS, {})


def _places(own: Ids, released: Ids, space: EmbeddingSpace) -> Ids:
    """Ranks (2, n) of each true word and true token, by distance from the released one."""
    distinct, inverse = np.unique(np.stack([released, own]), axis=1, return_inverse=True)
    places = np.empty((2, distinct.shape[1]), dtype=np.int64)
    for start in range(0, distinct.shape[1], BLOCK):
        centres, tokens = distinct[:, start : start + BLOCK]
        nearness = -space.distances(centres)
        nearness[np.arange(len(centres)), centres] = 1.0  # itself before its duplicates
        part = slice(start, start + BLOCK)
        places[:, part] = both_ranks(nearness, tokens, space.vocabulary, pooled="best")
    return places[:, inverse.ravel()]


def masked_token(
    raw: IdArrays,
    released: IdArrays,
    space: EmbeddingSpace,
    *,
    model: str | Path | tuple[Any, Any] | MaskedContext = "bert-base-uncased",
    top: Top = 1,
) -> AttackResult:
    """Masks each released token in turn, predicts the word there, compares with the raw one.

    As Yue et al. (2021) and Chen et al. (2023), with BERT. A word has the probabilities of its
    tokens together; ``details["rouge_l"]`` is the mean Rouge-L of the text of all likeliest tokens
    against the raw one. ``raw`` is int (n,) for each text, -1 for an unknown token, private;
    ``model`` a :class:`dp_middleware.MaskedContext`, or what it takes.

    Raises:
        MissingExtra: rouge-score is not installed.
        ParameterError: Ids that are not aligned, or a model that cannot be loaded or does not mask.
    """
    counts, texts = sizes(top), rows.pairs(raw, released, space)
    scorer = rouge_scorer()
    context = model if isinstance(model, MaskedContext) else MaskedContext(model)
    places, overlaps = [], []
    for text in texts:
        if not text.known.any():
            continue
        own, guesses = _ranked(text, text.released, space, context, lambda _, logits: logits)
        places.append(own[:, text.known])
        decoded = (space.vocabulary.decode(ids[text.known]) for ids in (text.raw, guesses))
        overlaps.append(float(scorer.score(*decoded)["rougeL"].fmeasure))
    details = {"rouge_l": float(np.mean(overlaps))} if overlaps else {}
    return of_ranks("masked_token", places, counts, _BY_MODEL, details)


def _ranked(
    text: WordPair, seen: Ids, space: EmbeddingSpace, context: Context, score: Score
) -> tuple[Ids, Ids]:
    """Ranks (2, n) of true words and tokens, of anything where unknown, and the first guesses."""
    own, start = np.where(text.known, text.raw, 0), 0
    places, guesses = np.empty((2, len(own)), dtype=np.int64), np.empty_like(own)
    for logits in context.blocks(seen, space, BLOCK):
        part = slice(start, start + len(logits))
        scores = score(part, logits)
        places[:, part] = both_ranks(scores, own[part], space.vocabulary)
        guesses[part] = scores.argmax(axis=1)
        start = part.stop
    return places, guesses


def bayes_with_language_model(
    raw: IdArrays,
    released: IdArrays,
    mechanism: Mechanism,
    space: EmbeddingSpace,
    context: Context,
    *,
    given: Literal["raw", "guesses"] = "raw",
    top: Top = 1,
) -> AttackResult:
    """Runs the strongest attack here: P(x | y, context) proportional to P(y|x) P(x | context).

    P(x | context) is the softmax of the model's logits over the V tokens. With ``given="raw"`` the
    attacker knows the rest of the text, which is what a guarantee per token speaks of (a
    ``dp.MaskedContext`` then reads both sides); with ``"guesses"`` nothing but the releases.
    ``raw`` is int (n,) for each text, -1 for a token that is not attacked, in whose place the model
    reads what was released. Private.

    Raises:
        ParameterError: The mechanism is no channel, ids are not aligned, or a release is one that
            the mechanism does not make.
    """
    _validate.one_of(("raw", "guesses"), given=given)
    counts, law, texts = sizes(top), rows.channel(mechanism), rows.pairs(raw, released, space)
    one, places = _with_raw if given == "raw" else _with_guesses, []
    begun = np.cumsum([len(text.raw) for text in texts]) // max(1, _MOST_BYTES // (8 * len(space)))
    for start in np.unique(begun):
        group = [text for text, number in zip(texts, begun, strict=True) if number == start]
        seen = np.unique(np.concatenate([text.released[text.known] for text in group]))
        columns = _log_likelihoods(law, space, seen)
        for text in group:
            likelihoods = np.zeros((len(text.raw), len(space)))
            likelihoods[text.known] = columns[np.searchsorted(seen, text.released[text.known])]
            places.append(one(text, likelihoods, space, context)[:, text.known])
    assumptions = (_ASSUMPTION, _GIVEN[given])
    return of_ranks("bayes_with_language_model", places, counts, assumptions, {})


def _log_likelihoods(law: ChannelMechanism, space: EmbeddingSpace, seen: Ids) -> Floats:
    """ln P(y|x), float64 (m, V): a row per output y."""
    if len(np.setdiff1d(seen, rows.outputs_of(law, space))):
        raise ParameterError(
            f"expected releases of {law.name}, got tokens that it never releases; leave out "
            "tokens kept by a policy"
        )
    columns = np.empty((len(seen), len(space)))
    for ids, block in rows.blocks(law, space, np.arange(len(space)), seen):
        columns[:, ids] = on_host(block).T
    with np.errstate(divide="ignore"):
        return np.log(columns, out=columns)


def _with_raw(text: WordPair, likelihoods: Floats, space: EmbeddingSpace, context: Context) -> Ids:
    def score(part: slice, logits: Floats) -> Floats:
        return np.asarray(likelihoods[part] + sampler.log_softmax(logits))

    seen = np.where(text.known, text.raw, text.released)
    return _ranked(text, seen, space, context, score)[0]


def _with_guesses(
    text: WordPair, likelihoods: Floats, space: EmbeddingSpace, context: Context
) -> Ids:
    own = np.where(text.known, text.raw, 0)
    places, stream = np.empty((2, len(own)), dtype=np.int64), context.start(space)
    for position in range(len(own)):
        part = slice(position, position + 1)
        scores = likelihoods[part] + sampler.log_softmax(stream.logits())
        places[:, part] = both_ranks(scores, own[part], space.vocabulary)
        stream.append(int(scores.argmax() if text.known[position] else text.released[position]))
    return places
