"""VectorResponse: the vector of a whole text, drawn near its direction or anywhere."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import cycle
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware import _files
from dp_middleware._files import DEFAULT_ENCODER
from dp_middleware.embedding import arrays
from dp_middleware.embedding.arrays import Floats, Ids, slices
from dp_middleware.embedding.grid import unit_rows
from dp_middleware.embedding.service import EmbeddingService, default_space
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.base import Mechanism
from dp_middleware.mechanisms.kernels import cap
from dp_middleware.mechanisms.kernels.cap import Cap, best_cap
from dp_middleware.sampling.sampler import Entropy

_GRID = 2.0**20  # points per unit: sums of products of some thousand points are exact
_EXACT = 4096  # points
_SWEEPS = 30
_TEXTS, _LENGTHS = 6000, (3, 6, 12)  # of random words
_RECIPE = "random words of the encoder, 6000 texts of 3, 6 or 12; exact"


@dataclass(frozen=True, eq=False)
class Components:
    """Holds a public centre and orthonormal directions of falling variance."""

    mean: Floats  # (d,)
    directions: Floats  # (m, d), m of 2 to 256
    lengths: Floats  # (m,), mean length of a public vector less the mean in the first 1 .. m
    variances: Floats  # (m,), mean square of its coordinate in each direction

    @classmethod
    def of(cls, vectors: ArrayLike) -> Components:
        """Computes those of public vectors (n, d), n > 2, d > 1; ParameterError: all are equal."""
        rows = np.asarray(vectors, dtype=np.float64)
        enough = rows.ndim == 2 and rows.shape[0] > 2 and rows.shape[1] > 1
        if not enough or not np.isfinite(rows).all():
            raise ParameterError(f"expected finite public vectors (n > 2, d > 1), got {rows.shape}")
        points = np.rint(unit_rows(rows) * _GRID)
        mean = np.array([math.fsum(column) for column in points.T]) / (len(rows) * _GRID)
        blocks = (points[part] for part in slices(len(points), _EXACT))  # whose sums are exact
        total = np.asarray(sum(block.T @ block / _GRID**2 for block in blocks))
        variances, directions = eigen(total / len(points) - mean[:, None] * mean)
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


def eigen(matrix: Floats) -> tuple[Floats, Floats]:
    """Computes falling eigenvalues, and vectors as rows, by Jacobi: the same bits everywhere."""
    count = len(matrix)
    size = count + count % 2
    a, rows = np.zeros((size, size)), np.eye(size)
    a[:count, :count] = matrix
    order = np.arange(size)
    for _ in range(_SWEEPS):
        for _ in range(size - 1):  # every pair meets once
            _rotate(a, rows, order[: size // 2], order[: size // 2 - 1 : -1])
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
    """Computes those of the default encoder for random words, in half a minute; kept on disk."""
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
    rows = zip(chosen, cycle(_LENGTHS))
    return [" ".join(words[k] for k in row[:length]) for row, length in rows]


_NOTHING = 2.0**-400  # below it lengths lose digits
_FITTED = "use VectorResponse.fitted(public_vectors, epsilon=...)"
_SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


@dataclass(frozen=True, kw_only=True)
class VectorResponse(Mechanism):
    """Releases a direction of the cap around x's with probability p, else one of the sphere.

    x is the direction of a text's vector less a public mean, in the first k of some public
    principal components; k and the cap are those of the largest expected cosine. What is drawn is
    scaled by component as public variances say, and the mean added.

    Reference:
        Bhowmick et al. (2018), PrivUnit; Asi, Feldman and Talwar (2022) for its parameters. Their
        coin chooses between the cap and its complement; ours, of the same law, the cap and the
        sphere.

    Guarantee:
        epsilon for any text instead of any other, rounding included: see docs/guarantees.md.

    Attributes:
        epsilon: Nats per text. Positive.
        components: Public centre and directions; ``None``: those of the default encoder's vectors
            of random words, computed once and kept on disk. See :meth:`fitted`.
    """

    name = "vector-response"
    truth = "epsilon-DP for any text instead of any other, rounding included"
    largest = 500.0
    references = ("bhowmick2018", "asi2022")

    epsilon: float
    components: Components | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.components, Components | None):
            given = type(self.components).__name__
            raise ParameterError(f"expected components= as Components, got {given}; {_FITTED}")

    @classmethod
    def fitted(cls, public_vectors: ArrayLike, *, epsilon: float) -> Self:
        """Takes components of your encoder's vectors (n, d) of some thousand *public* texts."""
        return cls(epsilon=epsilon, components=Components.of(public_vectors))

    @cached_property
    def basis(self) -> Components:
        """Holds the components in use."""
        return default_components() if self.components is None else self.components

    @cached_property
    def cap(self) -> Cap:
        """Chooses dimensions, cap and coin; from epsilon and the components."""
        variances = self.basis.variances
        sizes = sorted({min(size, len(variances)) for size in _SIZES})
        caps = [best_cap(size, self.epsilon) for size in sizes]
        return max(caps, key=lambda each: float(self._gains(each) @ variances[: each.dimensions]))

    def _gains(self, drawn: Cap) -> Floats:
        """Best linear estimate of a unit vector from a draw: expected product, by component."""
        variances = self.basis.variances[: drawn.dimensions]
        signal = np.square(drawn.alignment) * (variances / variances.sum())
        return np.asarray(signal / (signal + drawn.noise))

    def perturb(self, vectors: ArrayLike, entropy: Entropy) -> Floats:
        """Draws released vectors of texts, each of unit length; float64 (n, d).

        ``vectors`` are float (n, d) of the encoder of the components, private. ParameterError:
        another width, or not finite.
        """
        return self.release(self.directions(vectors), entropy)

    def release(self, directions: Floats, entropy: Entropy) -> Floats:
        """Draws released vectors for :meth:`directions`, each of unit length; float64 (n, d)."""
        count, drawn = self.cap.dimensions, self.cap
        cells = cap.draw(directions, drawn, entropy)
        scale = self.basis.lengths[count - 1] * self._gains(drawn) / drawn.alignment
        return unit_rows(unit_rows(cells) * scale @ self.basis.directions[:count] + self.basis.mean)

    def directions(self, vectors: ArrayLike) -> Floats:
        """Computes what is protected of each vector, unit, float64 (n, k); errors as above."""
        width = len(self.basis.mean)
        try:
            rows = np.asarray(vectors, dtype=np.float64)
        except (TypeError, ValueError):
            rows = np.empty(0)  # the error would quote them
        if rows.ndim != 2 or rows.shape[1] != width or not np.isfinite(rows).all():
            given = f"expected vectors of {width} finite numbers, got shape {rows.shape}"
            raise ParameterError(f"{given}; for another encoder, {_FITTED}")
        lengths = np.abs(rows).max(axis=1, initial=0.0)
        centred = unit_rows(rows) - np.where(lengths > 0, 1.0, 0.0)[:, None] * self.basis.mean
        basis = self.basis.directions[: self.cap.dimensions]
        # one by one: a product of matrices rounds by the other rows
        projected = np.array([basis @ row for row in centred]).reshape(len(rows), len(basis))
        projected[np.abs(projected).max(axis=1) < _NOTHING] = 0.0
        parts = unit_rows(projected)
        parts[~parts.any(axis=1)] = np.eye(1, self.cap.dimensions)  # of the mean: a public one
        return parts
