"""Exact draws from rows of log-probabilities, with the operating system's entropy.

The sampler draws from integers (``_tables.py``), and the certificate takes the log-ratios of the
same integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from threading import Lock

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware import _forks
from dp_middleware._arena import Arena
from dp_middleware._tables import (
    WIDE_BELOW,
    Entropy,
    Floats,
    Ids,
    IntegerRows,
    Rows,
    Table,
    Words,
    integer_rows,
    os_entropy,
    random_words,
    tables,
)

__all__ = [
    "CACHE_BYTES",
    "WIDE_BELOW",
    "Entropy",
    "Floats",
    "Ids",
    "IntegerRows",
    "Rows",
    "Sampler",
    "Table",
    "Words",
    "insecure_entropy",
    "integer_rows",
    "log_softmax",
    "os_entropy",
    "tables",
]

_BATCH = 64  # rows computed at a time

CACHE_BYTES = 5 << 28
"""Memory for cached tables of one sampler."""


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


class Sampler:
    """Draws from the rows of one channel, keeping tables of tokens already seen.

    The cache is per process, bounded and in memory only: which rows it holds tells which tokens
    were typed. A cached token is faster than a new one; that timing is not protected. A draw is
    decided by one table, whatever else is computed meanwhile; see ``_arena.py``.

    Args:
        rows: Log-probability rows for ids, float64 (n, V); -1 is the unknown symbol.
        capacity: Bytes of cached tables.
    """

    def __init__(self, rows: Callable[[Ids], Rows], *, capacity: int = CACHE_BYTES) -> None:
        self._rows, self._capacity = rows, capacity
        self.after_fork()
        _forks.renew(self)

    def after_fork(self) -> None:
        """Without cached rows: a fork may have come while they were written."""
        self._arena = Arena(self._capacity)
        self._lock = Lock()

    def draw(self, ids: Ids, entropy: Entropy = os_entropy) -> Ids:
        """One independent output id for each input id, int64 (n,).

        The uniform integers are drawn first, in the order of the ids: what is cached decides
        nothing. (Only the lower halves of integers of 128 bits come later, where they count.)
        """
        uniform = random_words(len(ids), entropy)
        with self._lock:
            known, found = self._arena.locate(ids, uniform)
            if len(found) == len(ids):
                return found
            held = self._arena.tables(np.unique(ids[~known]))  # decides what the search did not
        released = np.empty(len(ids), dtype=np.int64)
        released[known] = found
        places = np.flatnonzero(~known)
        distinct, inverse, counts = np.unique(ids[places], return_inverse=True, return_counts=True)
        places = places[np.argsort(inverse, kind="stable")]
        groups = np.split(places, np.cumsum(counts)[:-1])
        group_of = dict(zip(distinct.tolist(), groups, strict=True))
        for number, table in self._found(group_of, held):
            group = group_of[number]
            released[group] = table.locate(uniform[group], entropy)
        return released

    def _found(self, wanted: Iterable[int], held: dict[int, Table]) -> Iterator[tuple[int, Table]]:
        """A table for each id: the one that is held, else a computed one."""
        yield from held.items()
        absent = np.array([number for number in wanted if number not in held], dtype=np.int64)
        for start in range(0, len(absent), _BATCH):
            batch = absent[start : start + _BATCH]
            yield from zip(batch.tolist(), self.tables(batch), strict=True)

    def tables(self, ids: Ids) -> list[Table]:
        """Tables of distinct ids, computed; they are cached from now on."""
        fresh = tables(self._rows(ids))
        with self._lock:
            for number, table in zip(ids.tolist(), fresh, strict=True):
                self._arena.store(number, table)
        return fresh
