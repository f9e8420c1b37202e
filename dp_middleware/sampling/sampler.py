"""Exact draws from rows of log-probabilities, with the operating system's entropy.

The sampler draws from integers (``integers.py``), and the certificate takes the log-ratios of the
same integers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Hashable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Floats, Ids, slices
from dp_middleware.errors import ParameterError
from dp_middleware.sampling._cache import CachedRows, RowCache
from dp_middleware.sampling.entropy import Entropy as Entropy, Words, os_entropy as os_entropy
from dp_middleware.sampling.integers import (
    WIDE_BELOW as WIDE_BELOW,
    Rows,
    Table as Table,
    integer_rows as integer_rows,
    normalize,
    tables as tables,
)

_LIMIT = "DP_MIDDLEWARE_ROW_CACHE_MB"
_caches: dict[str, RowCache] = {}

OFTEN = 64  # draws for a token in one call for which a table pays where there are landmarks
CACHE_BYTES = 5 << 28  # of cached tables of a process, unless the environment says otherwise


def shared_cache(key: Hashable) -> CachedRows:
    """Returns the cached tables of a channel in this process, for all samplers of the same key.

    The key is of all that decides a row. All channels together take no more memory than
    ``$DP_MIDDLEWARE_ROW_CACHE_MB`` megabytes; ParameterError: no such number.
    """
    if not _caches:
        chosen = os.environ.get(_LIMIT, "")
        if chosen and not (chosen.isascii() and chosen.isdigit()):
            raise ParameterError(
                f"expected {_LIMIT} as a whole number of megabytes, 0 for no cache, got {chosen!r}"
            )
        size = int(chosen) * 1_000_000 if chosen else CACHE_BYTES
        _caches.setdefault("process", RowCache(size))  # atomic: threads get the same one
    return _caches["process"].channel(key)


def bulk_entropy(count: int) -> bytes:
    """Draws bytes for noise, which takes many: OpenSSL's generator, seeded by the operating system.

    Ten times as fast as that system's own, which is used where Python has no OpenSSL.
    """
    try:
        from ssl import RAND_bytes
    except ImportError:
        return os_entropy(count)
    return RAND_bytes(count)


def insecure_entropy(seed: int) -> Entropy:
    """Makes a reproducible source for tests. Releases drawn with it have no privacy whatsoever."""
    return np.random.default_rng(seed).bytes


def log_softmax(scores: ArrayLike) -> Floats:
    """Computes log-probabilities proportional to exp(scores), float64 (n, V); overwrites."""
    rows = torch.from_numpy(np.ascontiguousarray(scores, dtype=np.float64))
    return normalize(rows).numpy()


class Sampler:
    """Draws from the rows of one channel, keeping tables of tokens already seen.

    The cache is in memory only: which rows it holds tells which tokens were typed. A cached token
    is faster than a new one; that timing is not protected.
    """

    def __init__(
        self,
        rows: Callable[[Ids], Rows],  # log-probabilities for ids, float64 (n, V); -1 is unknown
        *,
        batch: int = 64,  # rows computed at a time
        capacity: int = CACHE_BYTES,  # of cached tables, where they are not shared
        cache: CachedRows | None = None,  # shared tables of this channel
        landmarks: Any = None,  # Landmarks, by which tokens are drawn for that come seldom
    ) -> None:
        self._rows, self._batch, self._landmarks = rows, batch, landmarks
        self._cache = cache if cache is not None else RowCache(capacity).channel("own")

    def draw(self, ids: Ids, entropy: Entropy = os_entropy) -> Ids:
        """Draws an independent output id for each input id, int64 (n,).

        The uniform integers are drawn first, in the order of the ids, whatever is cached; only the
        lower halves of integers of 128 bits come later, where they count.
        """
        uniform: Words = np.frombuffer(entropy(8 * len(ids)), dtype=np.uint64)
        known, outputs, held = self._cache.locate(ids, uniform)
        if len(outputs) == len(ids):
            return outputs
        released = np.empty(len(ids), dtype=np.int64)
        released[known] = outputs
        places = np.flatnonzero(~known)
        if self._landmarks is not None:
            seldom = places[self._are_seldom(ids[places], len(self._landmarks))]
            decided, outputs = self._landmarks.locate(ids[seldom], uniform[seldom])
            released[seldom[decided]] = outputs
            places = np.setdiff1d(places, seldom[decided])
            if not len(places):
                return released
        distinct, inverse, counts = np.unique(ids[places], return_inverse=True, return_counts=True)
        places = places[np.argsort(inverse, kind="stable")]
        groups = np.split(places, np.cumsum(counts)[:-1])
        group_of = dict(zip(distinct.tolist(), groups, strict=True))
        for number, table in self._tables(group_of, held):
            group = group_of[number]
            released[group] = table.locate(uniform[group], entropy)
        return released

    def _are_seldom(self, ids: Ids, outputs: int) -> NDArray[np.bool_]:
        """Which of these places have a token that is not worth a table of so many outputs."""
        if not self._cache.has_room(outputs):
            return ids >= 0
        _, inverse, counts = np.unique(ids, return_inverse=True, return_counts=True)
        return (ids >= 0) & (counts[inverse] < OFTEN)

    def _tables(self, ids: Collection[int], held: dict[int, Table]) -> Iterator[tuple[int, Table]]:
        """A table for each id: the one that is held, else a computed one."""
        yield from ((number, held[number]) for number in ids if number in held)
        absent = np.array([number for number in ids if number not in held], dtype=np.int64)
        for part in slices(len(absent), self._batch):
            yield from zip(absent[part].tolist(), self.tables(absent[part]), strict=True)

    def tables(self, ids: Ids) -> list[Table]:
        """Computes tables of distinct ids; they are cached from now on."""
        fresh = tables(self._rows(ids))
        self._cache.store(ids, fresh)
        return fresh
