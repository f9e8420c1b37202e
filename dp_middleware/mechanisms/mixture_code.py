"""MixtureCode: several codes, of which the one serves that says a text best."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate
from typing import Self

import numpy as np

from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.codes import PublicCode
from dp_middleware.mechanisms.text_mechanisms import Encoder, spellable
from dp_middleware.sampling.entropy import Entropy, below


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
    def needs_encoder(self) -> bool:
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
        """Returns the answer of a code that is nearest to the text, unencoded the first one.

        Each has enough mass by its own code's share, and by the others only more.
        """
        found = (code.answer(text, least / share, encoder) for share, code in self.parts)
        own = [one for one in found if one is not None]
        if encoder is None or len(own) < 2:
            return own[0] if own else None
        raw, *rows = encoder.encode([spellable(text), *own])
        return own[int(np.argmax(np.nan_to_num(np.array(rows) @ raw)))]
