"""Rows of probabilities as integers, and tables of them that draws search.

A row is turned into integers, at least 1 on its support and 0 off it, with total 2^64 (2^128 when
a probability lies below e^-30): no output vanishes by underflow, and nothing is lost to
floating-point cumulative sums.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Union

import numpy as np
from numpy.typing import NDArray

from dp_middleware.errors import ParameterError

if TYPE_CHECKING:
    import torch

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
Words = NDArray[np.uint64]
Entropy = Callable[[int], bytes]
Rows = Union["Floats", "torch.Tensor"]

_SUM_ERROR = 1e-9
_ONE = np.uint64(1)
_TWO_64 = 2.0**64

WIDE_BELOW = -30.0
"""Log-probability below which a row uses 128 bits instead of 64."""


def os_entropy(count: int) -> bytes:
    """Bytes from the operating system's generator; fresh after fork and unpickling."""
    return os.urandom(count)


def random_words(count: int, entropy: Entropy) -> Words:
    """Uniform integers below 2^64."""
    return np.frombuffer(entropy(8 * count), dtype=np.uint64)


@dataclass(frozen=True)
class IntegerRows:
    """Probabilities as integers held in float64, which is exact up to the largest of a row.

    Attributes:
        weights: float64 (n, V), integers in units of 2^-bits, 0 off the support. The largest of
            a row is the total less the others, rounded to float64.
        bits: int64 (n,), 64 or 128.
    """

    weights: torch.Tensor
    bits: torch.Tensor

    @property
    def units(self) -> torch.Tensor:
        """What an integer of each row stands for, 2^-bits, float64 (n, 1)."""
        return (-self.bits).double().exp2()[:, None]


def integer_rows(log_probs: Rows) -> IntegerRows:
    """Round rows to integers: at least 1 on the support, the largest takes what is left.

    Args:
        log_probs: float64 (n, V), normalised, -inf off the support.

    Returns:
        On the device of the rows.

    Raises:
        ParameterError: A row holds NaN or its probabilities do not sum to one.
    """
    import torch

    weights, bits, top = _rounded(log_probs)
    left = (np.uint64(0) - _unsigned(_words(weights).sum(dim=1))).astype(np.float64)
    left[left == 0] = _TWO_64
    wide = (bits == 128).nonzero()[:, 0]
    left[wide.cpu().numpy()] = [float(k) for k in _remainders(weights[wide])]
    rows = torch.arange(len(top), device=top.device)
    weights[rows, top] = torch.from_numpy(left).to(weights.device)
    return IntegerRows(weights, bits)


