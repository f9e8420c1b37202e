"""Public principal components: where vectors of texts differ, seen on public texts."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware import _files
from dp_middleware._files import DEFAULT_ENCODER
from dp_middleware.embedding import arrays
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.grid import unit_rows
from dp_middleware.embedding.service import EmbeddingService, default_space
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.kernels import cap

_GRID = 2.0**20  # points per unit: sums of products of some thousand points are exact
_EXACT = 4096  # points
_SWEEPS = 30
_TEXTS, _LENGTHS = 6000, (3, 6, 12)  # of random words
_RECIPE = "random words of the encoder, 6000 texts of 3, 6 or 12; exact"


@dataclass(frozen=True, eq=False)
class Components:
    """Holds a public centre and orthonormal directions of falling variance.

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
        """Computes the principal components of public vectors, float (n, d), scaled to unit length.

        ParameterError: fewer than three vectors or two dimensions, not finite, or all equal.
        """
        rows = np.asarray(vectors, dtype=np.float64)
        if rows.ndim != 2 or len(rows) < 3 or rows.shape[1] < 2:
            raise ParameterError(
                f"expected at least 3 public vectors of 2 or more numbers, got shape {rows.shape}"
            )
        if not np.isfinite(rows).all():
            raise ParameterError("expected finite public vectors, got NaN or infinity")
        points = np.rint(unit_rows(rows) * _GRID)
        mean = np.array([math.fsum(column) for column in points.T]) / (len(rows) * _GRID)
        variances, directions = eigen(_covariance(points, mean))
        count = min(int((variances > 1e-12 * max(1e-6, variances[0])).sum()), cap.LARGEST)
        if count < 2:
            raise ParameterError("expected public vectors that differ in two directions or more")
        apart, axes = np.rint(points - mean * _GRID), np.rint(directions[:count] * _GRID)
        squares = np.square(apart @ axes.T / _GRID**2)  # products of the grid are exact
        lengths = np.sqrt(np.cumsum(squares, axis=1))
        means = np.array([math.fsum(column) / len(rows) for column in lengths.T])
        return cls(mean, directions[:count], means, variances[:count])

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


def _covariance(points: Floats, mean: Floats) -> Floats:
    """Of points of the grid; sums of their products are exact, some thousand at a time."""
    blocks = (points[k : k + _EXACT] for k in range(0, len(points), _EXACT))
    total = sum(block.T @ block / _GRID**2 for block in blocks)
    return np.asarray(total / len(points) - mean[:, None] * mean)


def eigen(matrix: Floats) -> tuple[Floats, Floats]:
    """Computes falling eigenvalues of a symmetric matrix, and their vectors as rows.

    By Jacobi's method, in single IEEE operations of a fixed order: the same bits on every machine,
    unlike LAPACK's.
    """
    count = len(matrix)
    size = count + count % 2
    a, rows = np.zeros((size, size)), np.eye(size)
    a[:count, :count] = matrix
    order = np.arange(size)
    for _ in range(_SWEEPS):
        for _ in range(size - 1):  # every pair meets once
            p, q = order[: size // 2], order[: size // 2 - 1 : -1]
            _rotate(a, rows, p, q)
            order[1:] = np.roll(order[1:], 1)
        if np.abs(a - np.diag(np.diag(a))).max() <= 2.0**-52 * np.abs(np.diag(a)).max():
            break
    values, rows = np.diag(a)[:count], rows[:count, :count]  # an added row is never turned
    falling = np.argsort(-values, kind="stable")
    rows = rows[falling]
    largest = np.take_along_axis(rows, np.abs(rows).argmax(axis=1)[:, None], axis=1)
    return values[falling], rows * np.sign(largest)


def _rotate(a: Floats, rows: Floats, p: Ids, q: Ids) -> None:
    """Turns pairs of axes so that they have nothing in common, and keeps the axes in rows."""
    both = a[p, q]
    with np.errstate(over="ignore"):  # then there is nothing to turn
        apart = (a[q, q] - a[p, p]) / np.where(both == 0, 1.0, 2.0 * both)
        tangent = np.where(apart < 0, -1.0, 1.0) / (np.abs(apart) + np.sqrt(apart * apart + 1.0))
    tangent[both == 0] = 0.0
    cosine = 1.0 / np.sqrt(tangent * tangent + 1.0)
    sine = tangent * cosine
    for of in (a, a.T, rows):
        first, second = of[p], of[q]
        of[p] = cosine[:, None] * first - sine[:, None] * second
        of[q] = sine[:, None] * first + cosine[:, None] * second


@lru_cache(maxsize=1)
def default_components() -> Components:
    """Computes those of the default encoder's vectors of random words; kept on disk.

    Half a minute the first time on one core.
    """
    key = (DEFAULT_ENCODER, default_space().fingerprint, _RECIPE)
    path = _files.cache_path("components", *key, suffix=".npz")
    encoder = partial(EmbeddingService, DEFAULT_ENCODER)
    kept = arrays.kept(path, lambda: vars(Components.of(encoder().encode(_random_texts()))))
    return Components(**kept)


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
