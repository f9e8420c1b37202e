"""Which public unit best completes a release: a shortlist by vectors, then by the encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]

_REACH = (0.5, 1.0, 2.0)
"""How much a unit released before weighs in the vector of a completion, if the new one is 1."""


def best_unit(
    target: Rows,
    released: Sequence[int],
    vectors: Rows,
    encode: Callable[[Sequence[Sequence[int]]], Rows],
    shortlist: int,
) -> int:
    """The unit that best completes the release of a text; none that was released before.

    The vector of a completion is first taken for a weighted sum of that of the release and that
    of the unit; the best ones by that are encoded, and the nearest to the target wins.

    Args:
        target: Vector of the private text, finite, (d,).
        released: Numbers of the units released for it.
        vectors: Of the M units on offer, unit rows, (M, d).
        encode: Vectors of sequences of units, unit rows.
        shortlist: Completions that are encoded.
    """
    free = np.ones(len(vectors), dtype=np.bool_)
    free[list(released)] = False
    towards = vectors @ target
    if not released:  # a unit alone: its own vector is exact
        return int(towards.argmax())
    (head,) = encode([released])
    head = np.nan_to_num(head, posinf=0.0, neginf=0.0)
    along, reached = vectors @ head, float(head @ target)
    listed: set[int] = set()
    for reach in _REACH:
        weight = reach * len(released)
        lengths = np.sqrt(np.maximum(1 + weight**2 + 2 * weight * along, 1e-6))
        cosines = np.where(free, (weight * reached + towards) / lengths, -np.inf)
        best = min(-(-shortlist // len(_REACH)), int(free.sum()))
        listed.update(np.argpartition(-cosines, best - 1)[:best].tolist())
    chosen = sorted(listed)
    rows = np.nan_to_num(encode([[*released, number] for number in chosen]), posinf=0.0, neginf=0.0)
    return chosen[int((rows @ target).argmax())]
