"""Tables of the integers of a row (``integers.py``), which draws search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Ids, parts
from dp_middleware.sampling.entropy import Entropy, Words, random_words
from dp_middleware.sampling.integers import Others, Rows, halves, left_over, round_rows, words

_WORD = (1 << 64) - 1
_SIGN = -1 << 63  # int64: turns the order of unsigned words into that of signed ones


@dataclass(frozen=True)
class Table:
    """Makes a row ready to draw from: an output owns the integers behind the last one before it.

    ``lasts`` uint64 (m,), ascending, are the upper 64 bits of each output's last integer, ``low``
    the lower ones, for a row of 128 bits, ``support`` int64 (m,) ids of the outputs; ``None`` if
    all V are possible.
    """

    lasts: Words
    low: Words | None
    support: Ids | None

    def draw(self, count: int, entropy: Entropy) -> Ids:
        """Draws independently, int64 (count,): a uniform integer each, then a binary search."""
        return self.locate(random_words(count, entropy), entropy)

    def locate(self, uniform: Words, entropy: Entropy) -> Ids:
        """Finds the outputs that own uniform integers, of which these are the upper 64 bits."""
        places = np.searchsorted(self.lasts, uniform).astype(np.int64)
        if self.low is not None:
            for k in np.flatnonzero(self.lasts[places] == uniform):  # the lower half decides
                first = int(places[k])
                behind = int(np.searchsorted(self.lasts, uniform[k], side="right"))
                lower = random_words(1, entropy)[0]
                places[k] = first + int(np.searchsorted(self.low[first:behind], lower))
        return places if self.support is None else self.support[places]

    def integers(self, size: int) -> list[int]:
        """Gives the integer of each of V outputs, exact; for tests and audits."""
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
    """Makes a table per row, float64 (n, V) normalised, of the integers of :func:`integer_rows`."""
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
