"""CUSTEXT and its relatives: exponential mechanisms over short candidate lists."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np

from dp_middleware import _validate
from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Ids
from dp_middleware.embedding.space import EmbeddingSpace, once
from dp_middleware.mechanisms.base import REVEALED, ChannelMechanism
from dp_middleware.mechanisms.kernels import lists
from dp_middleware.sampling.integers import normalize
from dp_middleware.vocabulary import frequencies


@dataclass(frozen=True, kw_only=True)
class _CandidateLists(ChannelMechanism):
    """Shared by the four: a score of sensitivity 1 on a list of candidates, ``outside`` elsewhere.

    It is the nearness scaled inside the list, 1 - (d - min)/(max - min), and 1 where max = min.
    """

    references = ("chen2023",)
    full_support = False
    outside: ClassVar[float] = -np.inf

    candidates: int = field(default=20, metadata=_validate.COUNT)

    @abstractmethod
    def candidate_lists(self, ids: Ids, space: EmbeddingSpace) -> tuple[torch.Tensor, torch.Tensor]:
        """Lists for each id its candidates and their distances, the token itself among them.

        int64 and float64 (n, K), on the space's device; in a shorter list one is repeated.
        """

    def log_rows(self, ids: Ids, space: EmbeddingSpace) -> torch.Tensor:
        """Computes the law of the token released for ids[i]; float64 (n, V)."""
        listed, distances = self.candidate_lists(ids, space)
        nearest = distances.amin(dim=1, keepdim=True)
        span = distances.amax(dim=1, keepdim=True) - nearest
        nearness = 1.0 - (distances - nearest) / span.where(span > 0, 1.0)
        shape = (len(ids), len(space))
        scores = torch.full(shape, self.outside, dtype=torch.float64, device=space.device)
        return normalize(scores.scatter_(1, listed, 0.5 * self.epsilon * nearness))


@once
def _class_lists(space: EmbeddingSpace, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    labels = lists.greedy_classes(space, size)
    listed = lists.members(labels)[labels]
    return space.on_device(listed), space.on_device(lists.exact_distances(listed, space))


@dataclass(frozen=True, kw_only=True)
class CusText(_CandidateLists):
    """Releases a token of x's public class, nearer ones more often.

    The vocabulary is partitioned greedily: walk tokens in index order; the first unassigned one
    takes its ``candidates - 1`` nearest unassigned tokens into a class (ties by index).

    Reference:
        Chen et al. (2023), Findings of ACL, Algorithms 1 and 2.

    Guarantee:
        epsilon-DP within a class, see :meth:`classes`; the class itself is revealed, so the
        loss between tokens of two classes is infinite.

    Attributes:
        epsilon: Nats per token. Positive.
        candidates: Size K of a class. The remainder is its own, smaller class.
    """

    name = "custext"
    truth = "epsilon-DP within the public class; nothing across classes"
    notes = (REVEALED,)

    def classes(self, space: EmbeddingSpace) -> tuple[int, ...]:
        """Gives each token's public class, length V; use with ``Adjacency.within``."""
        return tuple(lists.greedy_classes(space, self.candidates).tolist())

    def candidate_lists(self, ids: Ids, space: EmbeddingSpace) -> tuple[torch.Tensor, torch.Tensor]:
        """Lists the members of each token's class."""
        (listed, distances), numbers = _class_lists(space, self.candidates), space.on_device(ids)
        return listed[numbers], distances[numbers]


@dataclass(frozen=True, kw_only=True)
class CusTextPlus(CusText):
    """Releases as CusText does, but the tokens of a public list unchanged.

    Classes are made from all tokens: a kept one may still be released for another of its class.

    Reference:
        Chen et al. (2023), CUSTEXT+.

    Guarantee:
        epsilon-DP between tokens of a class that are not kept, see :meth:`classes`. Infinite for
        any pair with a kept token, which is released with probability one.

    Attributes:
        epsilon: Nats per token. Positive.
        candidates: As for :class:`CusText`.
        kept: A public list, never made from private text; compared without case and blanks.
    """

    name = "custext-plus"
    truth = "epsilon-DP within the class of tokens not kept; kept ones are released as they are"

    kept: frozenset[str] = field(repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "kept", lists.word_list(self.kept, "kept"))

    @classmethod
    def with_defaults(cls, nominal: float, space: EmbeddingSpace) -> Self:
        """Keeps English stop words, scikit-learn's list."""
        return cls(epsilon=nominal, kept=frequencies.stop_words())

    def classes(self, space: EmbeddingSpace) -> tuple[int, ...]:
        """Gives each token's public class, length V; a kept token is alone."""
        labels = lists.greedy_classes(space, self.candidates).copy()
        kept = lists.on_list(space, self.kept)
        labels[kept] = labels.max() + 1 + np.arange(np.count_nonzero(kept))
        return tuple(labels.tolist())

    def candidate_lists(self, ids: Ids, space: EmbeddingSpace) -> tuple[torch.Tensor, torch.Tensor]:
        """Lists the members of each token's class; a kept token alone."""
        listed, distances = super().candidate_lists(ids, space)
        numbers = space.on_device(ids)[:, None]
        kept = space.on_device(lists.on_list(space, self.kept))[numbers]
        return listed.where(~kept, numbers), distances.masked_fill_(kept, 0.0)

    def assumptions(self, space: EmbeddingSpace) -> tuple[str, ...]:
        """Says that some tokens are never replaced."""
        count = np.count_nonzero(lists.on_list(space, self.kept))
        kept = f"{count} of {len(space)} tokens, a public list, are released unchanged"
        return (*self.notes, kept)


@dataclass(frozen=True, kw_only=True)
class CusTextAggressive(_CandidateLists):
    """Releases one of x's K nearest tokens, nearer ones more often.

    Reference:
        Chen et al. (2023), "aggressive" mapping; elsewhere called a fixed candidate list.

    Guarantee:
        None: lists differ, so an output may be possible for one token only, an infinite loss.

    Attributes:
        epsilon: Nats per token. Positive.
        candidates: Length K of a list, the token itself included.
    """

    name = "custext-aggressive"
    truth = "nothing: lists differ"

    def candidate_lists(self, ids: Ids, space: EmbeddingSpace) -> tuple[torch.Tensor, torch.Tensor]:
        """Lists the K nearest tokens, ties by index, the token itself always among them."""
        return lists.nearest(ids, space, self.candidates)


@dataclass(frozen=True, kw_only=True)
class CusTextStrict(CusTextAggressive):
    """Repairs CusTextAggressive: tokens off the list have score 0 instead of probability 0.

    Reference:
        This library; zero-extension of Chen et al. (2023). Attributes are those repaired.

    Guarantee:
        epsilon-DP per token: all inputs share the output set V and the score lies in [0, 1].
    """

    name = "custext-strict"
    truth = "epsilon-DP (our repair)"
    outside = 0.0
    full_support = True
