"""What is drawn for texts, token by token beside what they were, and how it reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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


class Aligned(NamedTuple):
    """What was released for the tokens of a text. Private.

    Attributes:
        raw: int64 (n,), -1 for a token that is not attacked: an unknown or a kept one.
        released: int64 (n,), drawn or kept.
        fresh: bool (n,), which were drawn for.
    """

    raw: Ids
    released: Ids
    fresh: NDArray[np.bool_]


def aligned(draft: Draft) -> Aligned:
    """Token by token; a kept word that is not in the vocabulary has no id, and is left out."""
    fresh = draft.perturbed
    raw = np.where(fresh, draft.ids, UNKNOWN)
    released = np.where(fresh, draft.outputs, draft.ids)
    has_id = fresh | (draft.ids != UNKNOWN)
    return Aligned(raw[has_id], released[has_id], fresh[has_id])
