"""The rows of a nearest response as lists, alike but for a few outputs each: draws make no rows."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from dp_middleware import _files
from dp_middleware.embedding import arrays
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import EmbeddingSpace, on_host
from dp_middleware.mechanisms.base import Mechanism, is_known, key_on_disk, rows_of, writing
from dp_middleware.mechanisms.kernels import chosen
from dp_middleware.mechanisms.nearest_response import NearestResponse
from dp_middleware.sampling.entropy import Entropy, Words, random_words
from dp_middleware.sampling.integers import WIDE_BELOW, tables
from dp_middleware.vocabulary.vocabulary import UNKNOWN

_MOST = 1 << 24  # entries of all lists together
_LEAST = 1e-6  # nats; below, rounding may weigh as much as epsilon
_FEW = 1 << 20  # products, which are faster than a file
_TOGETHER = 512  # tokens whose lists are made at a time
_ENTRIES = 1 << 22  # of rows made at a time
_ONE = np.uint64(1)


@dataclass(frozen=True, eq=False, kw_only=True)
class NearRows:
    """Holds rows of integers with a total of 2^64, alike off a token's short list.

    The output that owns a uniform integer is the one that the token's table has: of the integers
    before it, those on the list are counted from the list, all others from the sums of the common
    ones.
    """

    outputs: Ids  # (m,), ids of the possible outputs, ascending
    lists: NDArray[Any]  # unsigned (V, r), places among the outputs, ascending in each row
    kinds: NDArray[Any]  # unsigned (V,): tokens of a kind have the same integers along their lists
    own: Words  # (K, r), of each kind the integers along its lists
    common: Words  # (m,), the integer of each output for tokens that do not list it
    unknown: Words  # (m,), the integers of the unknown symbol
    largest: Words  # (K + 1,), of each kind and, last, the unknown symbol: what the others leave

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Gives all of it, by name."""
        return {name: getattr(self, name) for name in NearRows.__annotations__}

    def draw(self, ids: Ids, entropy: Entropy) -> Ids:
        """Draws an independent output for each input, int64 (n,), -1 for the unknown symbol."""
        return self.locate(ids, random_words(len(ids), entropy))

    def locate(self, ids: Ids, uniform: Words) -> Ids:
        """Finds the outputs that own uniform integers, int64 (n,)."""
        places = self._places(ids, uniform)
        unknown = (ids < 0).nonzero()[0]
        if len(unknown):
            lasts = np.cumsum(self.unknown, dtype=np.uint64) - _ONE
            places[unknown] = np.searchsorted(lasts, uniform[unknown])
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
        integers, (ends, guide, shift) = uniform[others] - beyond, self._guide
        owners = guide[integers >> shift]  # of the common row; few steps from the true ones
        while (short := integers > ends[owners]).any():
            owners += short
        places[others] = owners
        return places

    @cached_property
    def _guide(self) -> tuple[Words, Ids, np.uint64]:
        """Ends of the common row, and the owners of multiples of a power of two, four an output."""
        lasts = np.cumsum(self.common, dtype=np.uint64) - _ONE
        bits = len(lasts).bit_length() + 2
        shift = np.uint64(max(0, int(lasts[-1]).bit_length() - bits))
        return lasts, np.searchsorted(lasts, np.arange(1 << bits, dtype=np.uint64) << shift), shift

    @cached_property
    def _bounds(self) -> tuple[NDArray[Any], Words, Words, Words]:
        """Places on the lists and their first integers, (V * r,), last ones, (r, V), and shifts.

        What lies behind the first j of a list is further on by the kind's j-th shift, modulo 2^64:
        a largest integer takes what the others leave.
        """
        _, some = np.unique(self.kinds, return_index=True)
        more = self.own - self.common[self.lists[some]]
        shifts = np.cumsum(np.hstack([np.zeros_like(more[:, :1]), more]), axis=1, dtype=np.uint64)
        before = np.hstack([[np.uint64(0)], np.cumsum(self.common[:-1], dtype=np.uint64)])
        firsts = before[self.lists] + shifts[self.kinds, :-1]
        lasts = firsts + self.own[self.kinds] - _ONE
        return self.lists.reshape(-1), firsts.reshape(-1), np.ascontiguousarray(lasts.T), shifts


def near_rows(mechanism: Mechanism, space: EmbeddingSpace) -> NearRows | None:
    """Gives the rows of this mechanism as lists, bit for bit; ``None`` where it cannot.

    For a nearest response of this package up to an epsilon of 30 less the logarithm of the
    codewords. Kept on disk and, with the space, in memory.
    """
    if not _has_lists(mechanism, space):
        return None
    _, copies = mechanism.codewords(space)
    if mechanism.epsilon < _LEAST or len(space) * _length(mechanism, copies) > _MOST:
        return None
    return space.derived(("near rows", mechanism.fingerprint), lambda: _kept(mechanism, space))


def are_ready(mechanism: Mechanism, space: EmbeddingSpace) -> bool:
    """Tells whether the rows come with the package, so that they and certificates take no time."""
    if not _has_lists(mechanism, space):
        return False
    return chosen.part("book", *book_key(mechanism, space)) is not None


def _has_lists(mechanism: Mechanism, space: EmbeddingSpace) -> TypeGuard[NearestResponse]:
    """A subclass may have another law."""
    return type(mechanism) is NearestResponse and is_known(mechanism, space)


