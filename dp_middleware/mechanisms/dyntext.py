"""DYNTEXT: a candidate list as long as the token's noisy density says, and its repair."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

import numpy as np

from dp_middleware import _validate
from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.mechanisms.base import ChannelMechanism
from dp_middleware.mechanisms.kernels.density import device_density, mixture

Reading = Literal["table", "fresh"]

_CELLS = 1 << 20  # (rows, K, K) numbers at a time


@dataclass(frozen=True, kw_only=True)
class DynText(ChannelMechanism):
    """Releases one of the k nearest tokens, k from the token's noisy density.

    f(t) counts the tokens within gamma, the mean distance of the K-th nearest (the token itself
    is the first). Gaussian noise of the "smooth" scale S(t) sqrt(2 ln(1.25/delta)) /
    epsilon_density is added, S(t) = max over the K-list of LS(s) exp(-beta d), LS the largest
    difference of f over a K-list, beta = epsilon_density / (2 ln(2/delta)). Min-max normalised
    over the vocabulary this is F, and k = floor((1 - F) K) clipped to 1 .. K. Scores on the list
    are 1 - d/d_max (1 where d_max = 0). With more candidates than tokens K is V.

    ``"table"`` is the paper: one noisy f for every token, drawn once from ``table_seed``, and F
    normalised by the extremes of these (Eq. 6), so that k is a public function of the token.
    ``"fresh"`` is ours, what one draw per occurrence would be: normalised by the extremes of f
    itself, the row the sum over k of P(k) times an exponential mechanism.

    Reference:
        Zhang et al. (2025), Findings of ACL (DYNTEXT).

    Guarantee:
        None. Lists of different tokens differ, so the loss is infinite at every epsilon. The
        density noise hides public numbers.

    The nominal epsilon is the total, ``epsilon + epsilon_density``, as the paper counts it: with
    public defaults 0.5 of it, at most half, is for the density, as in its authors' program.

    Attributes:
        epsilon: Nats per token of the replacement (the paper's epsilon_r). Positive.
        epsilon_density: Nats of the density noise. Positive.
        delta: Of the density noise, between 0 and 1.
        candidates: Largest length K of a list, the token itself included.
        reading: ``"table"`` as published, or ``"fresh"``.
        table_seed: Of the table of noisy densities; public, at least 0. Not used if fresh.
    """

    name: ClassVar[str] = "dyntext"
    claim: ClassVar[str] = "(epsilon_density + epsilon)-DP"
    truth: ClassVar[str] = "nothing: lists of different tokens differ"
    references: ClassVar[tuple[str, ...]] = ("dyntext2025",)
    full_support: ClassVar[bool] = False
    outside: ClassVar[float] = -np.inf
    pays_density: ClassVar[bool] = True

    epsilon_density: float = field(default=0.5, metadata=_validate.POSITIVE)
    delta: float = field(default=1e-5, metadata=_validate.PROBABILITY)
    candidates: int = field(default=20, metadata=_validate.COUNT)
    reading: Reading = field(default="table", metadata=_validate.choice("table", "fresh"))
    table_seed: int = field(default=0, metadata=_validate.count(0))

    @classmethod
    def with_defaults(cls, nominal: float, space: EmbeddingSpace) -> Self:
        """Splits a total epsilon: 0.5 for the density, at most half, the rest for releases."""
        return cls(epsilon=nominal).at(nominal)

    @property
    def nominal(self) -> float:
        """Returns the paper's sum of both steps, nats per token."""
        return self.epsilon + (self.epsilon_density if self.pays_density else 0.0)

    def at(self, nominal: float) -> Self:
        """Sets another total: the density keeps its own part, or has half of it."""
        if not self.pays_density:
            return replace(self, epsilon=nominal)
        density = min(self.epsilon_density, nominal / 2)
        return replace(self, epsilon=nominal - density, epsilon_density=density)

    def log_rows(self, ids: Ids, space: EmbeddingSpace) -> torch.Tensor:
        """Computes the law of the token released for ids[i]; float64 (n, V)."""
        size = min(self.candidates, len(space))
        seed = self.table_seed if self.reading == "table" else None
        density = device_density(space, size, self.epsilon_density, self.delta, seed)
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
    """Repairs DynText: tokens off the list have score 0 instead of probability 0.

    Reference:
        This library; zero-extension of Zhang et al. (2025).

    Guarantee:
        epsilon-DP per token for every length, be it a public function of the token or a draw of any
        law: all inputs share the output set V and scores lie in [0, 1]. The density noise costs
        nothing, so the nominal epsilon is ``epsilon`` alone. Attributes are those of
        :class:`DynText`.
    """

    name: ClassVar[str] = "dyntext-strict"
    claim: ClassVar[str] = "epsilon-DP"
    truth: ClassVar[str] = "epsilon-DP (our repair); the density noise costs nothing"
    full_support: ClassVar[bool] = True
    outside: ClassVar[float] = 0.0
    pays_density: ClassVar[bool] = False
