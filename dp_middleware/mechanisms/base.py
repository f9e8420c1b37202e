"""What a mechanism is: public parameters and a conditional law over the vocabulary."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_middleware import _validate
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.vocabulary import UNKNOWN

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
Notion = Literal["pure", "metric"]


@dataclass(frozen=True, kw_only=True)
class Mechanism(ABC):
    """A randomised map with a guarantee: a frozen dataclass of public parameters.

    Attributes:
        name: What the command line and :data:`dp_middleware.MECHANISMS` call it.
        version: Part of the fingerprint; raised when the law changes, which it should not.
        notion: Which guarantee is certified: ``"pure"`` or ``"metric"`` differential privacy.
        claim: What the paper claims, in a phrase, for tables.
        full_support: Whether every token can be released for every token.
        jumps: Nominal epsilons above which the law changes abruptly.
        largest: Nominal epsilon up to which rows are computed without overflow.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    notion: ClassVar[Notion] = "pure"
    claim: ClassVar[str] = "epsilon-DP"
    full_support: ClassVar[bool] = True
    jumps: ClassVar[tuple[float, ...]] = ()
    largest: ClassVar[float] = 1e6

    epsilon: float

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon)
        if self.epsilon > self.largest:
            raise ParameterError(f"expected epsilon <= {self.largest:g}, got {self.epsilon!r}")
        object.__setattr__(self, "epsilon", float(self.epsilon))

    @property
    def parameters(self) -> dict[str, Any]:
        """The public parameters by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @property
    def fingerprint(self) -> str:
        """Identifies name, version and parameters; short enough for a ledger row."""
        kind = f"{type(self).__module__}.{type(self).__qualname__}"
        text = f"{kind}/{self.name}/{self.version}/{sorted(self.parameters.items())!r}"
        return f"{self.name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    @property
    def claimed_epsilon(self) -> float:
        """The epsilon that the paper claims, nats per token."""
        return self.epsilon

    def assumptions(self, space: EmbeddingSpace) -> tuple[str, ...]:
        """What a reader of the certificate must know about this mechanism on this space."""
        return ()


@dataclass(frozen=True, kw_only=True)
class ChannelMechanism(Mechanism):
    """A mechanism whose output at a position depends on the token there and on nothing else."""

    @abstractmethod
    def log_probs(self, ids: ArrayLike, space: EmbeddingSpace) -> Floats:
        """Row i is the law of the token released for ``ids[i]``.

        Args:
            ids: int (n,), each in 0 .. V - 1.
            space: V tokens with vectors.

        Returns:
            float64 (n, V), each row log-sum-exp zero; -inf where an output is impossible. Row i
            is a function of ``ids[i]`` alone, bit for bit.

        Raises:
            ParameterError: An id outside 0 .. V - 1.
        """

    def rows(self, ids: Ids, space: EmbeddingSpace) -> Floats:
        """:meth:`log_probs`, with the uniform row for the unknown symbol (-1)."""
        known = ids != UNKNOWN
        if known.all():
            return self.log_probs(ids, space)
        rows = np.full((len(ids), len(space)), -np.log(len(space)))
        if known.any():
            rows[known] = self.log_probs(ids[known], space)
        return rows
