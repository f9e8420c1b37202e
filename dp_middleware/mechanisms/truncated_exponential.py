"""TEM: an exponential of the distance, cut off at a threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from dp_middleware import _validate
from dp_middleware._torch import torch
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.mechanisms.base import ScoredMechanism


@dataclass(frozen=True, kw_only=True)
class TruncatedExponential(ScoredMechanism):
    """Releases y for x with probability proportional to exp(-epsilon/2 min(d(x, y), threshold)).

    The paper draws among the tokens within the threshold and one element "outside", scored
    -threshold + 2/epsilon * ln(number outside), then uniformly outside: both steps are this one
    row.

    Reference:
        Carvalho, Vasiloudis, Feyisetan and Wang (2023), SDM, Algorithm 1.

    Guarantee:
        epsilon * d metric DP per token, and at most epsilon * threshold between any two: score and
        normaliser each move by at most epsilon/2 min(d(x, x'), threshold).

    Attributes:
        epsilon: Nats per unit of distance, per token. Positive.
        threshold: Distance beyond which all tokens are alike. Positive. Default: the paper's
            2/epsilon * ln((1 - beta)(V - 1)/beta).
        beta: For the default threshold: probability of a release beyond it, at most.
    """

    name = "truncated-exponential"
    notion = "metric"
    claim = "epsilon d(x, x')"
    truth = "epsilon d(x, x') metric DP; the exact loss is at most epsilon times the threshold"
    references = ("carvalho2023", "chatzikokolakis2013")

    threshold: float | None = field(default=None, metadata=_validate.POSITIVE)
    beta: float = field(default=0.001, metadata=_validate.PROBABILITY)

    def cut(self, size: int) -> float:
        """Computes the threshold for a vocabulary of ``size`` tokens, in units of distance."""
        if self.threshold is not None:
            return self.threshold
        odds = (1 - self.beta) / self.beta * (size - 1)
        return 2 / self.epsilon * math.log(odds) if odds > 1 else 0.0

    def scores(self, products: torch.Tensor, space: EmbeddingSpace) -> torch.Tensor:
        """Computes -epsilon/2 times the distance, or the threshold where that is less."""
        return products.clamp_(max=self.cut(len(space))).mul_(-0.5 * self.epsilon)

    def assumptions(self, space: EmbeddingSpace) -> tuple[str, ...]:
        """Says that the threshold bounds the loss of the farthest pair too."""
        cut = self.cut(len(space))
        most = f"epsilon * threshold = {self.epsilon * cut:.4g} nats"
        return (f"the threshold is {cut:.4g}: no two tokens differ by more than {most}",)
