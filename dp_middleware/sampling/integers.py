"""Rows of probabilities as integers that add up to a power of two, and tables that draws search.

A row is turned into integers, at least 1 on its support and 0 off it, with total 2^64 (2^128 when
a probability lies below e^-30): no output vanishes by underflow, and nothing is lost to
floating-point cumulative sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Floats, Ids, parts
from dp_middleware.embedding.grid import folded
from dp_middleware.errors import ParameterError
from dp_middleware.sampling.entropy import Entropy, Words, random_words

Rows: TypeAlias = "Floats | torch.Tensor"

_TWO_64 = 2.0**64
_LOWER = (1 << 32) - 1
_WORD = (1 << 64) - 1
_SIGN = -1 << 63  # int64: turns the order of unsigned words into that of signed ones
SUM_ERROR = 1e-9  # how far from one the probabilities of a row may add up
WIDE_BELOW = -30.0  # log-probability below which a row uses 128 bits instead of 64


def normalize(scores: torch.Tensor) -> torch.Tensor:
    """Turns rows of scores into log-probabilities, in place; -inf is outside the support.

    A row is the same alone: :func:`~dp_middleware.embedding.grid.folded` adds, not torch.
    """
    scores.sub_(scores.amax(dim=1, keepdim=True))
    return scores.sub_(folded(scores.exp()).log_()[:, None])


@dataclass(frozen=True)
class IntegerRows:
    """Holds probabilities as integers in float64, which is exact up to the largest of a row."""

    weights: torch.Tensor  # float64 (n, V), in units of 2^-bits, 0 off the support
    bits: torch.Tensor  # int64 (n,), 64 or 128
    largest: torch.Tensor  # float64 (n,), of each row: the total less the others, rounded

    @property
    def units(self) -> torch.Tensor:
        """Computes what an integer of each row stands for, 2^-bits, float64 (n, 1)."""
        return (-self.bits).double().exp2()[:, None]


def integer_rows(log_probs: Rows) -> IntegerRows:
    """Rounds rows to integers: at least 1 on the support, the largest takes what is left.

    ``log_probs`` are float64 (n, V), -inf off the support; the result is on their device.
    ParameterError: a row holds NaN or its probabilities do not sum to one.
    """
    rows = torch.as_tensor(log_probs)
    weights = torch.empty_like(rows)
    bits = torch.empty(len(rows), dtype=torch.int64, device=rows.device)
    largest = torch.empty(len(rows), 1, dtype=torch.float64, device=rows.device)
    for part, integers, widths, tops in parts(rows, weights, bits, largest):
        others = round_rows(part, integers)
        of = (words(integers),) if others.narrow else halves(integers)
        left = [[float(k)] for k in left_over(others, *of)]
        tops.copy_(torch.tensor(left, dtype=torch.float64).view(-1, 1))
        integers.scatter_(1, others.top, tops)
        widths.copy_(others.bits)
    return IntegerRows(weights, bits, largest[:, 0])


class Others(NamedTuple):
    """Holds integers of all outputs of a few rows but the largest of each row, which is 0 here."""

    weights: torch.Tensor  # float64 (n, V)
    bits: torch.Tensor  # int64 (n,), 64 or 128
    top: torch.Tensor  # int64 (n, 1), where the largest are
    full: bool  # every output is possible in every row

    @property
    def narrow(self) -> bool:
        """Tells whether every row has 64 bits."""
        return bool((self.bits == 64).all())


def round_rows(rows: torch.Tensor, out: torch.Tensor | None = None) -> Others:
    """Rounds a few rows of log-probabilities, in memory of their shape if given; or refuses."""
    smallest, impossible, finite = rows.amin(dim=1), None, rows
    if bool((smallest == -torch.inf).any()):
        impossible = rows == -torch.inf
        finite = rows.masked_fill(impossible, 0.0)
        smallest = finite.amin(dim=1)
    bits = torch.where(smallest < WIDE_BELOW, 128, 64)
    weights = torch.exp(finite, out=out)  # exp is slow at -inf
    if impossible is not None:
        weights.masked_fill_(impossible, 0.0)
    if not float((weights.sum(dim=1) - 1.0).abs_().amax()) < SUM_ERROR:  # so fails NaN
        raise ParameterError("expected rows of log-probabilities whose exponentials sum to one")
    weights.mul_(bits.double().exp2_()[:, None]).round_()
    if bool((bits == 128).any()):  # the others have none below 1
        weights.clamp_(min=1.0)
        if impossible is not None:
            weights.masked_fill_(impossible, 0.0)
    if rows.device.type == "cpu":  # NumPy is ten times as fast at this
        top = torch.from_numpy(rows.numpy().argmax(axis=1, keepdims=True))
    else:
        top = rows.argmax(dim=1, keepdim=True)
    return Others(weights.scatter_(1, top, 0.0), bits, top, impossible is None)


def words(weights: torch.Tensor) -> torch.Tensor:
    """Turns integers below 2^64 in float64 into int64 of the same bits: sums are modulo 2^64."""
    if weights.device.type == "cpu":
        return torch.from_numpy(weights.numpy().astype(np.uint64).view(np.int64))
    return weights.to(torch.uint64).view(torch.int64)


def halves(weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Splits integers below 2^128 held in float64 into lower and upper words."""
    upper = torch.mul(weights, 1 / _TWO_64).floor_()
    return words(torch.add(weights, upper, alpha=-_TWO_64)), words(upper)


