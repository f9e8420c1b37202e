"""ContextualResponse: e^epsilon for the nearest of the tokens that a language model expects."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_middleware import _validate
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.kernels import ranking
from dp_middleware.mechanisms.kernels.priors import array as as_array
from dp_middleware.mechanisms.text_mechanisms import ContextualMechanism, Reads, checked_logits
from dp_middleware.vocabulary import frequencies
from dp_middleware.vocabulary.vocabulary import Vocabulary


@dataclass(frozen=True, kw_only=True)
class ContextualResponse(ContextualMechanism):
    """Releases the codeword nearest to x with weight e^epsilon, each other with weight 1.

    The codebook of a position is what a public language model ranks highest after the tokens
    that were released before it, mixed with a public unigram. The nearest codeword is x itself
    where x is listed, else that of the largest cosine of mean-centred vectors, ties by index.

    Reference:
        This library; generalised randomised response (Kairouz, Oh and Viswanath, 2014) on
        codebooks that follow the releases.

    Guarantee:
        epsilon-DP per token, exactly. Given what was released so far, all tokens have the same M
        codewords and the normaliser e^epsilon + M - 1; later codebooks depend on releases only,
        so a changed token is paid for once. The number of tokens is public.

    Attributes:
        epsilon: Nats per token. Positive.
        mixture: Weight of the unigram in what is ranked. Strictly between 0 and 1.
        unigram: Public weights of the tokens, V of them; ``None``: those of English where the
            vocabulary is English, else uniform.
        allowed: Ids that may become codewords, public, ascending; ``None``: all V tokens. Beside
            a policy that keeps words, leave these out: they are never what was there.
    """

    name: ClassVar[str] = "contextual-response"
    truth: ClassVar[str] = "epsilon-DP, exactly and once per token: later codebooks see releases"
    references: ClassVar[tuple[str, ...]] = ("kairouz2014",)

    mixture: float = field(default=0.15, metadata=_validate.PROBABILITY)
    unigram: tuple[float, ...] | None = None
    allowed: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unigram is not None:
            weights = _listed(self.unigram, "unigram as finite weights >= 0", "iuf")
            if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
                raise ParameterError("expected unigram as finite weights >= 0, one positive")
            object.__setattr__(self, "unigram", tuple(weights.astype(float).tolist()))
        if self.allowed is not None:
            ids = _listed(self.allowed, "allowed as ids of tokens", "iu")
            if ids.min() < 0:
                raise ParameterError("expected allowed as ids of tokens, none negative")
            object.__setattr__(self, "allowed", tuple(np.unique(ids).tolist()))

    @property
    def context(self) -> Reads:
        """Names what was released: with raw text a token would be paid for again and again."""
        return "released"

    def outputs(self, space: EmbeddingSpace, logits: ArrayLike) -> Ids:
        """Gives the codebook, ascending."""
        row = checked_logits(np.atleast_2d(logits), (1, len(space)))[0]
        return self._codebook(row, self._unigram(space), self._allowed(space))

    def log_probs(self, ids: ArrayLike, space: EmbeddingSpace, logits: ArrayLike) -> Floats:
        """Computes the law of the token released for ids[i], given logits[i]; float64 (n, V)."""
        numbers = space.checked(ids)
        values = checked_logits(logits, (len(numbers), len(space)))
        unigram, allowed = self._unigram(space), self._allowed(space)
        rows = np.full(values.shape, -np.inf)
        for row, number, said in zip(rows, numbers, values, strict=True):
            codebook = self._codebook(said, unigram, allowed)
            near, far = ranking.two_weights(self.epsilon, len(codebook))
            row[codebook] = far
            row[_nearest(int(number), codebook, space)] = near
        return rows

    def position_loss(self, size: int) -> float:
        """Returns epsilon: the weights of a codeword for any two tokens differ by no more.

        The unknown symbol's law, uniform over the M codewords, is covered: 1/M is a mean of the
        weights over their sum, so it lies between the least of them and the largest.
        """
        return self.epsilon if size > 1 else 0.0

    def _codebook(self, logits: Floats, unigram: Floats, allowed: Ids | None) -> Ids:
        shares = ranking.mixed(logits, self.mixture, unigram)
        if allowed is None:
            return ranking.codebook(shares, self.epsilon)
        return allowed[ranking.codebook(shares[allowed], self.epsilon)]

    def _unigram(self, space: EmbeddingSpace) -> Floats:
        """Shares of the tokens, float64 (V,)."""
        weights = self.unigram
        if weights is None:
            return space.derived("english or uniform", lambda: _by_default(space.vocabulary))
        if len(weights) != len(space):
            raise ParameterError(
                f"expected a unigram of {len(space)} weights, got {len(weights)}; it is counted "
                "for one space"
            )
        largest = max(weights)
        scaled = [weight / largest for weight in weights]
        return np.array(scaled) / math.fsum(scaled)

    def _allowed(self, space: EmbeddingSpace) -> Ids | None:
        if self.allowed is not None and self.allowed[-1] >= len(space):
            raise ParameterError(
                f"expected allowed as ids in 0 .. {len(space) - 1}, got {self.allowed[-1]}"
            )
        return None if self.allowed is None else np.array(self.allowed, dtype=np.int64)


def _listed(values: object, expected: str, kinds: str) -> NDArray[Any]:
    """Some numbers in a row, as an array."""
    array = as_array(values, expected)
    if array.ndim != 1 or not array.size or array.dtype.kind not in kinds:
        raise ParameterError(f"expected {expected}, at least one")
    return array


def _by_default(vocabulary: Vocabulary) -> Floats:
    """Shares of the tokens in English text, or equal ones; float64 (V,)."""
    if not frequencies.is_english(vocabulary):
        return np.full(len(vocabulary), 1.0 / len(vocabulary))
    shares = frequencies.english(vocabulary)
    return np.asarray(shares / shares.sum())


def _nearest(token: int, codebook: Ids, space: EmbeddingSpace) -> int:
    """The token itself if it is listed, else the codeword of the largest cosine."""
    place = int(np.searchsorted(codebook, token))
    if place < len(codebook) and codebook[place] == token:
        return token
    unit = space.centred_unit  # on the grid: the products are exact
    return int(codebook[(unit[codebook] @ unit[token]).argmax()])
