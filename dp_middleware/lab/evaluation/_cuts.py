"""Data sets cut to some tokens a text: what is released, token by token, and what follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_middleware.embedding import EmbeddingSpace
from dp_middleware.embedding.arrays import Ids
from dp_middleware.lab.evaluation.data import Texts
from dp_middleware.sanitizers.draft import Draft, read
from dp_middleware.sanitizers.policies import KeepPolicy
from dp_middleware.vocabulary.vocabulary import UNKNOWN, Occurrence


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Holds a data set cut to so many tokens a text. Private.

    ``digest`` is of the data before that, ``ids`` int64 (n,) each, ``known`` vectors of texts that
    are encoded again, ``drafts`` of the texts where a policy keeps some tokens.
    """

    data: Texts
    digest: str
    ids: tuple[Ids, ...] = field(repr=False)
    known: dict[str, Any] = field(repr=False)
    drafts: tuple[Draft, ...] = field(default=(), repr=False)

    @property
    def longest(self) -> int:
        """Counts tokens that are drawn for, of the text with most of them."""
        own = [draft.fresh for draft in self.drafts] or self.ids
        return max(map(len, own), default=0)

    @property
    def unknown_share(self) -> float:
        """Computes the share of the tokens that are outside the vocabulary; 0 without any."""
        unknown = sum(int((ids == UNKNOWN).sum()) for ids in self.ids)
        return unknown / max(1, sum(map(len, self.ids)))


def cut(data: Texts, space: EmbeddingSpace, tokens: int, policy: KeepPolicy, generated: int) -> Cut:
    """Cuts each text to its first ``tokens`` tokens, of which a policy keeps some.

    The next ``generated`` tokens are its references, where it has none.
    """
    texts, ids, references = [], [], []
    for text in data.texts:
        every = space.vocabulary.occurrences(text)
        first = every[:tokens]
        texts.append(text[: first[-1].end] if first else "")
        ids.append(np.array([token.id for token in first], dtype=np.int64))
        references.append(passage(text, every[tokens : tokens + generated]))
    drafts = [read(text, None, space, policy) for text in texts if policy.kept]
    if drafts:  # what is cut off may have changed the last token
        ids = [draft.ids for draft in drafts]
    if data.references or not any(references):
        references = list(data.references)
    return Cut(
        data=replace(data, texts=tuple(texts), references=tuple(references)),
        digest=data.digest,
        ids=tuple(ids),
        known={},
        drafts=tuple(drafts),
    )


def passage(text: str, tokens: Sequence[Occurrence]) -> str:
    """Cuts out the part of a text in which these tokens stand."""
    return text[tokens[0].start : tokens[-1].end].strip() if tokens else ""


def aligned(draft: Draft) -> tuple[Ids, Ids, NDArray[np.bool_]]:
    """Returns raw and released ids, int64 (n,), and which were drawn for; private.

    A kept word that is not in the vocabulary is left out.
    """
    fresh = draft.perturbed
    raw = np.where(fresh, draft.ids, UNKNOWN)
    released = np.where(fresh, draft.outputs, draft.ids)
    has_id = fresh | (draft.ids != UNKNOWN)
    return raw[has_id], released[has_id], fresh[has_id]
