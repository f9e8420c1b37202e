"""Draws from rows that are alike but for a short list of outputs each; no row is ever made."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_middleware.embedding.arrays import Ids
from dp_middleware.sampling.entropy import Entropy, Words, random_words

_ONE = np.uint64(1)


@dataclass(frozen=True, eq=False, kw_only=True)
class NearRows:
    """Holds rows of integers with a total of 2^64, alike off a token's short list.

    The output that owns a uniform integer is the one that the token's table (``tables.py``) has: of
    the integers before it, those on the list are counted from the list, all others from the sums of
    the common ones. Public, read-only.

    Attributes:
        outputs: int64 (m,), ids of the possible outputs, ascending.
        lists: Unsigned (V, r), places among the outputs, ascending in each row.
        kinds: Unsigned (V,): tokens of a kind have the same integers along their lists.
        own: uint64 (K, r), of each kind the integers along its lists.
        common: uint64 (m,), the integer of each output for tokens that do not list it.
        unknown: uint64 (m,), the integers of the unknown symbol.
        largest: uint64 (K + 1,), of each kind and of the unknown symbol, last, the integer that
            takes what the others leave.
    """

    outputs: Ids
    lists: NDArray[Any]
    kinds: NDArray[Any]
    own: Words
    common: Words
    unknown: Words
    largest: Words

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Gives all of it, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def draw(self, ids: Ids, entropy: Entropy) -> Ids:
        """Draws an independent output for each input, int64 (n,), -1 for the unknown symbol."""
        return self.locate(ids, random_words(len(ids), entropy))

    def locate(self, ids: Ids, uniform: Words) -> Ids:
        """Finds the outputs that own uniform integers, int64 (n,)."""
        places = self._places(ids, uniform)
        unknown = (ids < 0).nonzero()[0]
        if len(unknown):
            places[unknown] = np.searchsorted(self._unknown_lasts, uniform[unknown])
        return self.outputs[places]

    def _places(self, ids: Ids, uniform: Words) -> Ids:
        """Where the owners are among the outputs; anywhere for the unknown symbol."""
        lists, firsts, lasts, shifts = self._bounds
        length = len(lasts)
        behind = np.zeros(len(ids), dtype=np.int64)  # how many of the list are before the integer
        for ends in lasts:
            behind += uniform > ends[ids]
        listed = ids * length + np.minimum(behind, length - 1)
        places: Ids = lists[listed].astype(np.int64)
        others = ((behind == length) | (uniform < firsts[listed])).nonzero()[0]
        beyond = shifts[self.kinds[ids[others]], behind[others]]
        places[others] = self._common_places(uniform[others] - beyond)
        return places

    def _common_places(self, integers: Words) -> Ids:
        """The outputs that own integers of the common row: a binary search, begun at its end."""
        lasts, guide, shift = self._guide
        places: Ids = guide[integers >> shift]
        while (behind := integers > lasts[places]).any():
            places += behind
        return places

    @cached_property
    def _guide(self) -> tuple[Words, Ids, np.uint64]:
        """Last integers of the common row, and the owners of the multiples of a power of two.

        There are at least four times as many multiples as outputs. A common integer is one of few
        sizes, so few outputs end between two of them.
        """
        lasts = _lasts(self.common)
        bits = len(lasts).bit_length() + 2
        shift = np.uint64(max(0, int(lasts[-1]).bit_length() - bits))
        return lasts, np.searchsorted(lasts, np.arange(1 << bits, dtype=np.uint64) << shift), shift

    @cached_property
    def _unknown_lasts(self) -> Words:
        return _lasts(self.unknown)

    @cached_property
    def _bounds(self) -> tuple[NDArray[Any], Words, Words, Words]:
        """Places on the lists and their first integers, (V * r,), last ones, (r, V), and shifts.

        What lies behind the first j of a list is further on by the j-th shift of the kind,
        (K, r + 1). All is modulo 2^64: a largest integer takes what the others leave, and may be
        below the common one.
        """
        _, some = np.unique(self.kinds, return_index=True)
        more = self.own - self.common[self.lists[some]]
        shifts = np.cumsum(np.hstack([np.zeros_like(more[:, :1]), more]), axis=1, dtype=np.uint64)
        before = np.hstack([[np.uint64(0)], np.cumsum(self.common[:-1], dtype=np.uint64)])
        firsts = before[self.lists] + shifts[self.kinds, :-1]
        lasts = firsts + self.own[self.kinds] - _ONE
        return self.lists.reshape(-1), firsts.reshape(-1), np.ascontiguousarray(lasts.T), shifts


def _lasts(integers: Words) -> Words:
    """The last integer that each output owns."""
    return np.cumsum(integers, dtype=np.uint64) - _ONE
