"""Any channel kept inside public classes of tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np

from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.base import ChannelMechanism, rows_of
from dp_middleware.mechanisms.token_exponential import TokenExponential
from dp_middleware.privacy import Adjacency
from dp_middleware.vocabulary.classes import token_classes


@dataclass(frozen=True, kw_only=True)
class WithinClasses(ChannelMechanism):
    """Releases y for x as the inner mechanism does, given that y is of x's public class.

    P(y | x) is proportional to P_inner(y | x) where class(y) = class(x), and 0 elsewhere. If the
    inner mechanism reaches nothing of the class from x, the release is uniform over the class: if
    it does so from no member, that depends on the class alone and costs nothing, and the class is
    kept. The unknown symbol, if it has a label, is released as a uniform member of its class.

    Reference:
        This library; the public partition is that of Chen et al. (2023), the law any channel's.

    Guarantee:
        At most twice the inner mechanism's loss, and no more than epsilon where it has weights
        exp(epsilon u / 2) with u in [0, 1], between tokens of a class: score and normaliser each
        move by at most exp(epsilon / 2), whatever the outputs are restricted to. Infinite across
        classes: the class is revealed, and a token alone in its class is released unchanged.

    Attributes:
        mechanism: A channel; its parameter is the one that calibration solves for.
        classes: A public label per token, length V, or V + 1 with the unknown symbol's last;
            never made from private text. See :func:`dp_middleware.token_classes`.
    """

    name: ClassVar[str] = "within-classes"
    claim: ClassVar[str] = "twice the inner epsilon within a class"
    truth: ClassVar[str] = "2 epsilon of the inner mechanism within a class; nothing across"
    full_support: ClassVar[bool] = False
    references: ClassVar[tuple[str, ...]] = ("chen2023",)
    notion = property(attrgetter("mechanism.notion"))
    largest = property(attrgetter("mechanism.largest"))
    jumps = property(attrgetter("mechanism.jumps"))

    epsilon: float = field(init=False, repr=False, compare=False)
    mechanism: ChannelMechanism
    classes: tuple[Hashable, ...] = field(repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, ChannelMechanism):
            raise ParameterError(
                "expected mechanism= as a channel, whose law depends on one token only, got "
                f"{type(self.mechanism).__name__}"
            )
        object.__setattr__(self, "classes", Adjacency.within(self.classes).classes)
        object.__setattr__(self, "epsilon", self.mechanism.nominal)

    @classmethod
    def with_defaults(cls, nominal: float, space: EmbeddingSpace) -> Self:
        """Takes the exponential mechanism within the classes of ``dp.token_classes``."""
        inner = TokenExponential(epsilon=nominal)
        return cls(mechanism=inner, classes=token_classes(space.vocabulary))

    @property
    def adjacency(self) -> Adjacency:
        """Returns the relation of finite loss: a token replaced within its class."""
        return Adjacency.within(self.classes)

    @property
    def parameters(self) -> dict[str, Any]:
        """Gives the inner mechanism and the classes."""
        return {"mechanism": self.mechanism, "classes": self.classes}

    @property
    def fingerprint(self) -> str:
        """Identifies the inner mechanism, by its own, and the classes as a partition."""
        parts = (self.name, str(self.version), self.mechanism.fingerprint)
        text = "/".join((*parts, self.adjacency.fingerprint))
        return f"{self.name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    @property
    def claimed_epsilon(self) -> float:
        """Returns twice the inner one's."""
        return 2 * self.mechanism.claimed_epsilon

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
        return torch.log_softmax(rows, dim=1)

    def outputs(self, space: EmbeddingSpace) -> Ids | None:
        """Lists for the unknown symbol the inner outputs of its class, or else its whole class."""
        labels, inner = self._numbers(space), self.mechanism.outputs(space)
        if len(labels) == len(space):
            return inner
        members = np.flatnonzero(labels[:-1] == labels[-1])
        if not members.size:
            return inner
        reached = members if inner is None else inner[np.isin(inner, members)]
        return reached if len(reached) else members

    def assumptions(self, space: EmbeddingSpace) -> tuple[str, ...]:
        """Says that the class is revealed, and so is a token that is alone in its class."""
        alone = np.count_nonzero(np.bincount(self._numbers(space)[: len(space)]) == 1)
        return (
            *self.mechanism.assumptions(space),
            "the released token's class is the class of the input: the class is public",
            f"{alone} of {len(space)} tokens are alone in their class and released unchanged",
        )

    def _numbers(self, space: EmbeddingSpace) -> Ids:
        """Labels as numbers, int64 (V,) or (V + 1,)."""
        if len(self.classes) not in (len(space), len(space) + 1):
            raise ParameterError(
                f"expected {len(space)} class labels, one per token, got {len(self.classes)}"
            )
        return self._order

    @cached_property
    def _order(self) -> Ids:
        order: dict[Hashable, int] = {}
        return np.array([order.setdefault(label, len(order)) for label in self.classes])
