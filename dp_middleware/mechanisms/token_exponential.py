"""The exponential mechanism over the whole vocabulary with a cosine score."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from dp_middleware import _validate
from dp_middleware._torch import torch
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.mechanisms.base import ScoredMechanism

Score = Literal["clipped_cosine", "shifted_cosine"]


@dataclass(frozen=True, kw_only=True)
class TokenExponential(ScoredMechanism):
    """Releases y for x with probability proportional to exp(epsilon/2 * u(x, y)).

    u = max(0, cos) for ``"clipped_cosine"``, (1 + cos)/2 for ``"shifted_cosine"``.

    Reference:
        McSherry and Talwar (2007); PrivRewrite, phase 1.

    Guarantee:
        epsilon-DP per token: u lies in [0, 1], so score and normaliser each move by at most
        exp(epsilon/2). The exact loss is smaller, often by a half.

    Attributes:
        epsilon: Nats per token. Positive.
        score: The score u, of sensitivity 1.
    """

    name = "token-exponential"
    truth = "epsilon-DP; the exact loss is often about half of it"
    references = ("mcsherry2007", "privrewrite")
    product = "cosine"

    score: Score = field(default="clipped_cosine", metadata=_validate.choice(*get_args(Score)))

    def scores(self, products: torch.Tensor, space: EmbeddingSpace) -> torch.Tensor:
        """Computes epsilon/2 times u."""
        if self.score == "clipped_cosine":
            products.clamp_(min=0.0)
        else:
            products.add_(1.0).mul_(0.5)
        return products.mul_(0.5 * self.epsilon)
