"""Public classes of tokens: any channel kept inside of them, or another channel for each."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Self

import numpy as np

from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.base import REVEALED, ChannelMechanism, named, rows_of
from dp_middleware.privacy import Adjacency
from dp_middleware.sampling.integers import normalize


class _Classed(ChannelMechanism):
    """Shared by the two: a public label per token, and channels as parts."""

    full_support = False
    references = ("chen2023",)

    classes: tuple[Hashable, ...]

    def __post_init__(self) -> None:
        for part in self.parts:
            if not isinstance(part, ChannelMechanism):
                given = type(part).__name__
                raise ParameterError(f"expected a mechanism that is a channel, got {given}")
        object.__setattr__(self, "classes", Adjacency.within(self.classes).classes)
        object.__setattr__(self, "epsilon", max(part.nominal for part in self.parts))
        keys = (*type(self).references, *(key for part in self.parts for key in part.references))
        object.__setattr__(self, "references", tuple(dict.fromkeys(keys)))

    @cached_property
    def adjacency(self) -> Adjacency:
        """Returns the relation of finite loss: a token replaced within its class."""
        return Adjacency.within(self.classes)

    @property
    def fingerprint(self) -> str:
        """Identifies the inner mechanisms, by their own, and the classes as a partition."""
        parts = (part.fingerprint for part in self.parts)
        text = "/".join((self.name, str(self.version), *parts, self.adjacency.fingerprint))
        return named(self.name, text)

    def _numbers(self, space: EmbeddingSpace) -> Ids:
        """Labels as numbers, int64 (V,) or (V + 1,)."""
        if (given := len(self.classes)) not in (len(space), len(space) + 1):
            raise ParameterError(f"expected {len(space)} class labels, one per token, got {given}")
        return np.array(self.adjacency.numbers)


@dataclass(frozen=True, kw_only=True)
class WithinClasses(_Classed):
    """Releases y for x as the inner mechanism does, given that y is of x's public class.

    Uniform over the class where the inner mechanism reaches nothing of it, which costs nothing if
    it does so from no member. The unknown symbol, if it has a label, becomes a uniform member of
    its class.

    Reference:
        This library; the public partition is that of Chen et al. (2023), the law any channel's.

    Guarantee:
        Between tokens of a class at most twice the inner mechanism's loss, and no more than epsilon
        where it has weights exp(epsilon u / 2) with u in [0, 1]. Infinite across classes: the class
        is revealed, and a token alone in its class is released unchanged.

    Attributes:
        mechanism: A channel; its parameter is the one that calibration solves for.
        classes: A public label per token, length V, or V + 1 with the unknown symbol's last; never
            made from private text. See :func:`dp_middleware.token_classes`.
    """

    name = "within-classes"
    claim = "twice the inner epsilon within a class"
    truth = "2 epsilon of the inner mechanism within a class; nothing across"
    parts = property(lambda self: (self.mechanism,))
    claimed_epsilon = property(lambda self: 2 * self.mechanism.claimed_epsilon)
    notion = property(attrgetter("mechanism.notion"))
    largest = property(attrgetter("mechanism.largest"))
    jumps = property(attrgetter("mechanism.jumps"))

    epsilon: float = field(init=False, repr=False, compare=False)
    mechanism: ChannelMechanism
    classes: tuple[Hashable, ...] = field(repr=False)

    def claimed_on(self, space: EmbeddingSpace) -> float:
        """Returns twice the inner one's."""
        return 2 * self.mechanism.claimed_on(space)

    def at(self, nominal: float) -> Self:
        """Keeps the classes, with the inner mechanism at another parameter."""
        return replace(self, mechanism=self.mechanism.at(nominal))

    def log_rows(self, ids: Ids, space: EmbeddingSpace) -> torch.Tensor:
        """Computes the law of the token released for ids[i]; float64 (n, V)."""
        labels = space.on_device(self._numbers(space))
        beyond = labels[space.on_device(ids)][:, None] != labels[: len(space)]
        rows = rows_of(self.mechanism, ids, space).masked_fill(beyond, -np.inf)
        unreached = (rows.amax(dim=1) == -np.inf).nonzero()[:, 0]
        if len(unreached):
            rows[unreached] = rows[unreached].masked_fill_(~beyond[unreached], 0.0)
        return normalize(rows)

    def outputs(self, space: EmbeddingSpace) -> Ids | None:
        """Lists for the unknown symbol the inner outputs of its class, or else its whole class."""
        labels, inner = self._numbers(space), self.mechanism.outputs(space)
        members = np.flatnonzero(labels[: len(space)] == labels[-1])
        if len(labels) == len(space) or not members.size:
            return inner
        reached = members if inner is None else inner[np.isin(inner, members)]
        return reached if len(reached) else members

    def assumptions(self, space: EmbeddingSpace) -> tuple[str, ...]:
        """Says that the class is revealed, and so is a token that is alone in its class."""
        alone = np.count_nonzero(np.bincount(self._numbers(space)[: len(space)]) == 1)
        return (
            *self.mechanism.assumptions(space),
            REVEALED,
            f"{alone} of {len(space)} tokens are alone in their class and released unchanged",
        )


