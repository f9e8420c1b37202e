"""Mechanisms that read a whole text: by a context's logits, noise on vectors, or an encoder."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.base import Mechanism, Notion
from dp_middleware.sampling.sampler import Entropy
from dp_middleware.vocabulary.vocabulary import Vocabulary

Reads = Literal["raw", "released"]


def spellable(text: str) -> str:
    """Returns a text that UTF-8 can spell, for an encoder: lone surrogates are replaced."""
    return text.encode("utf-8", "replace").decode()


@dataclass(frozen=True, kw_only=True)
class ContextualMechanism(Mechanism):
    """Releases at a position by a law that also depends on logits made from other positions."""

    epsilon: float  # nats per position

    @property
    @abstractmethod
    def context(self) -> Reads:
        """Names what logits are made of: ``"raw"`` tokens of the text, or ``"released"`` ones."""

    @abstractmethod
    def log_probs(self, ids: ArrayLike, space: EmbeddingSpace, logits: ArrayLike) -> Floats:
        """Computes the law of the token released for ``ids[i]``, given its logits.

        ``ids`` are int (n,), each in 0 .. V - 1; ``logits`` float (n, V), finite: what the context
        says of each token. float64 (n, V), each row log-sum-exp zero. ParameterError: others.
        """

    def outputs(self, space: EmbeddingSpace, logits: ArrayLike) -> Ids:
        """Lists the outputs, int64 (M,), of which an unknown token draws one; by default all."""
        return np.arange(len(space))

    @abstractmethod
    def position_loss(self, size: int) -> float:
        """Bounds the loss at a position by proof, for all logits and V = ``size`` tokens; nats."""


@dataclass(frozen=True, kw_only=True)
class NoiseMechanism(Mechanism):
    """Adds noise to vectors and releases the nearest tokens."""

    notion: ClassVar[Notion] = "metric"

    @abstractmethod
    def perturb(self, ids: ArrayLike, space: EmbeddingSpace, entropy: Entropy) -> Ids:
        """Draws released ids for those of one text, int64 (n,); ParameterError: one outside."""

    def perturb_among(
        self, ids: Ids, fresh: NDArray[np.bool_], space: EmbeddingSpace, entropy: Entropy
    ) -> Ids:
        """Draws for the ``fresh`` tokens of a text; a mechanism with a window sees the others."""
        return self.perturb(ids[fresh], space, entropy)

    @abstractmethod
    def lipschitz(self, length: int | None) -> float:
        """Gives nats per unit of distance that a token is moved by, over all positions.

        ``length`` counts the text's tokens, public ones too; ``None``: the worst. No noise: inf.
        """

    def float_distance(self, space: EmbeddingSpace, length: int | None) -> float:
        """Bounds the total variation from the proved law, at all positions that a token moves."""
        return 0.0


class Encoder(Protocol):
    """Scores whole texts: an :class:`~dp_middleware.embedding.EmbeddingService`."""

    def __hash__(self) -> int: ...  # vectors of units are kept for each encoder

    def encode(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """Returns vectors of texts, (n, d), rows of unit length."""

    def space(self, vocabulary: Vocabulary, vectors: Literal["encoded"], /) -> EmbeddingSpace:
        """Gives public entries such vectors; kept on disk where that is possible."""


@dataclass(frozen=True, kw_only=True)
class TextMechanism(Mechanism):
    """Releases a text for a whole text, of which not even the length is public."""

    claim: ClassVar[str] = "epsilon-DP for any text and any other"
    truth: ClassVar[str] = "epsilon-DP for the whole text, exactly"
    largest: ClassVar[float] = 1e3
    needs_encoder: ClassVar[bool] = True  # else None does

    epsilon: float  # nats for the whole text

    def __getstate__(self) -> dict[str, Any]:  # lists that are made of the fields are long
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    @abstractmethod
    def loss(self) -> float:
        """Returns the largest ln P(y | x) - ln P(y | x') over texts x, x' and releases y; nats."""

    @abstractmethod
    def respond(self, texts: Sequence[str], encoder: Any, entropy: Entropy) -> list[str]:
        """Draws a release for each private text, of any kind, also empty, independently.

        The encoder, or ``None``, sees the texts; it moves what is likely, never the guarantee.
        """


def checked_logits(logits: ArrayLike, shape: tuple[int, int]) -> Floats:
    """Returns logits as float64 of this shape, or raises ParameterError."""
    try:
        values = np.asarray(logits, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape != shape or not np.isfinite(values).all():
        raise ParameterError(f"expected logits as finite floats of shape {shape}")
    return values
