"""DYNTEXT: a candidate list as long as the token's noisy density says, and its repair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from dp_middleware import _validate
from dp_middleware.embedding.arrays import Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.mechanisms.base import ChannelMechanism
from dp_middleware.mechanisms.kernels.density import device_density, mixture

_CELLS = 1 << 20  # (rows, K, K) numbers at a time


@dataclass(frozen=True, kw_only=True)
class DynText(ChannelMechanism):
    """Draw a list length k from the token's density, then release one of its k nearest tokens.

    f(t) counts the tokens within gamma, the mean distance of the K-th nearest (the token itself
    is the first). Gaussian noise of the "smooth" scale S(t) sqrt(2 ln(1.25/delta)) /
    epsilon_density is added, S(t) = max over the K-list of LS(s) exp(-beta d), LS the largest
    difference of f over a K-list, beta = epsilon_density / (2 ln(2/delta)). Min-max normalised by
    the clean extremes of f, this is F, and k = floor((1 - F) K) clipped to 1 .. K. Scores on the
    list are 1 - d/d_max (1 where d_max = 0). Noise is fresh per occurrence, so the row is the sum
    over k of P(k) times an exponential mechanism. With more candidates than tokens K is V.

    Reference:
        Zhang et al. (2025), Findings of ACL (DYNTEXT).

    Guarantee:
        None. Lists of different tokens differ, so the loss is infinite at every epsilon, and many
        tokens are released unchanged since k = 1. The density noise hides public numbers.

    Attributes:
        epsilon: Nats per token of the replacement (the paper's epsilon_r). Positive.
        epsilon_density: Nats of the density noise. Positive.
        delta: Of the density noise, between 0 and 1.
        candidates: Largest length K of a list, the token itself included.
    """

    name: ClassVar[str] = "dyntext"
    claim: ClassVar[str] = "(epsilon_density + epsilon)-DP"
    truth: ClassVar[str] = "nothing: lists differ, and many tokens stay at any epsilon"
    references: ClassVar[tuple[str, ...]] = ("dyntext2025",)
    full_support: ClassVar[bool] = False
    outside: ClassVar[float] = -np.inf

    epsilon_density: float = 0.5
    delta: float = 1e-5
    candidates: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.positive(epsilon_density=self.epsilon_density)
        _validate.probability(delta=self.delta)
        _validate.at_least(1, candidates=self.candidates)
        for name in ("epsilon_density", "delta"):
            object.__setattr__(self, name, float(getattr(self, name)))

    @property
    def claimed_epsilon(self) -> float:
        """The paper's sum of both steps, nats per token."""
        return self.epsilon + self.epsilon_density

    def log_rows(self, ids: Ids, space: EmbeddingSpace) -> torch.Tensor:
        """Row i is the law of the token released for ids[i]; float64 (n, V)."""
        size = min(self.candidates, len(space))
        density = device_density(space, size, self.epsilon_density, self.delta)
        numbers, others = space.on_device(ids), len(space) - size
        rows = torch.empty(len(ids), len(space), dtype=torch.float64, device=space.device)
        step = max(1, _CELLS // size**2)
        for part, block in zip(torch.split(numbers, step), torch.split(rows, step), strict=True):
            listed, distances, lengths = (table[part] for table in density)
            inside, beside = mixture(lengths, distances, self.epsilon, self.outside, others)
            block.copy_(beside.expand_as(block)).scatter_(1, listed, inside)
        return rows


@dataclass(frozen=True, kw_only=True)
class DynTextStrict(DynText):
    """DynText repaired: tokens off the list have score 0 instead of probability 0.

    Reference:
        This library; zero-extension of Zhang et al. (2025).

    Guarantee:
        epsilon-DP per token for every length, and so for the mixture over the length, whatever
        its law: all inputs share the output set V and scores lie in [0, 1]. The density noise
        costs nothing.

    Attributes:
        epsilon: Nats per token. Positive.
        epsilon_density: As for :class:`DynText`.
        delta: As for :class:`DynText`.
        candidates: As for :class:`DynText`.
    """

    name: ClassVar[str] = "dyntext-strict"
    claim: ClassVar[str] = "epsilon-DP"
    truth: ClassVar[str] = "epsilon-DP (our repair); the density noise costs nothing"
    full_support: ClassVar[bool] = True
    outside: ClassVar[float] = 0.0

    @property
    def claimed_epsilon(self) -> float:
        """What is proved, nats per token."""
        return self.epsilon
