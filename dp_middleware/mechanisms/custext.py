"""CUSTEXT and its relatives: exponential mechanisms over short candidate lists."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware import _validate, sampling
from dp_middleware.embedding.space import BLOCK, ZERO_DISTANCE, EmbeddingSpace
from dp_middleware.mechanisms.base import ChannelMechanism, Floats, Ids

_UNASSIGNED = -1


@dataclass(frozen=True, kw_only=True)
class _CandidateLists(ChannelMechanism):
    """Shared by the three: a score on a list of candidates, ``outside`` elsewhere.

    The score is the nearness min-max scaled inside the list, 1 - (d - min)/(max - min), and 1
    where max = min; its sensitivity is 1.
    """

    epsilon: float
    candidates: int = 20

    outside: ClassVar[float]

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.at_least(1, candidates=self.candidates)

    @abstractmethod
    def candidate_lists(self, ids: Ids, space: EmbeddingSpace) -> list[tuple[Ids, Floats]]:
        """For each id its candidates and their distances, the token itself among them."""

    def assumptions(self, space: EmbeddingSpace) -> tuple[str, ...]:
        """Lists are cut by a distance."""
        return (
            "lists are computed where the certificate is: another device may cut them otherwise "
            "where distances are equal to the last digits",
        )

    def log_probs(self, ids: ArrayLike, space: EmbeddingSpace) -> Floats:
        """Row i is the law of the token released for ids[i]; float64 (n, V)."""
        numbers = space.checked(ids)
        scores = np.full((len(numbers), len(space)), self.outside)
        for row, (listed, distances) in enumerate(self.candidate_lists(numbers, space)):
            span = np.ptp(distances)
            nearness = 1.0 - (distances - distances.min()) / (span if span > 0 else 1.0)
            scores[row, listed] = 0.5 * self.epsilon * nearness
        return sampling.log_softmax(scores)


@dataclass(frozen=True, kw_only=True)
class CusText(_CandidateLists):
    """Release a token of x's public class, nearer ones more often.

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

    name: ClassVar[str] = "custext"
    outside: ClassVar[float] = -np.inf
    full_support: ClassVar[bool] = False

    def classes(self, space: EmbeddingSpace) -> tuple[int, ...]:
        """The public class of each token, length V; use with ``Adjacency.within``."""
        return tuple(self._labels(space).tolist())

    def candidate_lists(self, ids: Ids, space: EmbeddingSpace) -> list[tuple[Ids, Floats]]:
        """The members of each token's class."""
        labels = self._labels(space)
        members = space.derived(("custext-members", self.candidates), lambda: _members(labels))
        return [(members[labels[i]], _exact(i, members[labels[i]], space)) for i in ids]

    def assumptions(self, space: EmbeddingSpace) -> tuple[str, ...]:
        """The class of every token is revealed."""
        revealed = "the released token's class is the class of the input: the class is public"
        return (*super().assumptions(space), revealed)

    def _labels(self, space: EmbeddingSpace) -> Ids:
        return space.derived(
            ("custext-classes", self.candidates), lambda: _greedy_classes(space, self.candidates)
        )


@dataclass(frozen=True, kw_only=True)
class CusTextAggressive(_CandidateLists):
    """Release one of x's K nearest tokens, nearer ones more often.

    Reference:
        Chen et al. (2023), "aggressive" mapping; elsewhere called a fixed candidate list.

    Guarantee:
        None. Lists of different tokens differ, so some output is possible for one token and
        impossible for another: the loss is infinite.

    Attributes:
        epsilon: Nats per token. Positive.
        candidates: Length K of a list, the token itself included.
    """

    name: ClassVar[str] = "custext-aggressive"
    outside: ClassVar[float] = -np.inf
    full_support: ClassVar[bool] = False

    def candidate_lists(self, ids: Ids, space: EmbeddingSpace) -> list[tuple[Ids, Floats]]:
        """The K nearest tokens, ties by index, the token itself always among them."""
        return nearest_lists(ids, space, self.candidates)


@dataclass(frozen=True, kw_only=True)
class CusTextStrict(_CandidateLists):
    """CusTextAggressive repaired: tokens off the list have score 0 instead of probability 0.

    Reference:
        This library; zero-extension of Chen et al. (2023).

    Guarantee:
        epsilon-DP per token: all inputs share the output set V and the score lies in [0, 1].

    Attributes:
        epsilon: Nats per token. Positive.
        candidates: Length K of a list, the token itself included.
    """

    name: ClassVar[str] = "custext-strict"
    outside: ClassVar[float] = 0.0

    def candidate_lists(self, ids: Ids, space: EmbeddingSpace) -> list[tuple[Ids, Floats]]:
        """The K nearest tokens, ties by index, the token itself always among them."""
        return nearest_lists(ids, space, self.candidates)


def nearest_lists(ids: Ids, space: EmbeddingSpace, size: int) -> list[tuple[Ids, Floats]]:
    """The ``size`` nearest tokens of each id with their distances, the id itself first."""
    lists: list[tuple[Ids, Floats]] = []
    for start in range(0, len(ids), BLOCK):
        block = ids[start : start + BLOCK]
        for number, distances in zip(block, space.distances(block), strict=True):
            distances[number] = -1.0  # first, also among duplicates
            nearest = _smallest(distances, size)
            distances[number] = 0.0
            lists.append((nearest, distances[nearest]))
    return lists


def _smallest(values: Floats, count: int) -> Ids:
    """Indices of the ``count`` smallest values, ascending, ties by index."""
    if count >= len(values):
        return np.argsort(values, kind="stable")
    within = np.flatnonzero(values <= np.partition(values, count - 1)[count - 1])
    return within[np.argsort(values[within], kind="stable")[:count]]


def _exact(number: int, others: Ids, space: EmbeddingSpace) -> Floats:
    """Distances from one token to a few others, from the differences of their vectors."""
    distances = np.linalg.norm(space.vectors[others] - space.vectors[number], axis=1)
    return np.where(distances < ZERO_DISTANCE, 0.0, distances)


def _greedy_classes(space: EmbeddingSpace, size: int) -> Ids:
    labels = np.full(len(space), _UNASSIGNED, dtype=np.int64)
    label = 0
    while (free := np.flatnonzero(labels == _UNASSIGNED)).size:
        leaders = free[:BLOCK]
        for leader, distances in zip(leaders, space.distances(leaders), strict=True):
            if labels[leader] != _UNASSIGNED:
                continue
            distances[leader] = -1.0
            free = free[labels[free] == _UNASSIGNED]
            labels[free[_smallest(distances[free], size)]] = label
            label += 1
    return labels


def _members(labels: Ids) -> list[Ids]:
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.cumsum(np.bincount(labels))[:-1])