@dataclass(frozen=True, kw_only=True)
class ByClass(_Classed):
    """Releases y for x by the mechanism of x's public class: another epsilon for each class.

    What is released may be of another class, unless a part is a :class:`WithinClasses`. The unknown
    symbol, if it has a label, is released by its class's mechanism, else as any token.

    Reference:
        This library.

    Guarantee:
        Between tokens of a class the loss of its own mechanism; the certificate's epsilon is that
        of the dearest. Across classes finite only where both release the same tokens, and at most
        the mean of their epsilons where both have weights exp(epsilon u / 2) on all, with u in [0,
        1].

    Attributes:
        mechanisms: A channel for each label. Kept as pairs, in the order of ``classes``.
            ``nominal`` is the largest of theirs; another one, and calibration, scales all in
            proportion.
        classes: As for :class:`WithinClasses`.
    """

    name = "by-class"
    claim = "the epsilon of each class's mechanism within the class"
    truth = "the loss of each class's mechanism within the class"

    epsilon: float = field(init=False, repr=False, compare=False)
    mechanisms: (
        Mapping[Hashable, ChannelMechanism] | Sequence[tuple[Hashable, ChannelMechanism]]
    ) = field(kw_only=False)
    classes: tuple[Hashable, ...] = field(repr=False, kw_only=False)

    def __post_init__(self) -> None:
        own, labels = dict(self.mechanisms), dict.fromkeys(self.classes)
        if own.keys() != labels.keys():
            given = f"{len(own)}, of which {len(own.keys() & labels.keys())} are of these"
            raise ParameterError(f"expected one for each of {len(labels)} labels, got {given}")
        object.__setattr__(self, "mechanisms", tuple((label, own[label]) for label in labels))
        super().__post_init__()

    @property
    def parts(self) -> tuple[ChannelMechanism, ...]:
        """Gives the mechanism of each class, in the order of their first tokens."""
        return tuple(dict(self.mechanisms).values())

    @property
    def _shares(self) -> list[tuple[Hashable, ChannelMechanism, float]]:
        """Each label and part with its nominal parameter over the largest."""
        pairs = dict(self.mechanisms).items()
        return [(label, part, part.nominal / self.epsilon) for label, part in pairs]

    @property
    def largest(self) -> float:  # type: ignore[override]
        """Returns the nominal parameter at which the first part reaches its own largest."""
        return min(part.largest / share for _, part, share in self._shares)

    @property
    def jumps(self) -> tuple[float, ...]:  # type: ignore[override]
        """Returns the nominal parameters at which some part jumps."""
        return tuple(sorted({jump / s for _, part, s in self._shares for jump in part.jumps}))

    def at(self, nominal: float) -> Self:
        """Scales the parameters of all parts, the largest to this one."""
        scaled = {label: part.at(nominal * share) for label, part, share in self._shares}
        return replace(self, mechanisms=scaled)

    def claimed_on(self, space: EmbeddingSpace) -> float:
        """Returns the largest of what the parts claim, over the diameter where it is metric."""
        return max(
            part.claimed_on(space) * (space.diameter if part.notion == "metric" else 1.0)
            for part in self.parts
        )

    def log_rows(self, ids: Ids, space: EmbeddingSpace) -> torch.Tensor:
        """Computes the law of the token released for ids[i]; float64 (n, V)."""
        own, parts = self._numbers(space)[ids], self.parts
        rows = torch.empty(len(ids), len(space), dtype=torch.float64, device=space.device)
        for number in np.unique(own):
            of = np.flatnonzero(own == number)
            rows[space.on_device(of)] = parts[number].log_rows(ids[of], space)
        return rows

    def outputs(self, space: EmbeddingSpace) -> Ids | None:
        """Lists for the unknown symbol the outputs of its class's mechanism, or all."""
        labels = self._numbers(space)
        return None if len(labels) == len(space) else self.parts[labels[-1]].outputs(space)

    def assumptions(self, space: EmbeddingSpace) -> tuple[str, ...]:
        """Says that the class is public, and between which nominal parameters its price lies."""
        said = (text for part in self.parts for text in part.assumptions(space))
        between = f"between {min(part.nominal for part in self.parts):g} and {self.epsilon:g}"
        return (
            *dict.fromkeys(said),
            f"each class has its own mechanism, of a nominal epsilon {between}: the class of every "
            "token is public",
        )