def left_over(others: Others, lower: torch.Tensor, upper: torch.Tensor | None = None) -> list[int]:
    """Computes the largest integer of each row, exactly, from the words of the others."""
    if upper is None:  # the others of 64 bits add up to less than 2^64
        return [(1 << 64) - total % (1 << 64) for total in lower.sum(dim=1).tolist()]
    totals = [k + (u << 64) for k, u in zip(_sums(lower), _sums(upper), strict=True)]
    return [(1 << b) - total for b, total in zip(others.bits.tolist(), totals, strict=True)]


def _sums(unsigned: torch.Tensor) -> list[int]:
    """Sums of rows of words, exactly."""
    upper, lower = (unsigned >> 32 & _LOWER).sum(dim=1), (unsigned & _LOWER).sum(dim=1)
    return [(u << 32) + k for u, k in zip(upper.tolist(), lower.tolist(), strict=True)]


@dataclass(frozen=True)
class Table:
    """Makes a row ready to draw from: an output owns the integers behind the last one before it."""

    lasts: Words  # (m,), ascending, the upper 64 bits of each output's last integer
    low: Words | None  # (m,), the lower ones, for a row of 128 bits
    support: Ids | None  # (m,), ids of the outputs; None if all V are possible

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
        lasts = [int(last) for last in self.lasts]
        if self.low is not None:
            lasts = [(high << 64) + int(low) for high, low in zip(lasts, self.low, strict=True)]
        dense, outputs = [0] * size, range(size) if self.support is None else self.support
        for output, before, last in zip(outputs, [-1, *lasts], lasts, strict=False):
            dense[output] = last - before
        return dense


def tables(log_probs: Rows) -> list[Table]:
    """Makes a table per row, float64 (n, V) normalised, of the integers of :func:`integer_rows`."""
    made: list[Table] = []
    for (part,) in parts(torch.as_tensor(log_probs)):
        others = round_rows(part)
        lasts = _narrow(others) if others.narrow else _wide(others)
        made += [_table(*row, s) for row, s in zip(lasts, _supports(others), strict=True)]
    return made


def _narrow(others: Others) -> list[tuple[Words, Words | None]]:
    """The last integers of rows that have 64 bits."""
    widths = words(others.weights)
    widths.scatter_(1, others.top, -widths.sum(dim=1, keepdim=True))  # modulo 2^64, as all sums
    widths[:, 0] -= 1
    return [(row, None) for row in _unsigned(torch.cumsum(widths, dim=1))]


def _wide(others: Others) -> list[tuple[Words, Words | None]]:
    """The same where some row has 128 bits; all are added up as if they had."""
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
    return [(high, low) if bits == 128 else (low, None) for bits, high, low in rows]


def _table(lasts: Words, low: Words | None, support: Ids | None) -> Table:
    """Of a row of all V outputs."""
    if support is not None:
        lasts, low = lasts[support], None if low is None else low[support]
    return Table(lasts, low, support)


def _supports(others: Others) -> list[Ids | None]:
    """The possible outputs of each row; ``None`` where these are all."""
    if others.full:
        return [None] * len(others.top)
    possible = others.weights.scatter_(1, others.top, 1.0).cpu().numpy()
    outputs = [np.flatnonzero(row) for row in possible]
    return [None if len(row) == possible.shape[1] else row for row in outputs]


def _unsigned(words_of: torch.Tensor) -> Words:
    return words_of.cpu().numpy().view(np.uint64)
