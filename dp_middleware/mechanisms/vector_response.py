"""VectorResponse: the vector of a whole text, drawn near its direction or anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware.embedding.arrays import Floats
from dp_middleware.embedding.grid import unit_rows
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.base import Mechanism
from dp_middleware.mechanisms.kernels import cap
from dp_middleware.mechanisms.kernels.cap import Cap, best_cap
from dp_middleware.mechanisms.kernels.components import Components, default_components
from dp_middleware.sampling.sampler import Entropy

_NOTHING = 2.0**-400  # below it lengths lose digits
_SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


@dataclass(frozen=True, kw_only=True)
class VectorResponse(Mechanism):
    """Releases a direction of the cap around x's with probability p, else one of the sphere.

    x is the direction of a text's vector less a public mean, in the first k of some public
    principal components; k and the cap are those of the largest expected cosine. What is drawn is
    scaled by component as public variances say, and the mean added; that looks at no text.

    Reference:
        Bhowmick et al. (2018), PrivUnit; Asi, Feldman and Talwar (2022) for its parameters. Their
        coin chooses between the cap and its complement; ours, of the same law, between the cap and
        the whole sphere.

    Guarantee:
        epsilon for any text instead of any other: in units of the uniform one every density lies
        between 1 - p and 1 - p + p/q, q the cap's share of the sphere. Rounding is part of it.

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
            raise ParameterError(
                f"expected components= as Components, got {type(self.components).__name__}; "
                "VectorResponse.fitted(public_vectors, epsilon=...) makes them"
            )

    @classmethod
    def fitted(cls, public_vectors: ArrayLike, *, epsilon: float) -> Self:
        """Takes components of your own encoder's vectors of *public* texts, best of your domain.

        ``public_vectors`` are float (n, d), some thousands, never of the texts to protect.
        ParameterError: not vectors of that kind, or no such epsilon.
        """
        return cls(epsilon=epsilon, components=Components.of(public_vectors))

    @cached_property
    def basis(self) -> Components:
        """Holds the components in use."""
        return default_components() if self.components is None else self.components

    @cached_property
    def cap(self) -> Cap:
        """Chooses dimensions, cap and coin; from epsilon and the components."""
        count = len(self.basis.lengths)
        caps = [best_cap(size, self.epsilon) for size in sorted({min(k, count) for k in _SIZES})]
        variances = self.basis.variances
        return max(caps, key=lambda each: float(self._gains(each) @ variances[: each.dimensions]))

    def _gains(self, drawn: Cap) -> Floats:
        """Best linear estimate of a unit vector from a draw: expected product, by component."""
        variances = self.basis.variances[: drawn.dimensions]
        signal = np.square(drawn.alignment) * (variances / variances.sum())
        return np.asarray(signal / (signal + drawn.noise))

    def perturb(self, vectors: ArrayLike, entropy: Entropy) -> Floats:
        """Draws released vectors of texts, each of unit length; float64 (n, d).

        ``vectors`` are float (n, d) of the encoder of the components, private. One that equals the
        mean, or is zero, counts as a public direction. ParameterError: another width, or not
        finite.
        """
        return self.release(self.directions(vectors), entropy)

    def release(self, directions: Floats, entropy: Entropy) -> Floats:
        """Draws released vectors for :meth:`directions`, each of unit length; float64 (n, d)."""
        count, drawn = self.cap.dimensions, self.cap
        cells = cap.draw(directions, drawn, entropy)
        scale = self.basis.lengths[count - 1] * self._gains(drawn) / drawn.alignment
        return unit_rows(unit_rows(cells) * scale @ self.basis.directions[:count] + self.basis.mean)

    def directions(self, vectors: ArrayLike) -> Floats:
        """Computes what is protected of each vector, unit, float64 (n, k). Private.

        ParameterError: as :meth:`perturb`.
        """
        width = len(self.basis.mean)
        try:
            rows = np.asarray(vectors, dtype=np.float64)
        except (TypeError, ValueError):
            rows = np.empty(0)  # the error would quote them
        if rows.ndim != 2 or rows.shape[1] != width:
            raise ParameterError(
                f"expected vectors of {width} numbers, got shape {rows.shape}; for another encoder "
                "use VectorResponse.fitted(public_vectors, epsilon=...)"
            )
        if not np.isfinite(rows).all():
            raise ParameterError("expected finite vectors, got NaN or infinity from the encoder")
        lengths = np.abs(rows).max(axis=1, initial=0.0)
        centred = unit_rows(rows) - np.where(lengths > 0, 1.0, 0.0)[:, None] * self.basis.mean
        basis = self.basis.directions[: self.cap.dimensions]
        projected = np.empty((len(rows), len(basis)))
        for place, row in enumerate(centred):  # a product of matrices rounds by the other rows
            projected[place] = basis @ row
        projected[np.abs(projected).max(axis=1) < _NOTHING] = 0.0
        parts = unit_rows(projected)
        parts[~parts.any(axis=1)] = np.eye(1, self.cap.dimensions)
        return parts
