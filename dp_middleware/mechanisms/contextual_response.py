"""ContextualResponse: e^epsilon for the nearest of the tokens that a language model expects."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware import _validate
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import EmbeddingSpace, once
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.kernels import chosen, exact
from dp_middleware.mechanisms.text_mechanisms import ContextualMechanism, Reads, checked_logits
from dp_middleware.vocabulary import frequencies

_LEAST = 8  # codewords: with fewer a release says little, and a wrong model would decide all
_NEARBY = 0.3  # worth of releasing the codeword nearest to a token that is not listed
_UNITS = 2.0**40  # of the likeliest token; sums of integers are exact for up to 2^22 tokens
_FIRST = 1024  # largest shares that are looked at before others
_ALL = 1.0 + 1e-6  # of the shares, and what rounding adds
_LOWEST = -500.0  # of what is exponentiated; below _UNITS of nothing long before


def mix(logits: Floats, mixture: float, unigram: Floats) -> Floats:
    """Computes (1 - mixture) softmax(logits) + mixture unigram, (V,): the same on every machine."""
    weights = np.rint(exact.exp(np.maximum(logits - logits.max(), _LOWEST)) * _UNITS)
    shares = weights / float(weights.astype(np.int64).sum())
    return np.asarray((1.0 - mixture) * shares + mixture * unigram)


def choose(shares: Floats, epsilon: float) -> Ids:
    """Finds the places of the M largest shares, ascending, ties by place; all if these are few.

    With C their sum, M maximises the expected worth (e^epsilon - 1) (C + 0.3 (1 - C)) / (e^epsilon
    + M - 1) of what is released; the smallest such M. ``shares`` are float64 (V,).
    """
    floor = float(exact.exp(np.array([max(-epsilon, _LOWEST)]))[0])
    order, worth = _worths(shares, floor, _FIRST)
    bound = (_ALL / float(worth.max()) - 1.0) / floor  # with more, even all shares are worth less
    if len(order) < min(bound, len(shares)):
        order, worth = _worths(shares, floor, math.ceil(bound))
    return np.sort(order[: len(order) - len(worth) + 1 + int(worth.argmax())])


def _worths(shares: Floats, floor: float, count: int) -> tuple[Ids, Floats]:
    """Places of the ``count`` largest shares, and their equals; worths of _LEAST and more."""
    places = np.arange(len(shares))
    if count < len(shares):
        places = np.flatnonzero(shares >= np.partition(shares, -count)[-count])
    order = places[np.argsort(-shares[places], kind="stable")]
    hit = np.cumsum(shares[order])  # one after another
    worth = (_NEARBY + (1.0 - _NEARBY) * hit) / (1.0 + floor * np.arange(len(order)))
    return order, worth[min(_LEAST, len(order)) - 1 :]


@dataclass(frozen=True, kw_only=True)
class ContextualResponse(ContextualMechanism):
    """Releases the codeword nearest to x with weight e^epsilon, each other with weight 1.

    The codebook of a position is what a public language model ranks highest after the tokens that
    were released before it, mixed with a public unigram. The nearest codeword is x itself where x
    is listed, else that of the largest cosine of mean-centred vectors, ties by index.

    Reference:
        This library; generalised randomised response (Kairouz, Oh and Viswanath, 2014) on
        codebooks that follow the releases.

    Guarantee:
        epsilon-DP per token, exactly: given what was released so far, all tokens have the same
        codewords and normaliser, and later codebooks depend on releases only. The number of tokens
        is public.

    Attributes:
        epsilon: Nats per token. Positive.
        mixture: Weight of the unigram in what is ranked. Strictly between 0 and 1.
        unigram: Public weights of the V tokens; ``None``: those of English where the vocabulary is
            English, else uniform.
        allowed: Ids that may become codewords, public; ``None``: all V tokens. Beside a policy that
            keeps words, leave these out: they are never what was there.
    """

    name = "contextual-response"
    truth = "epsilon-DP, exactly and once per token: later codebooks see releases"
    references = ("kairouz2014",)
    context: ClassVar[Reads] = "released"  # of raw text a token would be paid for again and again

    mixture: float = field(default=0.15, metadata=_validate.PROBABILITY)
    unigram: tuple[float, ...] | None = None
    allowed: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unigram is not None:
            weights = chosen.array(self.unigram, "unigram as finite weights >= 0", "iuf")
            if not weights.any():
                raise ParameterError("expected unigram as finite weights >= 0, one positive")
            object.__setattr__(self, "unigram", tuple(weights.astype(float).tolist()))
        if self.allowed is not None:
            ids = chosen.array(self.allowed, "allowed as ids of tokens", "iu")
            object.__setattr__(self, "allowed", tuple(np.unique(ids).tolist()))

    def outputs(self, space: EmbeddingSpace, logits: ArrayLike) -> Ids:
        """Gives the codebook, ascending."""
        row = checked_logits(np.atleast_2d(logits), (1, len(space)))[0]
        return self._codebook(row, self._unigram(space), self._allowed(space))

    def log_probs(self, ids: ArrayLike, space: EmbeddingSpace, logits: ArrayLike) -> Floats:
        """Computes the law of the token released for ids[i], given logits[i]; float64 (n, V)."""
        numbers = space.checked(ids)
        values = checked_logits(logits, (len(numbers), len(space)))
        unigram, allowed, unit = self._unigram(space), self._allowed(space), space.centred_unit
        rows = np.full(values.shape, -np.inf)
        for row, nearest, said in zip(rows, numbers, values, strict=True):
            codebook = self._codebook(said, unigram, allowed)
            if nearest not in codebook:  # unit rows are on a grid: products are exact
                nearest = codebook[(unit[codebook] @ unit[nearest]).argmax()]
            near = -math.log1p((len(codebook) - 1) * math.exp(-self.epsilon))
            row[codebook] = near - self.epsilon
            row[nearest] = near
        return rows

    def position_loss(self, size: int) -> float:
        """Returns epsilon: the unknown symbol's 1/M lies between least and largest weight."""
        return self.epsilon if size > 1 else 0.0

    def _codebook(self, logits: Floats, unigram: Floats, allowed: Ids) -> Ids:
        return allowed[choose(mix(logits, self.mixture, unigram)[allowed], self.epsilon)]

    def _unigram(self, space: EmbeddingSpace) -> Floats:
        """Shares of the tokens, float64 (V,)."""
        weights, size = self.unigram, len(space)
        if weights is None:
            return _by_default(space)
        if len(weights) != size:
            raise ParameterError(f"expected unigram of this space, {size}, got {len(weights)}")
        scaled = [weight / max(weights) for weight in weights]
        return np.array(scaled) / math.fsum(scaled)

    def _allowed(self, space: EmbeddingSpace) -> Ids:
        if self.allowed is None:
            return np.arange(len(space))
        if (last := self.allowed[-1]) >= len(space):
            raise ParameterError(f"expected allowed as ids in 0 .. {len(space) - 1}, got {last}")
        return np.array(self.allowed, dtype=np.int64)


@once
def _by_default(space: EmbeddingSpace) -> Floats:
    """Shares of the tokens in English text, or equal ones; float64 (V,)."""
    if not frequencies.is_english(space.vocabulary):
        return np.full(len(space), 1.0 / len(space))
    shares = frequencies.english(space.vocabulary)
    return np.asarray(shares / shares.sum())
