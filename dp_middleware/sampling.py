"""From log-probabilities to integers, and exact draws from them.

A row is turned into integers, at least 1 on its support and 0 off it, with total 2^64 (2^128 when
a probability lies below e^-30). The sampler draws from these integers with the operating system's
entropy, and the certificate takes the log-ratios of the same integers: no output vanishes by
underflow and nothing is lost to floating-point cumulative sums.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_middleware.errors import ParameterError

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
Words = NDArray[np.uint64]
Entropy = Callable[[int], bytes]

_SUM_ERROR = 1e-9
_BATCH = 64  # rows computed at a time
_LOW32 = np.uint64(0xFFFFFFFF)
_TWO_64 = 2.0**64

WIDE_BELOW = -30.0
"""Log-probability below which a row uses 128 bits instead of 64."""

CACHE_BYTES = 1 << 30
"""Memory for cached tables of one sampler."""


def os_entropy(count: int) -> bytes:
    """Bytes from the operating system's generator; fresh after fork and unpickling."""
    return os.urandom(count)


def insecure_entropy(seed: int) -> Entropy:
    """A reproducible source for tests. Releases drawn with it have no privacy whatsoever."""
    generator = np.random.default_rng(seed)
    return generator.bytes


def log_softmax(scores: ArrayLike) -> Floats:
    """Rows of log-probabilities proportional to exp(scores), float64 (n, V).

    A float64 ``scores`` array is overwritten. A score of -inf is outside the support.
    """
    import torch

    rows = torch.from_numpy(np.ascontiguousarray(scores, dtype=np.float64))
    return torch.log_softmax(rows, dim=-1).numpy()


@dataclass(frozen=True)
class IntegerRows:
    """Probabilities as integers held in float64, which is exact up to the largest of a row.

    Attributes:
        weights: float64 (n, V), integers in units of 2^-bits, 0 off the support. The largest of
            a row is the total less the others, rounded to float64.
        bits: int (n,), 64 or 128.
    """

    weights: Floats
    bits: Ids


def integer_rows(log_probs: Floats) -> IntegerRows:
    """Round rows to integers: at least 1 on the support, the largest takes what is left.

    Args:
        log_probs: float64 (n, V), normalised, -inf off the support.

    Raises:
        ParameterError: A row holds NaN or its probabilities do not sum to one.
    """
    import torch

    rows = torch.from_numpy(log_probs)
    smallest = rows.amin(dim=1)
    partial = bool(torch.isinf(smallest).any())
    if partial:
        smallest = torch.where(torch.isinf(rows), 0.0, rows).amin(dim=1)
    wide = smallest < WIDE_BELOW
    bits = torch.where(wide, 128, 64)
    weights = torch.exp(rows)
    if not bool(((weights.sum(dim=1) - 1.0).abs() < _SUM_ERROR).all()):  # so fails NaN
        raise ParameterError("expected rows of log-probabilities whose exponentials sum to one")
    weights.mul_(torch.pow(2.0, bits.double())[:, None]).round_().clamp_(min=1.0)
    if partial:
        weights.masked_fill_(torch.isinf(rows), 0.0)
    top = rows.argmax(dim=1, keepdim=True)
    weights.scatter_(1, top, 0.0)  # the others, whose sum decides the largest
    sums = weights.to(torch.int64).sum(dim=1).tolist()  # modulo 2^64, exact for 64 bits
    for row, sum_64 in enumerate(sums):
        left = (
            _remainder(weights[row].numpy(), 128) if wide[row] else (1 << 64) - sum_64 % (1 << 64)
        )
        weights[row, top[row]] = float(left)
    return IntegerRows(weights.numpy(), bits.numpy())


def _remainder(others: Floats, bits: int) -> int:
    """2^bits less the sum of the others, exactly."""
    if bits == 64:
        return (1 << 64) - int(others.astype(np.uint64).sum(dtype=np.uint64))
    high, low = _halves(others)
    limbs = [(high >> np.uint64(32), 96), (high & _LOW32, 64), (low >> np.uint64(32), 32)]
    limbs.append((low & _LOW32, 0))
    return (1 << 128) - sum(int(limb.sum(dtype=np.uint64)) << shift for limb, shift in limbs)


def _halves(weights: Floats) -> tuple[Words, Words]:
    """The high and low 64 bits of integers below 2^128 held in float64."""
    high = np.floor(weights / _TWO_64)
    return high.astype(np.uint64), (weights - high * _TWO_64).astype(np.uint64)


