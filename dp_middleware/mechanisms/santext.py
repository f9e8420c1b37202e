"""SANTEXT: metric differential privacy by an exponential of the distance."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from dp_middleware import _validate
from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.base import ChannelMechanism, ScoredMechanism
from dp_middleware.mechanisms.kernels import lists
from dp_middleware.sampling.integers import normalize
from dp_middleware.vocabulary import frequencies


@dataclass(frozen=True, kw_only=True)
class SanText(ScoredMechanism):
    """Releases y for x with probability proportional to exp(-epsilon/2 * d(x, y)).

    Reference:
        Yue et al. (2021), Findings of ACL, Algorithm 1.

    Guarantee:
        epsilon * d metric DP per token: score and normaliser each move by at most exp(epsilon *
        d(x, x') / 2). Between any two tokens at most epsilon times the diameter of the space.

    Attributes:
        epsilon: Nats per unit of distance, per token. Positive.
    """

    name = "santext"
    notion = "metric"
    claim = "epsilon d(x, x')"
    truth = "epsilon d(x, x') metric DP; the exact loss is at most epsilon times the diameter"
    references = ("yue2021", "chatzikokolakis2013")

    def scores(self, products: torch.Tensor, space: EmbeddingSpace) -> torch.Tensor:
        """Computes -epsilon/2 times the distance."""
        return products.mul_(-0.5 * self.epsilon)


@dataclass(frozen=True, kw_only=True)
class SanTextPlus(ChannelMechanism):
    """Applies SanText to sensitive tokens; a non-sensitive token often stays as it is.

    A sensitive token draws from the sensitive set V_S with weights exp(-epsilon/2 * d). A
    non-sensitive one stays itself with probability ``keep``, else draws from V_S the same way.

    Reference:
        Yue et al. (2021), Findings of ACL, Algorithm 2 (SANTEXT+); ``keep`` is 1 - p.

    Guarantee:
        Only about outputs in V_S: epsilon * d between two sensitive or two non-sensitive tokens,
        ln(1 / (1 - keep)) more between one of each. As differential privacy epsilon is infinite,
        and delta at least ``keep``: a non-sensitive token can be released for itself alone.

    Attributes:
        epsilon: Nats per unit of distance, per token. Positive.
        non_sensitive: A public list, never word counts of private text; compared without case and
            surrounding blanks.
        keep: Probability that a non-sensitive token stays. At least 0, below 1.
    """

    name = "santext-plus"
    full_support = False
    claim = "epsilon d(x, x') for sensitive tokens"
    truth = "metric DP towards sensitive outputs only; as LDP infinite, delta >= keep"
    references = ("yue2021",)

    non_sensitive: frozenset[str] = field(repr=False)
    keep: float = field(default=0.5, metadata=_validate.NONNEGATIVE)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keep >= 1:
            raise ParameterError(f"expected 0 <= keep < 1, got keep={self.keep!r}")
        listed = lists.word_list(self.non_sensitive, "non_sensitive")
        object.__setattr__(self, "non_sensitive", listed)

    @classmethod
    def with_defaults(cls, nominal: float, space: EmbeddingSpace) -> Self:
        """Counts English stop words, scikit-learn's list, as not sensitive."""
        return cls(epsilon=nominal, non_sensitive=frequencies.stop_words())

    def outputs(self, space: EmbeddingSpace) -> Ids:
        """Lists the sensitive set V_S; ParameterError: it is empty."""
        sensitive = np.flatnonzero(~lists.on_list(space, self.non_sensitive))
        if not sensitive.size:
            raise ParameterError("expected a sensitive token to draw, got all non-sensitive ones")
        return sensitive

    def log_rows(self, ids: Ids, space: EmbeddingSpace) -> torch.Tensor:
        """Computes the law of the token released for ids[i]; float64 (n, V)."""
        self.outputs(space)
        numbers = space.on_device(ids)
        public = space.on_device(lists.on_list(space, self.non_sensitive))
        scores = space.distance_rows(ids).mul_(-0.5 * self.epsilon)
        rows = normalize(scores.masked_fill_(public, -np.inf))
        listed = public[numbers]
        rows.add_(listed.double().mul_(float(np.log1p(-self.keep)))[:, None])
        kept = listed.nonzero()[:, 0]
        rows[kept, numbers[kept]] = float(np.log(self.keep)) if self.keep > 0 else -np.inf
        return rows

    def assumptions(self, space: EmbeddingSpace) -> tuple[str, ...]:
        """Says that some tokens are not protected."""
        listed = f"{len(space) - len(self.outputs(space))} of {len(space)} tokens, a public list,"
        return (f"{listed} are released unchanged with probability {self.keep:g}",)
