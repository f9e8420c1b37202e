"""Channels whose rows are exponentials of a function of one exact product."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.mechanisms.base import ChannelMechanism

Product = Literal["distance", "cosine"]


@dataclass(frozen=True, kw_only=True)
class ScoredMechanism(ChannelMechanism):
    """Releases y for x with probability proportional to exp(score), of their distance or cosine.

    Attributes:
        product: What the score is a function of.
    """

    product: ClassVar[Product] = "distance"

    @abstractmethod
    def scores(self, products: torch.Tensor, space: EmbeddingSpace) -> torch.Tensor:
        """Computes scores of distances or cosines, nats, one by one; overwrites."""

    def log_rows(self, ids: Ids, space: EmbeddingSpace) -> torch.Tensor:
        """Computes the law of the token released for ids[i]; float64 (n, V)."""
        of = space.distance_rows if self.product == "distance" else space.cosine_rows
        return torch.log_softmax(self.scores(of(ids), space), dim=1)
