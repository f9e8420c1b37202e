"""The codebook of a tuned nearest response: from the package, from disk, or searched for."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection
from contextlib import suppress
from functools import cached_property
from pathlib import Path

import numpy as np

from dp_middleware import _files, _validate
from dp_middleware._waits import told
from dp_middleware.embedding import arrays
from dp_middleware.embedding.arrays import Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.kernels import codebook, priors, ready
from dp_middleware.vocabulary import frequencies

_FINE = 9  # nats, whose codebook is fine enough to choose from for every smaller epsilon
_SMALL = 512  # tokens, among which a search takes no time


class Chosen:
    """Chooses a codebook; arguments and errors are those of :meth:`NearestResponse.tuned`."""

    def __init__(
        self,
        space: EmbeddingSpace,
        epsilon: float,
        prior: priors.Prior | None = None,
        outputs: Collection[int] | None = None,
    ) -> None:
        _validate.positive(epsilon=epsilon)
        if not isinstance(space, EmbeddingSpace):
            raise ParameterError(f"expected dp.EmbeddingSpace, got {type(space).__name__}")
        words = np.flatnonzero(frequencies.codewords(space.vocabulary))
        self._allowed = words if outputs is None else np.unique(space.checked([*outputs]))
        if not len(self._allowed):
            raise ParameterError("expected outputs as ids of tokens, got none")
        self._space, self._epsilon = space, epsilon
        self._origin, self._weights = priors.weighted(prior, space.vocabulary, epsilon)

    def is_known(self) -> bool:
        """Tells whether there is no search to wait for."""
        return len(self._space) < _SMALL or self._ready() is not None or self._kept() is not None

    def codebook(self) -> tuple[Ids, int]:
        """Gives the ids of the codewords, and the number k of near ones."""
        if known := self._ready() or self._kept():
            return known
        space, epsilon, allowed = self._space, self._epsilon, self._candidates
        with told(f"choosing a codebook for epsilon {epsilon:g} among {len(allowed):,} tokens"):
            book, near = codebook.best_codebook(space, epsilon, self._weights(), allowed)
        with suppress(OSError):
            arrays.store({"codebook": np.append(near, book)}, self._path)
        return book, near

    def _ready(self, epsilon: float | None = None) -> tuple[Ids, int] | None:
        """The one that comes with the package, if any does."""
        nats, origin = self._epsilon, self._origin
        if epsilon is not None:
            nats, origin = epsilon, self._default_origin(epsilon)
        key = self._space.fingerprint, repr(float(nats)), origin, _digest(self._allowed)
        made = ready.part("codebook", *key)
        return None if made is None else (made[1:].astype(np.int64), int(made[0]))  # with k before

    def _kept(self) -> tuple[Ids, int] | None:
        """The one from disk; ``None`` if it is absent or damaged."""
        stored = arrays.load(self._path)
        return None if stored is None else (stored["codebook"][1:], int(stored["codebook"][0]))

    @property
    def _path(self) -> Path:
        """By all that decides the search, its code included."""
        search = hashlib.sha256(Path(str(codebook.__file__)).read_bytes()).hexdigest()
        key = (self._space.fingerprint, repr(float(self._epsilon)), self._origin)
        among = _digest(self._candidates)
        return _files.cache_path("codebooks", *key, among, search, suffix=".npz")

    @cached_property
    def _candidates(self) -> Ids:
        """Codewords of the package's codebooks up to the next larger epsilon, else all allowed."""
        nats = self._epsilon
        if nats > max(ready.EPSILONS) or self._origin != self._default_origin(nats):
            return self._allowed
        books = map(self._ready, map(float, range(1, max(math.ceil(nats), _FINE) + 1)))
        known = [book[0] for book in books if book is not None]
        return np.unique(np.concatenate(known)) if known else self._allowed

    def _default_origin(self, epsilon: float) -> str:
        """What identifies the default prior."""
        return priors.weighted(None, self._space.vocabulary, epsilon)[0]


def _digest(ids: Ids) -> str:
    return hashlib.sha256(ids.tobytes()).hexdigest()
