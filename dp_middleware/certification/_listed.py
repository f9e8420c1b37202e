"""Blocks of rows that are alike but for a short list of outputs each; no row is ever made.

The integers are those of ``sampling/near_rows.py``, which draws from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.sampling.entropy import Words
from dp_middleware.sampling.near_rows import NearRows
from dp_middleware.vocabulary.vocabulary import UNKNOWN

_UNIT = 2.0**-64


class ListedRows:
    """Holds near rows with probabilities in place of integers, each rounded once, to float64.

    ``lists`` unsigned (V, r), ``kinds`` (V,), ``own`` (K, r), ``common`` and ``unknown`` (m,) are
    those of :class:`NearRows`; ``largest`` (V + 1,) is of each token and, last, of the unknown
    symbol.
    """

    def __init__(self, near: NearRows) -> None:
        self.lists, self.kinds = near.lists, near.kinds
        self.own, self.common = _probabilities(near.own), _probabilities(near.common)
        self.unknown, largest = _probabilities(near.unknown), _probabilities(near.largest)
        self.largest = np.append(largest[near.kinds], largest[-1])


def _probabilities(integers: Words) -> Floats:
    """An only output has all 2^64, which is 0 modulo 2^64."""
    return np.where(integers == 0, 1.0, integers.astype(np.float64) * _UNIT)


@dataclass(frozen=True, kw_only=True, eq=False)
class ListedBlock:
    """Serves as :class:`Block` with all integers of 64 bits and a column for each output.

    ``ids`` int64 (n,) are the inputs, ``rows`` those of all tokens.
    """

    ids: Ids
    rows: ListedRows

    @cached_property
    def bits(self) -> Ids:
        """Counts those of the integers."""
        return np.full(len(self.ids), 64)

    @cached_property
    def flattest(self) -> float:
        """Finds the smallest of the rows' largest probabilities."""
        return float(self.rows.largest[self.ids].min())

    @cached_property
    def extremes(self) -> tuple[Floats, Floats]:
        """Finds the largest and the smallest probability of each output, (m,)."""
        unlisted = self._counts < len(self._tokens)
        high = np.where(unlisted, self.rows.common, -np.inf)
        low = np.where(unlisted, self.rows.common, np.inf)
        np.maximum.at(high, self._lists, self._own)
        np.minimum.at(low, self._lists, self._own)
        if len(self._tokens) < len(self.ids):
            np.maximum(high, self.rows.unknown, out=high)
            np.minimum(low, self.rows.unknown, out=low)
        return high, low

    def likeliest(self, shares: Floats) -> Floats:
        """Finds the largest product of a row's share, (n,), and each output's probability, (m,)."""
        order = np.argsort(-shares, kind="stable")
        other = np.append(shares[order], 0.0)[self._first_unlisted(order)]
        best: Floats = self.rows.common * other
        np.maximum.at(best, self._lists, self._own * shares[:, None])
        return best

    def by_output(self, numbers: Floats, impossible: float) -> Floats:
        """Returns the numbers: each output has a column of its own."""
        return numbers

    def smallest(self) -> Floats:
        """Finds the smallest probability of all, (n,)."""
        return np.full(len(self.ids), self.extremes[1].min())

    def holders(self, outputs: NDArray[np.bool_], *, largest: bool) -> Ids:
        """Finds for each chosen output the first input that has its largest or smallest number."""
        numbers = self.extremes[0 if largest else 1]
        places = np.flatnonzero(self.ids != UNKNOWN)
        order = np.arange(len(places))
        first = np.append(places, len(self.ids))[self._first_unlisted(order)]
        first = np.where(self.rows.common == numbers, first, len(self.ids))
        own = np.where(self._own == numbers[self._lists], places[:, None], len(self.ids))
        np.minimum.at(first, self._lists, own)
        for place in np.flatnonzero(self.ids == UNKNOWN):
            np.minimum(first, np.where(self.rows.unknown == numbers, place, first), out=first)
        inputs: Ids = self.ids[first[outputs]]
        return inputs

    def at(self, outputs: Ids) -> Floats:
        """Gives the probability of one output, or :data:`UNKNOWN`, for each token, else 0, (n,)."""
        numbers = np.where(outputs == UNKNOWN, 0.0, self.rows.common[outputs])
        rows, slots = np.nonzero(self._lists == outputs[:, None])
        numbers[rows] = self._own[rows, slots]
        return numbers

    def part(self, chosen: NDArray[np.bool_]) -> ListedBlock:
        """Takes some of the rows."""
        return self if chosen.all() else ListedBlock(ids=self.ids[chosen], rows=self.rows)

    @cached_property
    def _tokens(self) -> Ids:
        tokens: Ids = self.ids[self.ids != UNKNOWN]
        return tokens

    @cached_property
    def _lists(self) -> Ids:
        """int64 (t, r), of the t tokens."""
        lists: Ids = self.rows.lists[self._tokens].astype(np.int64)
        return lists

    @cached_property
    def _own(self) -> Floats:
        """float64 (t, r)."""
        own: Floats = self.rows.own[self.rows.kinds[self._tokens]]
        return own

    @cached_property
    def _counts(self) -> Ids:
        """How many of the tokens list each output, int64 (m,)."""
        return np.bincount(self._lists.ravel(), minlength=len(self.rows.common))

    def _first_unlisted(self, order: Ids) -> Ids:
        """Which token, in this order, is the first that does not list each output, int64 (m,).

        t where all of them do.
        """
        first = np.zeros(len(self.rows.common), dtype=np.int64)
        for rank, listed in enumerate(self._lists[order]):
            later = listed[first[listed] == rank]
            if not len(later):
                break
            first[later] = rank + 1
        return first
