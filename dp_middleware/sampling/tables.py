"""Tables of the integers of a row (``integers.py``), which draws search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Ids
from dp_middleware.embedding.blocks import parts
from dp_middleware.sampling.entropy import Entropy, Words, random_words
from dp_middleware.sampling.integers import Others, Rows, halves, left_over, round_rows, words

_WORD = (1 << 64) - 1
_SIGN = -1 << 63  # int64: turns the order of unsigned words into that of signed ones


@dataclass(frozen=True)
class Table:
    """A row ready to draw from: an output owns the integers behind the last of the one before.

    Attributes:
        lasts: uint64 (m,), ascending: the upper 64 bits of each output's last integer.
        low: uint64 (m,): the lower 64 bits, for a row of 128 bits.
        support: int64 (m,): ids of the outputs; ``None`` if all V are possible.
    """

    lasts: Words
    low: Words | None
    support: Ids | None

    def draw(self, count: int, entropy: Entropy) -> Ids:
        """Independent draws, int64 (count,): a uniform integer each, then a binary search."""
        return self.locate(random_words(count, entropy), entropy)

    def locate(self, uniform: Words, entropy: Entropy) -> Ids:
        """The outputs that own uniform integers, of which these are the upper 64 bits."""
        places = np.searchsorted(self.lasts, uniform).astype(np.int64)
        if self.low is not None:
            for k in np.flatnonzero(self.lasts[places] == uniform):  # the lower half decides
                first = int(places[k])
                behind = int(np.searchsorted(self.lasts, uniform[k], side="right"))
                lower = random_words(1, entropy)[0]
                places[k] = first + int(np.searchsorted(self.low[first:behind], lower))
        return places if self.support is None else self.support[places]

    def integers(self, size: int) -> list[int]:
        """The integer of each of V outputs, exact; for tests and audits."""
        wide = self.low is not None
        low = self.low if self.low is not None else np.zeros_like(self.lasts)
        pairs = zip(self.lasts, low, strict=True)
        lasts = [(int(h) << 64) + int(k) if wide else int(h) for h, k in pairs]
        widths = np.diff(np.array([-1, *lasts], dtype=object))
        dense = [0] * size
        outputs = range(size) if self.support is None else self.support.tolist()
        for output, width in zip(outputs, widths, strict=True):
            dense[output] = int(width)
        return dense


def tables(log_probs: Rows) -> list[Table]:
    """A table per row; the integers are those of :func:`integer_rows`.

    Args:
        log_probs: float64 (n, V), normalised, -inf off the support.
    """
    made: list[Table] = []
    for (part,) in parts(torch.as_tensor(log_probs)):
        others = round_rows(part)
        made += _narrow(others) if others.narrow else _wide(others)
    return made


def _narrow(others: Others) -> list[Table]:
    """All rows have 64 bits."""
    widths = words(others.weights)
    widths.scatter_(1, others.top, -widths.sum(dim=1, keepdim=True))  # modulo 2^64, as all sums
    widths[:, 0] -= 1
    lasts = _unsigned(torch.cumsum(widths, dim=1))
    return [_possible(row, None, s) for row, s in zip(lasts, _supports(others), strict=True)]


def _wide(others: Others) -> list[Table]:
    """Some row has 128 bits; all are added up as if they had."""
    lower, upper = halves(others.weights)
    left = left_over(others, lower, upper)
    for half, shift in ((lower, 0), (upper, 64)):
        of_largest = np.array([k >> shift & _WORD for k in left], dtype=np.uint64)
        signed = torch.from_numpy(of_largest.view(np.int64))[:, None]
        half.scatter_(1, others.top, signed.to(half.device))
    running = torch.cumsum(lower, dim=1)
    upper += (running ^ _SIGN) < (lower ^ _SIGN)  # what is carried; both are unsigned
    lasts = torch.cumsum(upper, dim=1).sub_((running == 0).to(torch.int64))
    rows = zip(others.bits, _unsigned(lasts), _unsigned(running.sub_(1)), strict=True)
    return [
        _possible(high, low, possible) if bits == 128 else _possible(low, None, possible)
        for (bits, high, low), possible in zip(rows, _supports(others), strict=True)
    ]


def _possible(lasts: Words, low: Words | None, support: Ids | None) -> Table:
    """The table of a row of all V outputs."""
    if support is None:
        return Table(lasts, low, None)
    return Table(lasts[support], None if low is None else low[support], support)


def _supports(others: Others) -> list[Ids | None]:
    """The possible outputs of each row; ``None`` where these are all."""
    if others.full:
        return [None] * len(others.top)
    possible = others.weights.scatter_(1, others.top, 1.0).cpu().numpy()
    outputs = [np.flatnonzero(row) for row in possible]
    return [None if len(row) == possible.shape[1] else row for row in outputs]


def _unsigned(words_of: torch.Tensor) -> Words:
    """The same bits as unsigned integers on the host."""
    return words_of.cpu().numpy().view(np.uint64)


Places = NDArray[np.int32]

ABSENT = -1
UNIT = 4  # cells of outputs for a cell of the guide: four to eight outputs share a bucket

_UPPER = np.uint64(32)  # bits that name no bucket


def units_of(outputs: int) -> int:
    """How many units a row with so many outputs takes."""
    return max(-(-outputs // UNIT), _buckets(outputs) + 2)


def _buckets(outputs: int) -> int:
    return 1 << max(0, (outputs // UNIT).bit_length() - 1)


def write_guide(guide: Places, lasts: Words) -> None:
    """A shift; for each bucket the first output that may own an integer in it; the last output.

    Args:
        guide: int32 (units,), written to.
        lasts: uint64 (m,), of the row.
    """
    buckets = _buckets(len(lasts))
    shift = 33 - buckets.bit_length()
    named = (lasts >> _UPPER >> np.uint64(shift)).astype(np.int64)
    guide[0], guide[1] = shift, 0
    np.cumsum(np.bincount(named, minlength=buckets), out=guide[2 : buckets + 2])
    guide[buckets + 1] = len(lasts) - 1


def search(guide: Places, lasts: Words, units: Ids, uniform: Words) -> Ids:
    """The first cell of each row that is no less than the integer.

    Args:
        guide: int32 (U,).
        lasts: uint64 (U * UNIT,).
        units: int64 (n,), the first of each row.
        uniform: uint64 (n,): the upper 64 bits of a uniform integer each.
    """
    shifts = guide[units].astype(np.uint32)
    buckets = ((uniform >> _UPPER).astype(np.uint32) >> shifts) + (units + 1)
    firsts = units * UNIT
    cells: Ids = firsts + guide[buckets]
    later = np.flatnonzero(lasts[cells] < uniform)
    if not later.size:
        return cells
    wanted = uniform[later]
    low, high = cells[later] + 1, firsts[later] + guide[buckets[later] + 1]
    while (low < high).any():
        middle = (low + high) >> 1
        below = lasts[middle] < wanted
        low, high = np.where(below, middle + 1, low), np.where(below, high, middle)
    cells[later] = low
    return cells


class IdIndex:
    """Numbers of some ids of -1 or more; looks up many at once."""

    def __init__(self) -> None:
        self._table: Ids = np.full(2, ABSENT, dtype=np.int64)  # id i at i + 1; none at last

    def of(self, ids: Ids) -> Ids:
        """The numbers, int64 (n,); :data:`ABSENT` for an id without one."""
        return np.asarray(self._table.take(ids + 1, mode="clip"))

    def set(self, number_of: int, number: int) -> None:
        """Give an id a number."""
        if number_of + 3 > len(self._table):
            longer = np.full(max(number_of + 3, 2 * len(self._table)), ABSENT, dtype=np.int64)
            longer[: len(self._table)] = self._table
            self._table = longer
        self._table[number_of + 1] = number
