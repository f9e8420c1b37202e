"""What is drawn for texts, token by token beside what they were, and how it reads."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dp_middleware.embedding import EmbeddingSpace
from dp_middleware.embedding.arrays import Ids
from dp_middleware.mechanisms.drawing import Drawer
from dp_middleware.sampling import sampler
from dp_middleware.sanitizers.draft import Draft
from dp_middleware.vocabulary.vocabulary import UNKNOWN


def drawn(drafts: Iterable[Draft], drawer: Drawer, space: EmbeddingSpace) -> list[Draft]:
    """The drafts with a release of each token that is not kept, by the system's entropy."""
    own = list(drafts)
    fresh, around = [d.fresh for d in own], [d.releases(space.vocabulary) for d in own]
    outputs = drawer.draw(fresh, sampler.os_entropy, around)
    return [draft.fill(ids) for draft, ids in zip(own, outputs, strict=True)]


def aligned(draft: Draft) -> tuple[Ids, Ids]:
    """Raw and released ids of a text, both int64 (n,): -1 for a raw token that is kept.

    A kept word that is not in the vocabulary has no id, and is left out.
    """
    columns = zip(draft.ids, draft.kept, draft.outputs, strict=True)
    pairs = [
        (number, output) if kept is None else (UNKNOWN, number)
        for number, kept, output in columns
        if kept is None or number != UNKNOWN
    ]
    return _ids(raw for raw, _ in pairs), _ids(released for _, released in pairs)


def _ids(tokens: Iterable[int | None]) -> Ids:
    return np.fromiter((UNKNOWN if t is None else t for t in tokens), dtype=np.int64)
