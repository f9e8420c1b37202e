"""DocumentResponse: public words and phrases that together come closest to a whole text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dp_middleware import _validate
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.kernels import pursuit, units
from dp_middleware.mechanisms.text_mechanisms import Encoder, TextMechanism
from dp_middleware.sampling.response import Response
from dp_middleware.sampling.tables import Entropy
from dp_middleware.vocabulary.vocabulary import Vocabulary

_ROUND = 12.5  # nats
_MARGIN = 2.0  # nats of a round beyond the logarithm of the number of its units
_FEWEST = 8
_MOST_ROUNDS = 64


@dataclass(frozen=True, kw_only=True)
class DocumentResponse(TextMechanism):
    """Release T public units: in each round the best completion of the others, or any unit.

    In round j the unit of a public list that brings the encoder's vector of what is released
    closest to that of the text has the weight e^(epsilon/T), all others have the weight 1.

    Reference:
        This library: generalised randomised response (Kairouz, Oh and Viswanath, 2014) with
        feedback, a greedy pursuit of the text's vector.

    Guarantee:
        epsilon-DP for any text and any other, exactly. Given what was released before, the laws
        of a round live on the same M_j units and differ by at most e^(epsilon/T), whatever the
        encoder does with the private text; T and the lists are functions of public parameters
        and of what was released. So length, layout and correlated words are covered; time is not,
        which grows with the text up to the encoder's window.

    Attributes:
        epsilon: Nats for the whole text. Positive.
        rounds: Number T of units; default one for 12.5 nats.
        codebook: Public words, phrases or sentences, the most useful first; ``None``: English
            words and phrases. A round offers the first M, of which ln M is 2 nats below the
            round's epsilon, less what was released before.
        shortlist: Completions that the encoder sees in a round: more are better and slower.
    """

    name: ClassVar[str] = "document-response"
    claim: ClassVar[str] = "epsilon-DP for any text and any other"
    truth: ClassVar[str] = "epsilon-DP for the whole text, exactly"
    largest: ClassVar[float] = 1e3
    references: ClassVar[tuple[str, ...]] = ("kairouz2014",)

    epsilon: float
    rounds: int = None  # type: ignore[assignment]  # made a number at once
    codebook: tuple[str, ...] | None = None
    shortlist: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rounds is None:
            object.__setattr__(self, "rounds", max(1, round(self.epsilon / _ROUND)))
        _validate.at_least(1, rounds=self.rounds, shortlist=self.shortlist)
        if self.rounds > _MOST_ROUNDS:
            raise ParameterError(f"expected rounds <= {_MOST_ROUNDS}, got {self.rounds}")
        if self.codebook is not None:
            object.__setattr__(self, "codebook", units.checked(self.codebook))
            if len(self.codebook) <= self.rounds:
                raise ParameterError(
                    f"expected a codebook of more units than rounds={self.rounds}, got "
                    f"{len(self.codebook)}"
                )

    @classmethod
    def tuned(cls, texts: Iterable[str], *, epsilon: float, rounds: int | None = None) -> Self:
        """With the words and phrases of public texts, those that tell most first.

        Args:
            texts: Public, of the user's domain: what is in them may be released, so never
                private ones.
            epsilon: Nats for the whole text.
            rounds: As for the class.

        Raises:
            ParameterError: Texts with too few words and phrases.
        """
        chosen = {} if rounds is None else {"rounds": rounds}
        return cls(epsilon=epsilon, codebook=units.from_texts(texts), **chosen)

    @classmethod
    def with_defaults(cls, nominal: float, space: EmbeddingSpace) -> Self:
        """With the English codebook; the space of tokens has no part in it."""
        return cls(epsilon=nominal)

    @cached_property
    def units(self) -> tuple[str, ...]:
        """What a round offers, less what was released before."""
        listed = units.english() if self.codebook is None else self.codebook
        fitting = math.exp(min(self.epsilon / self.rounds - _MARGIN, math.log(len(listed))))
        return listed[: max(_FEWEST + self.rounds, round(fitting))]

    @cached_property
    def responses(self) -> tuple[Response, ...]:
        """The weights of each round, as integers."""
        share = Fraction(self.epsilon) / self.rounds
        return tuple(Response.of(share, len(self.units) - k) for k in range(self.rounds))

    @property
    def loss(self) -> float:
        """The sum over the rounds, from the integers that are drawn from.

        Attained by two texts with different best units in every round.
        """
        return min(self.epsilon, math.fsum(response.loss for response in self.responses))

    def respond(self, texts: Sequence[str], encoder: Encoder, entropy: Entropy) -> list[str]:
        """A release for each text, units joined by commas; each text is encoded by itself."""
        vectors = _vectors(encoder, self.units)

        def encode(some: Sequence[Sequence[int]]) -> NDArray[np.float32]:
            return encoder.encode(self._join(some))

        released = []
        for text in texts:
            (target,) = encoder.encode([text.encode("utf-8", "replace").decode()])
            target = np.nan_to_num(np.asarray(target, np.float32), posinf=0.0, neginf=0.0)
            own: list[int] = []
            for response in self.responses:
                best = pursuit.best_unit(target, own, vectors, encode, self.shortlist)
                own.append(_drawn(response, own, best, entropy))
            released.append(own)
        return self._join(released)

    def _join(self, chosen: Sequence[Sequence[int]]) -> list[str]:
        return [", ".join(self.units[number] for number in numbers) for numbers in chosen]


@lru_cache(maxsize=4)
def _vectors(encoder: Encoder, units: tuple[str, ...]) -> NDArray[np.float32]:
    """Of the units, (M, d); the encoder keeps them on disk."""
    return encoder.space(Vocabulary(units), "encoded").vectors.astype(np.float32)


def _drawn(response: Response, before: Sequence[int], best: int, entropy: Entropy) -> int:
    """A unit that was not released before: numbers are counted without those."""
    place = response.draw(best - sum(number < best for number in before), entropy)
    for number in sorted(before):
        place += number <= place
    return place
