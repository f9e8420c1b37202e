"""Which public units together come closest to a text: greedily, by a shortlist and the encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]

_REACH = (0.5, 1.0, 2.0)
"""How much a unit chosen before weighs in the vector of a completion, if the new one is 1."""


def best_units(
    target: Rows,
    count: int,
    vectors: Rows,
    encode: Callable[[Sequence[Sequence[int]]], Rows],
    shortlist: int,
) -> list[int]:
    """Chooses distinct units, each the one that best completes those before it.

    The vector of a completion is first taken for a weighted sum of that of the units before it and
    that of the unit; the best ones by that are encoded, and the nearest to the target wins.

    Args:
        target: Vector of the private text, finite, (d,).
        count: Units to choose, at most M.
        vectors: Of the M units on offer, unit rows, (M, d).
        encode: Vectors of sequences of units, unit rows.
        shortlist: Completions that are encoded for a unit.
    """
    towards = vectors @ target
    chosen = [int(towards.argmax())]  # a unit alone: its own vector is exact
    head = vectors[chosen[0]]
    while len(chosen) < count:
        listed = _completions(head @ target, vectors @ head, towards, chosen, shortlist)
        rows = encode([[*chosen, number] for number in listed])
        rows = np.nan_to_num(rows, posinf=0.0, neginf=0.0)
        best = int((rows @ target).argmax())
        chosen.append(listed[best])
        head = rows[best]
    return chosen


def _completions(
    reached: float, along: Rows, towards: Rows, chosen: Sequence[int], shortlist: int
) -> list[int]:
    """Units whose sum with the head, of some lengths, comes closest to the target.

    ``reached`` is the cosine of head and target, ``along`` (M,) that of each unit and the head,
    ``towards`` that of each unit and the target; the ``chosen`` ones are left out.
    """
    free = np.ones(len(along), dtype=np.bool_)
    free[list(chosen)] = False
    listed: set[int] = set()
    for reach in _REACH:
        weight = reach * len(chosen)
        lengths = np.sqrt(np.maximum(1 + weight**2 + 2 * weight * along, 1e-6))
        cosines = np.where(free, (weight * reached + towards) / lengths, -np.inf)
        best = min(-(-shortlist // len(_REACH)), int(free.sum()))
        listed.update(np.argpartition(-cosines, best - 1)[:best].tolist())
    return sorted(listed)