def _rounded(log_probs: Rows) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Integers of all outputs but the largest of each row, which is 0; bits; which that is."""
    import torch

    rows = torch.as_tensor(log_probs)
    smallest = rows.amin(dim=1)
    impossible, finite = None, rows
    if bool(torch.isinf(smallest).any()):
        impossible = rows == -torch.inf
        finite = rows.masked_fill(impossible, 0.0)
        smallest = finite.amin(dim=1)
    bits = torch.where(smallest < WIDE_BELOW, 128, 64)
    weights = torch.exp(finite)  # exp is slow at -inf
    if impossible is not None:
        weights.masked_fill_(impossible, 0.0)
    if not bool(((weights.sum(dim=1) - 1.0).abs() < _SUM_ERROR).all()):  # so fails NaN
        raise ParameterError("expected rows of log-probabilities whose exponentials sum to one")
    weights.mul_(torch.pow(2.0, bits.double())[:, None]).round_().clamp_(min=1.0)
    if impossible is not None:
        weights.masked_fill_(impossible, 0.0)
    top = rows.argmax(dim=1)
    weights[torch.arange(len(top), device=top.device), top] = 0.0
    return weights, bits, top


def _words(weights: torch.Tensor) -> torch.Tensor:
    """Integers modulo 2^64, as int64; the rows of 128 bits among them have no meaning."""
    import torch

    if weights.device.type == "cpu":
        with np.errstate(invalid="ignore"):
            return torch.from_numpy(weights.numpy().astype(np.uint64).view(np.int64))
    return weights.to(torch.uint64).view(torch.int64)


def _unsigned(words: torch.Tensor) -> Words:
    """The same bits as unsigned integers on the host."""
    return words.cpu().numpy().view(np.uint64)


def _remainders(others: torch.Tensor) -> list[int]:
    """2^128 less the sum of the others in each row, exactly."""
    import torch

    limbs = []
    for shift in (96, 64, 32, 0):
        limb = torch.floor(others * 2.0**-shift)
        others = others - limb * 2.0**shift
        limbs.append(limb.to(torch.int64).sum(dim=1))
    sums = torch.stack(limbs, dim=1).tolist()
    return [(1 << 128) - (a << 96) - (b << 64) - (c << 32) - d for a, b, c, d in sums]


def _halves(weights: Floats) -> tuple[Words, Words]:
    """The high and low 64 bits of integers below 2^128 held in float64."""
    high = np.floor(weights / _TWO_64)
    return high.astype(np.uint64), (weights - high * _TWO_64).astype(np.uint64)


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
        found = np.searchsorted(self.lasts, uniform).astype(np.int64)
        if self.low is not None:
            for k in np.flatnonzero(self.lasts[found] == uniform):
                found[k] = self.decided(int(found[k]), uniform[k], entropy)
        return found if self.support is None else self.support[found]

    def decided(self, first: int, upper: np.uint64, entropy: Entropy) -> int:
        """The place of an integer of 128 bits whose upper half is also that of ``lasts[first]``.

        Args:
            first: The first place with this upper half.
            upper: The upper half.
            entropy: Where the lower half, which decides, comes from.
        """
        assert self.low is not None  # rows of 64 bits have nothing to decide
        behind = int(np.searchsorted(self.lasts, upper, side="right"))
        lower = random_words(1, entropy)[0]
        return first + int(np.searchsorted(self.low[first:behind], lower))

    def integers(self, size: int) -> list[int]:
        """The integer of each of V outputs, exact; for tests and audits."""
        wide = self.low is not None
        low = self.low if self.low is not None else np.zeros_like(self.lasts)
        pairs = zip(self.lasts, low, strict=True)
        lasts = [(int(h) << 64) + int(k) if wide else int(h) for h, k in pairs]
        widths = np.diff(np.array([-1, *lasts], dtype=object))
        dense = [0] * size
        for output, width in zip(self._outputs(), widths, strict=True):
            dense[output] = int(width)
        return dense

    def _outputs(self) -> list[int]:
        return list(range(len(self.lasts))) if self.support is None else self.support.tolist()


def tables(log_probs: Rows) -> list[Table]:
    """A table per row; the integers are those of :func:`integer_rows`.

    Args:
        log_probs: float64 (n, V), normalised, -inf off the support.
    """
    import torch

    weights, bits, top = _rounded(log_probs)
    rows = torch.arange(len(top), device=top.device)
    words = _words(weights)
    words[rows, top] = -words.sum(dim=1)  # modulo 2^64, as all sums here
    lasts = _unsigned(torch.cumsum(words, dim=1).sub_(1))
    weights[rows, top] = 1.0  # possible
    made = zip(lasts, weights.cpu().numpy(), bits.tolist(), top.tolist(), strict=True)
    return [_wide(w, k) if b == 128 else _narrow(last, w) for last, w, b, k in made]


def _narrow(lasts: Words, weights: Floats) -> Table:
    """From the last integers of all V outputs."""
    if weights.all():
        return Table(lasts, None, None)
    support = np.flatnonzero(weights).astype(np.int64)
    return Table(lasts[support], None, support)


def _wide(weights: Floats, top: int) -> Table:
    """From the integers of all outputs but the largest."""
    import torch

    support = np.flatnonzero(weights).astype(np.int64)
    weights[top] = 0.0
    exact = _remainders(torch.from_numpy(weights)[None])[0] % (1 << 128)
    high, low = (part[support] for part in _halves(weights))
    place = int(np.searchsorted(support, top))
    high[place], low[place] = exact >> 64, exact & ((1 << 64) - 1)
    running = np.cumsum(low, dtype=np.uint64)
    high += running < low  # what is carried
    lasts = np.cumsum(high, dtype=np.uint64) - (running == 0).astype(np.uint64)
    return Table(lasts, running - _ONE, None if len(support) == len(weights) else support)