def book_key(mechanism: NearestResponse, space: EmbeddingSpace) -> tuple[str, ...]:
    """Returns all that decides lists, which are of exact products: the same on every machine."""
    listed = np.repeat(*mechanism.codewords(space))
    digest = hashlib.sha256(listed.tobytes()).hexdigest()
    return space.fingerprint, mechanism.nearness, str(mechanism.candidates), digest


def shipped(mechanism: NearestResponse, space: EmbeddingSpace) -> NearRows | None:
    """Reads the rows that come with the package; ``None`` where these do not."""
    kinds = {f"rows-{name}": name for name in NearRows.__annotations__}
    parts = chosen.parts(kinds, mechanism.fingerprint, space.fingerprint)
    return NearRows(**{kinds[kind]: array for kind, array in parts.items()}) if parts else None


def keep(mechanism: Mechanism, space: EmbeddingSpace) -> Path | None:
    """Writes the lists to a file, if there are some; ParameterError: the folder has no room."""
    rows = near_rows(mechanism, space)
    if rows is None or not _has_lists(mechanism, space):
        return None
    if shipped(mechanism, space) is not None:
        return chosen.FILE
    path = _path(mechanism, space)
    if arrays.load(path) is None:
        with writing(path):
            arrays.store(rows.arrays, path)
    return path


def _length(mechanism: NearestResponse, copies: Ids) -> int:
    """Of a list: with repeated codewords one more, for the likeliest of those that are not near."""
    if mechanism.candidates >= copies.sum():
        return 1  # all rows are equal
    return min(mechanism.candidates + int(copies.max() > 1), len(copies))


def _kept(mechanism: NearestResponse, space: EmbeddingSpace) -> NearRows | None:
    """From the package or from disk, else made."""
    if (rows := shipped(mechanism, space)) is not None:
        return rows
    if len(space) * len(mechanism.codewords(space)[0]) < _FEW:
        return made(mechanism, space)
    path = _path(mechanism, space)
    kept = arrays.kept(path, lambda: getattr(made(mechanism, space), "arrays", {}))
    return NearRows(**kept) if kept else None


def made(mechanism: NearestResponse, space: EmbeddingSpace) -> NearRows | None:
    """Makes lists, and a row of each kind of list; by the CPU's integers everywhere."""
    codewords, copies = mechanism.codewords(space)
    everyone, length = np.arange(len(space)), _length(mechanism, copies)
    listed = np.empty((len(space), length), dtype=np.min_scalar_type(len(codewords)))
    for ids in np.array_split(everyone, -(-len(space) // _TOGETHER)):
        listed[ids] = mechanism.nearest(ids, space, length).cpu().numpy()
    raised = mechanism.raised(copies[listed])
    first = int(copies.argmax())  # the likeliest output, unless one that is near is likelier
    alike = mechanism.candidates >= copies.sum()  # all rows are
    if copies.max() > 1 or alike:
        listed[~(listed == first).any(axis=1), -1] = first
    order = np.argsort(listed, axis=1)
    listed, raised = (np.take_along_axis(values, order, axis=1) for values in (listed, raised))
    patterns = np.hstack([copies[listed], raised])
    _, some, kinds = np.unique(patterns, axis=0, return_index=True, return_inverse=True)
    far = mechanism.log_weights(copies, copies * alike, copies)
    own, largest, common = [], [], np.ones(len(copies), dtype=np.uint64)
    for part in np.array_split(some, 1 + len(some) * len(copies) // _ENTRIES):
        logs, near = np.tile(far, (len(part), 1)), listed[part].astype(np.int64)
        if not alike:
            weights = mechanism.log_weights(copies[near], raised[part], copies)
            np.put_along_axis(logs, near, weights, axis=1)
        if logs.min() < WIDE_BELOW:
            return None
        integers = _integers(logs)
        own.append(np.take_along_axis(integers, near, axis=1))
        largest.append(integers[np.arange(len(part)), logs.argmax(axis=1)])
        np.put_along_axis(integers, near, np.uint64(0), axis=1)
        np.maximum(common, integers.max(axis=0), out=common)
    for count in np.unique(copies):  # a codeword that is on all these lists is not on all others
        common[copies == count] = common[copies == count].max()
    if (listed == first).any(axis=1).all():
        common[first] = 1  # counts for nothing, and the sum stays below the total
    unknown = on_host(rows_of(mechanism, np.array([UNKNOWN]), space))[:, codewords]
    (integers,) = _integers(unknown)
    return NearRows(
        outputs=codewords,
        lists=listed,
        kinds=kinds.reshape(-1).astype(np.min_scalar_type(len(some))),
        own=np.concatenate(own),
        common=common,
        unknown=integers,
        largest=np.append(np.concatenate(largest), integers[unknown.argmax()]),
    )


def _integers(logs: Floats) -> Words:
    """Rows of logarithms as the CPU's integers, modulo 2^64."""
    lasts = (table.lasts for table in tables(logs))
    return np.array([np.diff(ends, prepend=np.uint64(2**64 - 1)) for ends in lasts])


def _path(mechanism: Mechanism, space: EmbeddingSpace) -> Path:
    return _files.cache_path("lists", *key_on_disk(mechanism, space), suffix=".npz")
