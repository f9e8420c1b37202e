"""Attacks by vectors and models: the nearest words, the likeliest ones, and both with the law."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware import _validate
from dp_middleware.contexts import Context, MaskedContext
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import BLOCK, EmbeddingSpace, on_host
from dp_middleware.errors import ParameterError
from dp_middleware.lab.attacks.rows import (
    WordPair,
    attacked_of,
    blocks,
    both_ranks,
    channel,
    outputs_of,
    pairs,
)
from dp_middleware.lab.metrics.inputs import rouge_scorer
from dp_middleware.lab.metrics.results import AttackResult, of_ranks, sizes
from dp_middleware.mechanisms.base import ChannelMechanism, Mechanism
from dp_middleware.sampling import sampler

_BY_VECTORS = (
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
    attacked, sent = attacked_of(texts)
    ends = np.cumsum([int(text.known.sum()) for text in texts])[:-1]
    places = np.split(_places(attacked, sent, space), ends, axis=1)
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
        places[:, part] = both_ranks(nearness, tokens, space, pooled="best")
    return places[:, inverse.ravel()]


DEFAULT_MODEL = "bert-base-uncased"

Model = str | Path | tuple[Any, Any] | MaskedContext

_BY_MODEL = (
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
    scorer = rouge_scorer()
    context = model if isinstance(model, MaskedContext) else MaskedContext(model)
    if context.unmasked:
        raise ParameterError("expected a context that masks, got one with unmasked=True")
    places, overlaps = [], []
    for text in texts:
        if not text.known.any():
            continue
        own, guesses = _ranked(text, text.released, space, context, lambda _, logits: logits)
        places.append(own[:, text.known])
        decoded = (
            space.vocabulary.decode(ids) for ids in (text.raw[text.known], guesses[text.known])
        )
        overlaps.append(float(scorer.score(*decoded)["rougeL"].fmeasure))
    details = {"rouge_l": float(np.mean(overlaps))} if overlaps else {}
    return of_ranks("masked_token", places, counts, _BY_MODEL, details)


def _ranked(
    text: WordPair,
    seen: Ids,
    space: EmbeddingSpace,
    context: Context,
    score: Callable[[slice, Floats], Floats],
) -> tuple[Ids, Ids]:
    """Ranks (2, n) of true words and tokens, of anything where unknown, and the first guesses."""
    own, start = np.where(text.known, text.raw, 0), 0
    places, guesses = np.empty((2, len(own)), dtype=np.int64), np.empty_like(own)
    for logits in context.blocks(seen, space, BLOCK):
        part = slice(start, start + len(logits))
        scores = score(part, logits)
        places[:, part] = both_ranks(scores, own[part], space)
        guesses[part] = scores.argmax(axis=1)
        start = part.stop
    return places, guesses


Given = Literal["raw", "guesses"]

_MOST_BYTES = 1 << 28  # of columns held at a time
_GIVEN = {
    "raw": "the attacker is told the true tokens that the language model reads at a position: the "
    "informed adversary of differential privacy",
    "guesses": "the language model reads the attacker's own first guesses to the left",
}
_ASSUMPTION = "the attacker knows mechanism and space; the prior is the language model's"


def bayes_with_language_model(
    raw: Sequence[ArrayLike],
    released: Sequence[ArrayLike],
    mechanism: Mechanism,
    space: EmbeddingSpace,
    context: Context,
    *,
    given: Given = "raw",
    top: int | Sequence[int] = 1,
) -> AttackResult:
    """Runs the strongest attack here: P(x | y, context) proportional to P(y|x) P(x | context).

    P(y|x) is the mechanism's row, exact; P(x | context) the softmax of the model's logits over the
    V tokens; a word has what its tokens have together. With ``given="raw"`` the attacker knows the
    rest of the text, which is what a guarantee per token speaks of (a ``dp.MaskedContext`` then
    reads both sides); with ``"guesses"`` nothing but the releases. ``raw`` is int (n,) for each
    text, -1 for a token that is not attacked, in whose place the model reads what was released.
    Private.

    Raises:
        ParameterError: The mechanism is no channel, ids are not aligned, or a release is one that
            the mechanism does not make.
    """
    _validate.one_of(("raw", "guesses"), given=given)
    counts, law, texts = sizes(top), channel(mechanism), pairs(raw, released, space)
    one = _with_raw if given == "raw" else _with_guesses
    places = []
    for group in _groups(texts, len(space)):
        seen = np.unique(np.concatenate([text.released[text.known] for text in group]))
        columns = _log_likelihoods(law, space, seen)
        for text in group:
            likelihoods = np.zeros((len(text.raw), len(space)))
            likelihoods[text.known] = columns[np.searchsorted(seen, text.released[text.known])]
            places.append(one(text, likelihoods, space, context)[:, text.known])
    assumptions = (_ASSUMPTION, _GIVEN[given])
    return of_ranks("bayes_with_language_model", places, counts, assumptions, {})


def _groups(texts: list[WordPair], size: int) -> Iterator[list[WordPair]]:
    """Texts whose distinct releases have columns of bounded size; at least one text each."""
    group: list[WordPair] = []
    seen: set[int] = set()
    for text in texts:
        own = set(text.released[text.known].tolist())
        if group and 8 * size * len(seen | own) > _MOST_BYTES:
            yield group
            group, seen = [], set()
        group.append(text)
        seen |= own
    if group:
        yield group


def _log_likelihoods(law: ChannelMechanism, space: EmbeddingSpace, seen: Ids) -> Floats:
    """ln P(y|x), float64 (m, V): a row per output y."""
    if len(np.setdiff1d(seen, outputs_of(law, space))):
        raise ParameterError(
            f"expected releases of {law.name}, got tokens that it never releases; leave out "
            "tokens kept by a policy"
        )
    columns = np.empty((len(seen), len(space)))
    for ids, block in blocks(law, space, np.arange(len(space)), seen):
        columns[:, ids] = on_host(block).T
    with np.errstate(divide="ignore"):
        return np.log(columns, out=columns)


def _with_raw(text: WordPair, likelihoods: Floats, space: EmbeddingSpace, context: Context) -> Ids:
    seen = np.where(text.known, text.raw, text.released)

    def score(part: slice, logits: Floats) -> Floats:
        return np.asarray(likelihoods[part] + sampler.log_softmax(logits))

    return _ranked(text, seen, space, context, score)[0]


def _with_guesses(
    text: WordPair, likelihoods: Floats, space: EmbeddingSpace, context: Context
) -> Ids:
    own = np.where(text.known, text.raw, 0)
    places, stream = np.empty((2, len(own)), dtype=np.int64), context.start(space)
    for position in range(len(own)):
        part = slice(position, position + 1)
        scores = likelihoods[part] + sampler.log_softmax(stream.logits())
        places[:, part] = both_ranks(scores, own[part], space)
        stream.append(int(scores.argmax() if text.known[position] else text.released[position]))
    return places