@dataclass(frozen=True)
class Table:
    """A row ready to draw from: output k owns the integers from its start to the next start.

    Attributes:
        starts: uint64 (m,), ascending: the upper 64 bits of each output's first integer.
        low: uint64 (m,): the lower 64 bits, for a row of 128 bits.
        support: int64 (m,): ids of the outputs; ``None`` if all V are possible.
    """

    starts: Words
    low: Words | None
    support: Ids | None

    @property
    def nbytes(self) -> int:
        """Memory held."""
        parts = (self.starts, self.low, self.support)
        return sum(part.nbytes for part in parts if part is not None)

    def draw(self, count: int, entropy: Entropy) -> Ids:
        """Independent draws, int64 (count,): a uniform integer each, then a binary search."""
        found = self._locate(np.frombuffer(entropy(8 * count), dtype=np.uint64), entropy)
        return found if self.support is None else self.support[found]

    def _locate(self, uniform: Words, entropy: Entropy) -> Ids:
        found = np.searchsorted(self.starts, uniform, side="right").astype(np.int64) - 1
        if self.low is None:
            return found
        for k in np.flatnonzero(self.starts[found] == uniform):  # decided by the lower 64 bits
            first = np.searchsorted(self.starts, uniform[k], side="left")
            lower = np.frombuffer(entropy(8), dtype=np.uint64)[0]
            same = self.low[first : found[k] + 1]
            found[k] = first + np.searchsorted(same, lower, side="right") - 1
        return found

    def integers(self, size: int) -> list[int]:
        """The integer of each of V outputs, exact; for tests and audits."""
        total = 64 if self.low is None else 128
        low = np.zeros_like(self.starts) if self.low is None else self.low
        firsts = [(int(h) << (total - 64)) + int(k) for h, k in zip(self.starts, low, strict=True)]
        widths = np.diff(np.array([*firsts, 1 << total], dtype=object))
        dense = [0] * size
        for output, width in zip(self._outputs(), widths, strict=True):
            dense[output] = int(width)
        return dense

    def _outputs(self) -> list[int]:
        return list(range(len(self.starts))) if self.support is None else self.support.tolist()


def tables(log_probs: Floats) -> list[Table]:
    """A table per row; the integers are those of :func:`integer_rows`.

    Args:
        log_probs: float64 (n, V), normalised, -inf off the support.
    """
    rounded = integer_rows(log_probs)
    pairs = zip(rounded.weights, rounded.bits, strict=True)
    return [_table(weights, int(bits)) for weights, bits in pairs]


def _table(weights: Floats, bits: int) -> Table:
    support = None if weights.all() else np.flatnonzero(weights).astype(np.int64)
    kept = weights.copy() if support is None else weights[support]
    top = int(kept.argmax())
    kept[top] = 0.0
    exact = _remainder(kept, bits) % (1 << bits)
    high, low = (kept.astype(np.uint64), None) if bits == 64 else _halves(kept)
    if low is None:
        high[top] = exact
        return Table(_exclusive(high), None, support)
    high[top], low[top] = exact >> 64, exact & ((1 << 64) - 1)
    running = np.cumsum(low, dtype=np.uint64)
    carries = (running < low).astype(np.uint64)
    return Table(_exclusive(high + carries), _exclusive(low), support)


def _exclusive(words: Words) -> Words:
    """Sums of all earlier words, modulo 2^64 (only the sum of all of them reaches it)."""
    starts = np.zeros_like(words)
    np.cumsum(words[:-1], dtype=np.uint64, out=starts[1:])
    return starts


class Sampler:
    """Draws from the rows of one channel, keeping tables of tokens already seen.

    The cache is per process, bounded and in memory only: which rows it holds tells which tokens
    were typed. A cached token is faster than a new one; that timing is not protected.

    Args:
        rows: Log-probability rows for ids, float64 (n, V); -1 is the unknown symbol.
        capacity: Bytes of cached tables.
    """

    def __init__(self, rows: Callable[[Ids], Floats], *, capacity: int = CACHE_BYTES) -> None:
        self._rows = rows
        self._capacity = capacity
        self._tables: OrderedDict[int, Table] = OrderedDict()
        self._held = 0
        self._lock = Lock()

    def draw(self, ids: Ids, entropy: Entropy = os_entropy) -> Ids:
        """One independent output id for each input id, int64 (n,)."""
        distinct, inverse = np.unique(ids, return_inverse=True)
        order = np.argsort(inverse, kind="stable")
        groups = np.split(order, np.cumsum(np.bincount(inverse, minlength=len(distinct)))[:-1])
        released = np.empty(len(ids), dtype=np.int64)
        for start in range(0, len(distinct), _BATCH):
            batch = distinct[start : start + _BATCH]
            for table, group in zip(
                self.tables(batch), groups[start : start + _BATCH], strict=True
            ):
                released[group] = table.draw(len(group), entropy)
        return released

    def tables(self, ids: Ids) -> list[Table]:
        """Tables of distinct ids, computed if not cached."""
        with self._lock:
            found = {int(i): self._tables[int(i)] for i in ids if int(i) in self._tables}
            for number in found:
                self._tables.move_to_end(number)
        missing = np.array([i for i in ids.tolist() if i not in found], dtype=np.int64)
        if missing.size:
            fresh = dict(zip(missing.tolist(), tables(self._rows(missing)), strict=True))
            found.update(fresh)
            self._remember(fresh)
        return [found[i] for i in ids.tolist()]

    def _remember(self, fresh: dict[int, Table]) -> None:
        with self._lock:
            for number, table in fresh.items():
                if number not in self._tables:
                    self._tables[number] = table
                    self._held += table.nbytes
            while self._held > self._capacity and self._tables:
                self._held -= self._tables.popitem(last=False)[1].nbytes
