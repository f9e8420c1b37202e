"""What a pass over rows finds, where rows are alike but for short lists; no row is ever made.

The integers are those of ``mechanisms/near_lists.py``, which draws from them.
"""

from __future__ import annotations

import numpy as np

from dp_middleware.certification._blocks import Found, moved_by, steepest
from dp_middleware.embedding import space as spaces
from dp_middleware.embedding.arrays import Floats, Ids, slices
from dp_middleware.mechanisms.near_lists import NearRows
from dp_middleware.sampling.entropy import Words
from dp_middleware.vocabulary.vocabulary import UNKNOWN

UNIT = 2.0**-64


class ListedRows:
    """Holds near rows with probabilities in place of integers, each rounded once, to float64."""

    def __init__(self, near: NearRows) -> None:
        self._lists, self._kinds = near.lists.astype(np.int64), near.kinds
        self._own, self._common = _probabilities(near.own)[near.kinds], _probabilities(near.common)
        self._unknown, self._largest = _probabilities(near.unknown), _probabilities(near.largest)

    def found(self, classes: list[Ids], place: Ids, shares: Floats | None) -> Found:
        """Finds, to the last bit, what a pass over rows of these classes finds.

        ``place`` int64 (V,) are the places of tokens among the outputs, or UNKNOWN; ``shares``
        float64 (V,) those of tokens in English, if these count.
        """
        several = [members for members in classes if len(members) > 1]
        alone = [members for members in classes if len(members) == 1]
        order, everyone = np.concatenate([*several, *alone]), np.arange(len(place))
        found, start = Found(len(self._common)), 0
        largest = np.append(self._largest[self._kinds], self._largest[-1])[order]
        found.note(self._extremes(order)[1], UNIT, float(largest.min()))
        for members in several:
            found.worst += self._worst(members, start, 64 // len(several) + 1)
            start += len(members)
        found.best = self._extremes(everyone)[0]
        if shares is not None:
            found.likeliest = self._likeliest(shares)
        kept = self._column(place, everyone)
        for part in slices(len(order), spaces.BLOCK):
            tokens = order[part][order[part] != UNKNOWN]
            found.keep(tokens, kept[tokens], shares)
        return found

    def _extremes(self, ids: Ids) -> tuple[Floats, Floats]:
        """The largest and the smallest probability of each output over the inputs, (m,)."""
        tokens = ids[ids != UNKNOWN]
        listed, own = self._lists[tokens], self._own[tokens]
        unlisted = np.bincount(listed.ravel(), minlength=len(self._common)) < len(tokens)
        high, low = (np.where(unlisted, self._common, bound) for bound in (-np.inf, np.inf))
        np.maximum.at(high, listed, own)
        np.minimum.at(low, listed, own)
        if len(tokens) < len(ids):
            return np.maximum(high, self._unknown), np.minimum(low, self._unknown)
        return high, low

    def _column(self, outputs: Ids, ids: Ids) -> Floats:
        """The probability of one output, or else 0 for UNKNOWN, for each input."""
        found = np.where(ids == UNKNOWN, self._unknown[outputs], self._common[outputs])
        rows, slots = np.nonzero((self._lists[ids] == outputs[:, None]) & (ids != UNKNOWN)[:, None])
        found[rows] = self._own[ids[rows], slots]
        return np.where(outputs == UNKNOWN, 0.0, found)

    def _worst(self, members: Ids, start: int, count: int) -> list[tuple[float, int, int, int]]:
        """Pairs of a class that begins at a place of the order; ties as blocks have them."""
        high, low = moved_by(*self._extremes(members), UNIT)
        blocks = (start + np.arange(len(members))) // spaces.BLOCK
        worst = []
        for loss, output in steepest(high, low, count):
            numbers = self._column(np.full(len(members), output), members)
            more, less = moved_by(numbers, numbers, UNIT)
            firsts = [int((logs == logs.max()).argmax()) for logs in (more, -less)]
            inside = [np.flatnonzero(blocks == blocks[first]) for first in firsts]
            token = members[inside[0][numbers[inside[0]].argmax()]]
            other = members[inside[1][numbers[inside[1]].argmin()]]
            worst.append((loss, int(token), int(other), output))
        return worst

    def _likeliest(self, shares: Floats) -> Floats:
        """Of each output the largest product of a token's share and probability, (m,)."""
        order, first = np.argsort(-shares, kind="stable"), np.zeros(len(self._common), np.int64)
        for rank, listed in enumerate(self._lists[order]):  # whose list is the first without it
            later = listed[first[listed] == rank]
            if not len(later):
                break
            first[later] = rank + 1
        best: Floats = self._common * np.append(shares[order], 0.0)[first]
        np.maximum.at(best, self._lists, self._own * shares[:, None])
        return best


def _probabilities(integers: Words) -> Floats:
    """An only output has all 2^64, which is 0 modulo 2^64."""
    return np.where(integers == 0, 1.0, integers.astype(np.float64) * UNIT)
