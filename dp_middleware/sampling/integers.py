"""Rows of probabilities as integers that add up to a power of two.

A row is turned into integers, at least 1 on its support and 0 off it, with total 2^64 (2^128 when
a probability lies below e^-30): no output vanishes by underflow, and nothing is lost to
floating-point cumulative sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Floats, parts
from dp_middleware.errors import ParameterError

Rows: TypeAlias = "Floats | torch.Tensor"

_TWO_64 = 2.0**64
_LOWER = (1 << 32) - 1

SUM_ERROR = 1e-9
"""How far from one the probabilities of a row may add up."""

WIDE_BELOW = -30.0
"""Log-probability below which a row uses 128 bits instead of 64."""


def normalize(scores: torch.Tensor) -> torch.Tensor:
    """Turns rows of scores into log-probabilities, in place; -inf is outside the support.

    A row is the same alone, and its sum is added in pairs, in an order that no processor, thread
    or device changes. (``torch.log_softmax`` adds one by one: off by 7e-14 at V = 11,000.)
    """
    scores.sub_(scores.amax(dim=1, keepdim=True))
    sums, width = scores.exp(), scores.shape[1]
    while width > 1:
        left, width = width, (width + 1) // 2
        sums[:, : left - width] += sums[:, width:left]
    return scores.sub_(sums[:, :1].log_())


@dataclass(frozen=True)
class IntegerRows:
    """Holds probabilities as integers in float64, which is exact up to the largest of a row.

    ``weights`` float64 (n, V) are in units of 2^-``bits``, int64 (n,), 64 or 128, and 0 off the
    support; the ``largest`` of a row, (n,), is the total less the others, rounded to float64.
    """

    weights: torch.Tensor
    bits: torch.Tensor
    largest: torch.Tensor

    @property
    def units(self) -> torch.Tensor:
        """Computes what an integer of each row stands for, 2^-bits, float64 (n, 1)."""
        return (-self.bits).double().exp2()[:, None]


def integer_rows(log_probs: Rows) -> IntegerRows:
    """Rounds rows to integers: at least 1 on the support, the largest takes what is left.

    ``log_probs`` are float64 (n, V), normalised, -inf off the support; the result is on their
    device. ParameterError: a row holds NaN or its probabilities do not sum to one.
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
    """Holds integers of all outputs of a few rows but the largest of each row, which is 0 here.

    ``weights`` float64 (n, V), ``bits`` int64 (n,), 64 or 128, ``top`` int64 (n, 1) names the
    largest, ``full`` says whether every output is possible in every row.
    """

    weights: torch.Tensor
    bits: torch.Tensor
    top: torch.Tensor
    full: bool

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
    top = _first_largest(rows)
    return Others(weights.scatter_(1, top, 0.0), bits, top, impossible is None)


def _first_largest(rows: torch.Tensor) -> torch.Tensor:
    """Columns of the largest values, ties by index; int64 (n, 1)."""
    if rows.device.type == "cpu":  # NumPy is ten times as fast at this
        return torch.from_numpy(rows.numpy().argmax(axis=1, keepdims=True))
    return rows.argmax(dim=1, keepdim=True)


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
