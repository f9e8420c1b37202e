"""WeightedResponse: a text's own answer in a public distribution over texts, or any answer."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from operator import attrgetter
from typing import Any, Self

import numpy as np

from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.codes import PublicCode, UnitCode
from dp_middleware.mechanisms.keyword_code import KeywordCode
from dp_middleware.mechanisms.text_mechanisms import Encoder, TextMechanism, spellable
from dp_middleware.sampling.entropy import Coin, Entropy, below

_KEYWORDS_FROM = 40.0  # nats


@dataclass(frozen=True, kw_only=True)
class WeightedResponse(TextMechanism):
    """Releases the text that a search finds in a public code, or a draw from the code.

    mu is the code's public distribution over texts, y*(x) what its search finds for the text x, of
    mass W or more. With a probability of lambda y* is released, else, and where nothing is found, a
    draw.

    Reference:
        This library: generalised randomised response (Kairouz, Oh and Viswanath, 2014) with
        weights.

    Guarantee:
        epsilon-DP for any text and any other, exactly: no ratio exceeds 1 + lambda / ((1 - lambda)
        W), at most e^epsilon for the lambda used. The search moves what is likely, not the
        guarantee. Time is not covered. See docs/guarantees.md.

    Attributes:
        epsilon: Nats for the whole text. Positive.
        code: The public distribution and its search; ``None``: from 40 nats on keywords, below
            units.
    """

    name = "weighted-response"
    references = ("kairouz2014",)
    needs_encoder = property(attrgetter("fitted.needs_encoder"))

    epsilon: float
    code: PublicCode | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.code is not None and not isinstance(self.code, PublicCode):
            raise ParameterError(f"expected a dp.PublicCode, got {type(self.code).__name__}")
        self.coin  # noqa: B018 - refuses a code that does not fit epsilon

    @property
    def parameters(self) -> dict[str, Any]:
        """Gives the public parameters by name; of the code its fingerprint."""
        return {"epsilon": self.epsilon, "code": self.fitted.fingerprint}

    @cached_property
    def fitted(self) -> PublicCode:
        """Returns the code as it serves for this epsilon."""
        default = KeywordCode if self.epsilon >= _KEYWORDS_FROM else UnitCode
        return (default() if self.code is None else self.code).fitted(self.epsilon)

    @cached_property
    def coin(self) -> Coin:
        """Decides between a text's own answer and a draw from the code."""
        return Coin.of(Fraction(self.epsilon), self.fitted.least(self.epsilon))

    @property
    def loss(self) -> float:
        """Returns the loss of the integers drawn from; attained for an answer of least mass."""
        return min(self.epsilon, self.coin.loss)

    def assumptions(self, space: EmbeddingSpace) -> tuple[str, ...]:
        """Says which code it is, and how likely a text's own answer is released."""
        return (
            f"the code {self.fitted.fingerprint} is public and chosen without the text; what its "
            f"search finds is released with a probability of {float(self.coin.share):.3f}",
            *self.fitted.assumptions,
        )

    def respond(self, texts: Sequence[str], encoder: Encoder | None, entropy: Entropy) -> list[str]:
        """Draws a release for each text; no text of the list changes that of another."""
        releases = []
        for text in texts:
            own, any_of_all = self.answer(text, encoder), self.fitted.draw(entropy)
            heads = self.coin.toss(entropy)
            releases.append(own if heads and own is not None else any_of_all)
        return releases

    def answer(self, text: str, encoder: Encoder | None) -> str | None:
        """Finds the text's own answer, if its mass is enough. As private as the text."""
        return self.fitted.answer(text, self.coin.least, encoder)


@dataclass(frozen=True)
class MixtureCode(PublicCode):
    """Mixes several codes: the one serves that says a text best, for ln(1 / share) nats.

    Attributes:
        parts: Pairs (share, code); shares are positive and are divided by their sum.
    """

    name = "mixture"

    parts: tuple[tuple[Fraction, PublicCode], ...]

    def __post_init__(self) -> None:
        listed = [(Fraction(share), code) for share, code in self.parts]
        if not listed or not all(share > 0 for share, _ in listed):
            raise ParameterError("expected pairs of a positive share and a code")
        total = sum(share for share, _ in listed)
        object.__setattr__(self, "parts", tuple((share / total, code) for share, code in listed))

    @property
    def needs_encoder(self) -> bool:  # type: ignore[override]
        """Tells whether any of the codes needs one."""
        return any(code.needs_encoder for _, code in self.parts)

    def _left(self, epsilon: float) -> Iterator[tuple[Fraction, PublicCode, float]]:
        """Each share and code with the nats that are left for it."""
        for share, code in self.parts:
            yield share, code, max(epsilon + math.log(share), epsilon / 10)

    def fitted(self, epsilon: float) -> Self:
        """Returns the same, each code for what its share leaves of epsilon."""
        parts = ((share, code.fitted(left)) for share, code, left in self._left(epsilon))
        return replace(self, parts=tuple(parts))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Gathers those of its codes."""
        return tuple(dict.fromkeys(note for _, code in self.parts for note in code.assumptions))

    def least(self, epsilon: float) -> Fraction:
        """Returns the smallest mass that any of the codes may answer with."""
        return min(share * code.least(left) for share, code, left in self._left(epsilon))

    def draw(self, entropy: Entropy) -> str:
        """Draws a code by the shares, then from it."""
        scale = math.lcm(*(share.denominator for share, _ in self.parts))
        ends = list(accumulate(int(share * scale) for share, _ in self.parts))
        return self.parts[bisect_right(ends, below(scale, entropy))][1].draw(entropy)

    def weight(self, release: str) -> Fraction:
        """Returns the sum over the codes."""
        return sum((share * code.weight(release) for share, code in self.parts), Fraction(0))

    def search(self, text: str, least: Fraction, encoder: Encoder | None) -> Iterator[str]:
        """Yields what :meth:`answer` returns."""
        if (own := self.answer(text, least, encoder)) is not None:
            yield own

    def answer(self, text: str, least: Fraction, encoder: Encoder | None) -> str | None:
        """Returns the answer of a code that is nearest to the text, unencoded the first one."""
        answers = (code.answer(text, least / share, encoder) for share, code in self.parts)
        own = [answer for answer in answers if answer is not None]
        if encoder is None or len(own) < 2:
            return own[0] if own else None
        raw, *rows = encoder.encode([spellable(text), *own])
        return own[int(np.argmax(np.nan_to_num(np.array(rows) @ raw)))]
