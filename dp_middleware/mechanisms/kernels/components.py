"""Public principal components: where vectors of texts differ, seen on public texts."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware import _files
from dp_middleware._files import DEFAULT_ENCODER
from dp_middleware.embedding.arrays import Floats
from dp_middleware.embedding.grid import unit_rows
from dp_middleware.embedding.service import EmbeddingService, default_space
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.kernels import cap

_TEXTS, _LENGTHS = 6000, (3, 6, 12)  # of random words
_RECIPE = "random words of the encoder, 6000 texts of 3, 6 or 12"


@dataclass(frozen=True, eq=False)
class Components:
    """A centre and orthonormal directions of falling variance; all public.

    Attributes:
        mean: float64 (d,).
        directions: float64 (m, d), m of 2 to 256.
        lengths: float64 (m,): mean length of a public vector less the mean in the first k
            directions, k = 1 .. m.
        variances: float64 (m,): mean square of its coordinate in each direction.
    """

    mean: Floats
    directions: Floats
    lengths: Floats
    variances: Floats

    @classmethod
    def of(cls, vectors: ArrayLike) -> Components:
        """The principal components of public vectors.

        Args:
            vectors: float (n, d), of public texts; rows are scaled to unit length.

        Raises:
            ParameterError: Fewer than three vectors or two dimensions, not finite, or all equal.
        """
        rows = np.asarray(vectors, dtype=np.float64)
        if rows.ndim != 2 or len(rows) < 3 or rows.shape[1] < 2:
            raise ParameterError(
                f"expected at least 3 public vectors of 2 or more numbers, got shape {rows.shape}"
            )
        if not np.isfinite(rows).all():
            raise ParameterError("expected finite public vectors, got NaN or infinity")
        rows = unit_rows(rows)
        mean = rows.mean(axis=0)
        _, sizes, directions = np.linalg.svd(rows - mean, full_matrices=False)
        count = min(int((sizes > 1e-6 * max(1.0, sizes[0])).sum()), cap.LARGEST)
        if count < 2:
            raise ParameterError("expected public vectors that differ in two directions or more")
        squares = np.square((rows - mean) @ directions[:count].T)
        lengths = np.sqrt(np.cumsum(squares, axis=1)).mean(axis=0)
        return cls(mean, directions[:count], lengths, squares.mean(axis=0))

    @cached_property
    def fingerprint(self) -> str:
        """Identifies all numbers."""
        digest = hashlib.sha256()
        for part in (self.mean, self.directions, self.lengths, self.variances):
            digest.update(np.ascontiguousarray(part, dtype="<f8").tobytes())
        return f"components-{digest.hexdigest()[:16]}"

    def __repr__(self) -> str:
        count, width = self.directions.shape
        return f"Components({count} of {width}, {self.fingerprint})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Components) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)


@lru_cache(maxsize=1)
def default_components() -> Components:
    """Of the default encoder's vectors of random words of its vocabulary; kept on disk.

    Half a minute the first time on one core.
    """
    key = (DEFAULT_ENCODER, default_space().fingerprint, _RECIPE)
    stored = _files.load("components", *key)
    if stored is not None:
        with suppress(KeyError, TypeError, ValueError):
            return _checked(*(np.array(stored[name], np.float64) for name in _FIELDS))
    made = Components.of(EmbeddingService(DEFAULT_ENCODER).encode(_random_texts()))
    _files.store({name: getattr(made, name).tolist() for name in _FIELDS}, "components", *key)
    return made


_FIELDS = ("mean", "directions", "lengths", "variances")


def _checked(mean: Floats, directions: Floats, lengths: Floats, variances: Floats) -> Components:
    """Of a file.

    Raises:
        ValueError: It is damaged.
    """
    count = len(lengths)
    shapes = (directions.shape, variances.shape) == ((count, len(mean)), (count,))
    if not shapes or not 2 <= count <= cap.LARGEST:
        raise ValueError("stored components are of another shape")
    if not np.allclose(directions @ directions.T, np.eye(count), atol=1e-9):
        raise ValueError("stored components are not orthonormal")
    return Components(mean, directions, lengths, variances)


def _random_texts() -> list[str]:
    """Always the same texts of whole words."""
    vocabulary = default_space().vocabulary
    words = [vocabulary.tokens[k] for k in np.flatnonzero(vocabulary.whole_words)]
    bits = np.random.Generator(np.random.PCG64(0)).bytes(8 * _TEXTS * max(_LENGTHS))
    chosen = np.frombuffer(bits, dtype="<u8").reshape(_TEXTS, -1) % np.uint64(len(words))
    return [
        " ".join(words[k] for k in row[: _LENGTHS[number % len(_LENGTHS)]])
        for number, row in enumerate(chosen)
    ]
