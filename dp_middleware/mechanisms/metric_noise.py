"""MetricNoise: metric differential privacy by noise on vectors and the nearest token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from numpy.typing import ArrayLike

from dp_middleware import _validate
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.mechanisms.base import Ids, NoiseMechanism
from dp_middleware.mechanisms.kernels import nearest as _nearest
from dp_middleware.mechanisms.kernels import noise as _noise
from dp_middleware.sampling.sampler import Entropy


@dataclass(frozen=True, kw_only=True)
class MetricNoise(NoiseMechanism):
    """Release the token nearest to x's vector plus noise of density exp(-eta ||z||).

    Reference:
        Feyisetan et al. (2020), WSDM; also called FBDD, MLDP, NOISE, WordPerturb.

    Guarantee:
        eta * d metric DP per token: by the triangle inequality the density of the noisy vector
        moves by at most exp(eta * ||v_x - v_x'||); the nearest token is a function of it.

    Attributes:
        eta: Nats per unit of distance, per token. Positive.
        index: ``"exact"``, or ``"approximate"``: a graph index (faiss) for spaces of some
            100,000 tokens and more. It is another function of the same noisy vector: the
            guarantee does not change, fewer releases are the nearest token.
    """

    name: ClassVar[str] = "metric-noise"
    claim: ClassVar[str] = "eta d(x, x')"
    truth: ClassVar[str] = "eta d(x, x') metric DP, up to a stated floating-point distance"
    scale: ClassVar[str | None] = "eta"
    references: ClassVar[tuple[str, ...]] = ("feyisetan2020", "chatzikokolakis2013")

    eta: float
    index: _nearest.Index = "exact"

    def __post_init__(self) -> None:
        super().__post_init__()
        _noise.require_eta(self.eta)
        _validate.one_of(("exact", "approximate"), index=self.index)

    def perturb(self, ids: ArrayLike, space: EmbeddingSpace, entropy: Entropy) -> Ids:
        """Released ids, int64 (n,); each depends on its own id and its own bytes alone."""
        centres = space.points[space.checked(ids)]
        return _nearest.released(centres, space, self.eta, entropy, self.index)

    def lipschitz(self, length: int | None) -> float:
        """Nats per unit of distance; the same for every length."""
        return self.eta

    def float_distance(self, space: EmbeddingSpace, length: int | None) -> float:
        """Total variation that floating point adds to the one position that a token moves."""
        return _noise.space_distance(space, self.eta)

    def assumptions(self, space: EmbeddingSpace) -> tuple[str, ...]:
        """Floating point, and what an approximate index finds."""
        exact = (_noise.floating_point(space, self.eta),)
        if self.index == "exact":
            return exact
        share = _nearest.recall(space, self.eta)
        return *exact, f"the index finds the nearest token for {share:.1%} of noisy vectors"
