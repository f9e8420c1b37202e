"""SANTEXT: metric differential privacy by an exponential of the distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from numpy.typing import ArrayLike

from dp_middleware import sampling
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.mechanisms.base import ChannelMechanism, Floats, Notion


@dataclass(frozen=True, kw_only=True)
class SanText(ChannelMechanism):
    """Release y for x with probability proportional to exp(-epsilon/2 * d(x, y)).

    Reference:
        Yue et al. (2021), Findings of ACL, Algorithm 1.

    Guarantee:
        epsilon * d metric DP per token: score and normaliser each move by at most
        exp(epsilon * d(x, x') / 2).

    Attributes:
        epsilon: Nats per unit of distance, per token. Positive.
    """

    name: ClassVar[str] = "santext"
    notion: ClassVar[Notion] = "metric"
    claim: ClassVar[str] = "epsilon d(x, x')"

    epsilon: float

    def log_probs(self, ids: ArrayLike, space: EmbeddingSpace) -> Floats:
        """Row i is the law of the token released for ids[i]; float64 (n, V)."""
        scores = space.distances(ids)
        scores *= -0.5 * self.epsilon
        return sampling.log_softmax(scores)
