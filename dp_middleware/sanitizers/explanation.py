"""What a local dry run tells. Private: it names tokens of the input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from dp_middleware._forks import LeavesWithout, StaysHere
from dp_middleware.embedding import EmbeddingSpace
from dp_middleware.embedding.arrays import slices
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.base import ChannelMechanism, Mechanism, rows_of
from dp_middleware.mechanisms.kernels.lists import smallest
from dp_middleware.sanitizers.draft import Draft
from dp_middleware.sanitizers.whole import TextDraft
from dp_middleware.vocabulary.vocabulary import UNKNOWN

_LIKELY = 5


@dataclass(frozen=True, kw_only=True)
class Alternative(StaysHere):
    """One distinct token of an explained text. Private: it cannot be pickled, ``repr`` hides it."""

    token: str = field(repr=False)
    count: int
    retention: float = field(repr=False)  # its probability of staying
    likely: tuple[tuple[str, float], ...] = field(repr=False)  # its likeliest outputs


@dataclass(frozen=True, kw_only=True)
class Explanation(LeavesWithout):
    """A local dry run over a text: expectations, no draw, no charge. Private: keep it local.

    ``repr`` hides the alternatives and pickling drops them: unpickled, there are none.
    """

    _instead: ClassVar[Mapping[str, Any]] = {"alternatives": ()}

    tokens_total: int
    tokens_verbatim: int  # would be kept by policy or lie outside the scope
    tokens_unknown: int  # outside the vocabulary
    epsilon: float  # nats that a release spends on the whole text, the certificate's on each token
    expected_retention: float  # mean probability that a perturbed token is drawn as itself
    alternatives: tuple[Alternative, ...] = field(repr=False)  # in order of appearance
    warning: str = (
        "Every release spends its epsilon again. Do not retry until one looks good: choosing "
        "among releases by looking at the input is itself a leak that no certificate covers."
    )


def explain(
    draft: Draft | TextDraft, mechanism: Mechanism, space: EmbeddingSpace, epsilon: float
) -> Explanation:
    """What the draws for a text would look like, if a token spends so many nats."""
    if isinstance(draft, TextDraft) or not isinstance(mechanism, ChannelMechanism):
        raise ParameterError(
            f"expected a mechanism with a law per token to explain, got {mechanism.name}: its law "
            "depends on the other tokens or is known by its draws only"
        )
    counts = Counter(draft.ids[draft.perturbed].tolist())
    alternatives = tuple(_alternatives(counts, mechanism, space))
    perturbed = counts.total()
    expected = sum(token.count * token.retention for token in alternatives)
    return Explanation(
        tokens_total=draft.tokens_total,
        tokens_verbatim=draft.tokens_verbatim,
        tokens_unknown=counts[UNKNOWN],
        epsilon=perturbed * epsilon if perturbed else 0.0,
        expected_retention=expected / perturbed if perturbed else 0.0,
        alternatives=alternatives,
    )


def _alternatives(
    counts: Counter[int], mechanism: ChannelMechanism, space: EmbeddingSpace
) -> Iterator[Alternative]:
    ids, tokens = np.array(list(counts), dtype=np.int64), space.vocabulary.tokens
    for part in slices(len(ids), space.block):
        rows = rows_of(mechanism, ids[part], space)
        own = rows.gather(1, space.on_device(np.maximum(ids[part], 0))[:, None])[:, 0]
        likely = smallest(-rows, min(_LIKELY, len(space)))
        chances = rows.gather(1, likely).exp()
        columns = (ids[part].tolist(), own.exp().tolist(), likely.tolist(), chances.tolist())
        for number, kept, outputs, shares in zip(*columns, strict=True):
            known = number != UNKNOWN
            yield Alternative(
                token=tokens[number] if known else "(unknown)",
                count=counts[number],
                retention=kept if known else 0.0,
                likely=tuple((tokens[k], p) for k, p in zip(outputs, shares, strict=True)),
            )
