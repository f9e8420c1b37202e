"""MetricNoise: metric differential privacy by noise on vectors and the nearest token."""

from __future__ import annotations

from dataclasses import dataclass, field

from numpy.typing import ArrayLike

from dp_middleware import _validate
from dp_middleware.embedding.arrays import Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.mechanisms.base import LATER
from dp_middleware.mechanisms.kernels import noise
from dp_middleware.mechanisms.kernels.nearest import NEARNESSES, Nearness, release
from dp_middleware.mechanisms.text_mechanisms import NoiseMechanism
from dp_middleware.sampling.sampler import Entropy


@dataclass(frozen=True, kw_only=True)
class MetricNoise(NoiseMechanism):
    """Releases the token nearest to x's vector plus noise of density exp(-eta ||z||).

    Reference:
        Feyisetan et al. (2020), WSDM; also called FBDD, MLDP, NOISE, WordPerturb.

    Guarantee:
        eta * d metric DP per token: by the triangle inequality the density of the noisy vector
        moves by at most exp(eta * ||v_x - v_x'||); the nearest token is a function of it.

    Attributes:
        eta: Nats per unit of distance, per token. Positive.
        nearness: Which token is nearest: by least Euclidean ``"distance"`` or largest ``"cosine"``.
    """

    name = "metric-noise"
    claim = "eta d(x, x')"
    truth = "eta d(x, x') metric DP, up to a stated floating-point distance"
    scale = "eta"
    references = ("feyisetan2020", "chatzikokolakis2013")

    eta: float = field(metadata=noise.ETA)
    nearness: Nearness = field(default="distance", metadata=LATER | _validate.choice(*NEARNESSES))

    def perturb(self, ids: ArrayLike, space: EmbeddingSpace, entropy: Entropy) -> Ids:
        """Draws released ids, int64 (n,); each depends on its own id and its own bytes alone."""
        return release(space.points[space.checked(ids)], space, self.eta, entropy, self.nearness)

    def lipschitz(self, length: int | None) -> float:
        """Returns eta nats per unit of distance for every length."""
        return self.eta

    def float_distance(self, space: EmbeddingSpace, length: int | None) -> float:
        """Bounds the total variation that floating point adds at the position of a token."""
        return noise.space_distance(space, self.eta)

    def assumptions(self, space: EmbeddingSpace) -> tuple[str, ...]:
        """Says what floating point costs."""
        return (noise.floating_point(space, self.eta),)
