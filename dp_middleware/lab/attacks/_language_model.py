"""The Bayes attacker who also knows language: a model's prior at every position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware import _validate
from dp_middleware.contexts import Context
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import BLOCK, EmbeddingSpace, on_host
from dp_middleware.errors import ParameterError
from dp_middleware.lab.attacks._pairs import WordPair, pairs, ranks, word_ranks
from dp_middleware.lab.attacks.rows import blocks, channel, outputs_of
from dp_middleware.lab.metrics.results import AttackResult, of_ranks, sizes
from dp_middleware.mechanisms.base import ChannelMechanism, Mechanism
from dp_middleware.sampling import sampler

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
    places, by_id = [], []
    for group in _groups(texts, len(space)):
        seen = np.unique(np.concatenate([text.released[text.known] for text in group]))
        columns = _log_likelihoods(law, space, seen)
        for text in group:
            likelihoods = np.zeros((len(text.raw), len(space)))
            likelihoods[text.known] = columns[np.searchsorted(seen, text.released[text.known])]
            both = one(text, likelihoods, space, context)[:, text.known]
            places.append(both[0])
            by_id.append(both[1])
    assumptions = (_ASSUMPTION, _GIVEN[given])
    name = "bayes_with_language_model"
    return of_ranks(name, places, counts, assumptions, {}, by_id=by_id)


def _groups(texts: list[WordPair], size: int) -> Iterator[list[WordPair]]:
    """Texts whose distinct releases have columns of bounded size; at least one text each."""
    group: list[WordPair] = []
    seen: set[int] = set()
    for text in texts:
        own = set(text.released[text.known].tolist())
        joint = seen | own
        if group and 8 * size * len(joint) > _MOST_BYTES:
            yield group
            group, joint = [], own
        group.append(text)
        seen = joint
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
    """Ranks of each true word and token (2, n); of anything where it is unknown: left out later."""
    own = np.where(text.known, text.raw, 0)
    places, start = np.empty((2, len(own)), dtype=np.int64), 0
    seen = np.where(text.known, text.raw, text.released)
    for logits in context.blocks(seen, space, BLOCK):
        part = slice(start, start + len(logits))
        scores = likelihoods[part] + sampler.log_softmax(logits)
        places[:, part] = _ranks(scores, own[part], space)
        start = part.stop
    return places


def _with_guesses(
    text: WordPair, likelihoods: Floats, space: EmbeddingSpace, context: Context
) -> Ids:
    own = np.where(text.known, text.raw, 0)
    places, stream = np.empty((2, len(own)), dtype=np.int64), context.start(space)
    for position in range(len(own)):
        part = slice(position, position + 1)
        scores = likelihoods[part] + sampler.log_softmax(stream.logits())
        places[:, part] = _ranks(scores, own[part], space)
        stream.append(int(scores.argmax() if text.known[position] else text.released[position]))
    return places


def _ranks(scores: Floats, own: Ids, space: EmbeddingSpace) -> tuple[Ids, Ids]:
    """Of the true words and of the true tokens."""
    return word_ranks(scores, own, space.vocabulary, pooled="sum"), ranks(scores, own)
