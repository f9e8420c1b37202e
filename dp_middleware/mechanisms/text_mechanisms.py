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
    """Releases at a position by a law that also depends on logits made from other positions.

    Attributes:
        epsilon: Nats per position. Positive.
    """

    epsilon: float

    @property
    @abstractmethod
    def context(self) -> Reads:
        """What the logits are made of.

        ``"raw"`` tokens of the text, so that a changed token moves the law at other positions
        too, or what was already ``"released"``.
        """

    @abstractmethod
    def log_probs(self, ids: ArrayLike, space: EmbeddingSpace, logits: ArrayLike) -> Floats:
        """Row i is the law of the token released for ``ids[i]``, given its logits.

        Args:
            ids: int (n,), each in 0 .. V - 1.
            space: V tokens with vectors.
            logits: float (n, V), finite: what the context says of each token.

        Returns:
            float64 (n, V), each row log-sum-exp zero.

        Raises:
            ParameterError: An id outside 0 .. V - 1, or logits of another shape or not finite.
        """

    def outputs(self, space: EmbeddingSpace, logits: ArrayLike) -> Ids | None:
        """The outputs at a position, of which one is drawn for an unknown token.

        Args:
            space: V tokens with vectors.
            logits: float (V,), of this position.

        Returns:
            int64 (M,), the same for every token; ``None``: all tokens.
        """
        return None

    @abstractmethod
    def position_loss(self, size: int) -> float:
        """Largest ln P(y | x, logits) - ln P(y | x', logits') at one position, over all logits.

        Args:
            size: Number V of tokens.

        Returns:
            Nats, by proof; the uniform row of the unknown symbol is covered.
        """


@dataclass(frozen=True, kw_only=True)
class NoiseMechanism(Mechanism):
    """Adds noise to vectors and releases the nearest tokens."""

    notion: ClassVar[Notion] = "metric"

    @abstractmethod
    def perturb(self, ids: ArrayLike, space: EmbeddingSpace, entropy: Entropy) -> Ids:
        """Released ids for the tokens of one text, in order.

        Args:
            ids: int (n,), each in 0 .. V - 1.
            space: V tokens with vectors.
            entropy: Source of random bytes.

        Returns:
            int64 (n,).

        Raises:
            ParameterError: An id outside 0 .. V - 1.
        """

    def perturb_among(
        self, ids: Ids, fresh: NDArray[np.bool_], space: EmbeddingSpace, entropy: Entropy
    ) -> Ids:
        """Released ids for some tokens of a text, in order; the others are public.

        By default :meth:`perturb` of these alone. A mechanism with a window, which sees the public
        tokens beside them, writes both methods.

        Args:
            ids: int64 (n,), each in 0 .. V - 1.
            fresh: bool (n,), which m of them are perturbed.
            space: V tokens with vectors.
            entropy: Source of random bytes.

        Returns:
            int64 (m,).
        """
        return self.perturb(ids[fresh], space, entropy)

    @abstractmethod
    def lipschitz(self, length: int | None) -> float:
        """Nats per unit of distance between a token and its replacement, over all positions.

        Args:
            length: Tokens of the text, public ones included; ``None``: the worst over all lengths.

        Returns:
            ``inf`` if no noise is added.
        """

    def float_distance(self, space: EmbeddingSpace, length: int | None) -> float:
        """Total variation between the program's law and the proved one, at most 1.

        Over all positions that one token moves. Default 0: floating point is not counted.
        """
        return 0.0


class Encoder(Protocol):
    """What scores whole texts: an :class:`~dp_middleware.embedding.EmbeddingService`."""

    def __hash__(self) -> int: ...  # vectors of units are kept for each encoder

    def encode(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """Vectors of texts, (n, d), rows of unit length."""

    def space(self, vocabulary: Vocabulary, vectors: Literal["encoded"], /) -> EmbeddingSpace:
        """Public entries with such vectors; kept on disk where that is possible."""


@dataclass(frozen=True, kw_only=True)
class TextMechanism(Mechanism):
    """A mechanism that releases a text for a whole text, of which not even the length is public.

    Attributes:
        epsilon: Nats for the whole text. Positive.
    """

    epsilon: float

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: lists that are made of them are long."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def needs_encoder(self) -> bool:
        """Whether :meth:`respond` takes no ``None`` for the encoder."""
        return True

    @property
    @abstractmethod
    def loss(self) -> float:
        """Largest ln P(y | x) - ln P(y | x') over all texts x, x' and releases y; nats."""

    @abstractmethod
    def respond(self, texts: Sequence[str], encoder: Any, entropy: Entropy) -> list[str]:
        """A release for each text, drawn independently.

        Args:
            texts: Private; of any kind, also empty.
            encoder: An :class:`Encoder`, or ``None``. Sees them; what it answers moves what is
                likely, never the guarantee.
            entropy: Source of random bytes.

        Raises:
            EmbeddingError: The encoder failed.
        """


def checked_logits(logits: ArrayLike, shape: tuple[int, int]) -> Floats:
    """Logits as float64 of this shape.

    Raises:
        ParameterError: They are of another shape, no numbers, or not finite.
    """
    try:
        values = np.asarray(logits, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError(f"expected logits as an array of floats of shape {shape}") from None
    if values.shape != shape:
        raise ParameterError(f"expected logits of shape {shape}, got {values.shape}")
    if not np.isfinite(values).all():
        raise ParameterError("expected finite logits, got NaN or infinity")
    return values
