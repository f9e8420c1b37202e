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
from dp_middleware._waits import told
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.kernels import pursuit, units
from dp_middleware.mechanisms.text_mechanisms import Encoder, TextMechanism
from dp_middleware.sampling.entropy import Entropy
from dp_middleware.sampling.response import Response
from dp_middleware.vocabulary.vocabulary import Vocabulary

_UNIT = 12.5  # nats
_MARGIN = 2.0  # nats beyond the logarithm of the number of releases
_FEWEST = 8
_MOST_ROUNDS = 64


@dataclass(frozen=True, kw_only=True)
class DocumentResponse(TextMechanism):
    """Releases the T public units that together come closest to a text, or any T units.

    Of all M^T sequences of units in a public list, the one that a greedy pursuit finds for the
    encoder's vector of the text has the weight e^epsilon, all others have the weight 1.

    Reference:
        This library: generalised randomised response (Kairouz, Oh and Viswanath, 2014) over
        sequences, and a greedy pursuit of the text's vector.

    Guarantee:
        epsilon-DP for any text and any other, exactly. The laws of all texts live on the same
        M^T sequences with the same total weight and differ by at most e^epsilon, whatever the
        encoder and the pursuit do with the private text; T and the list are public. So length,
        layout and correlated words are covered; time is not, which grows with the text up to the
        encoder's window.

    Attributes:
        epsilon: Nats for the whole text. Positive.
        rounds: Number T of units; default one for 12.5 nats.
        codebook: Public words, phrases or sentences, the most useful first; ``None``: English
            words and phrases. The first M are used, so few that T ln M is 2 nats below epsilon:
            then the best sequence is released with a probability of .88 or more.
        shortlist: Completions that the encoder sees for a unit: more are better and slower.
    """

    name: ClassVar[str] = "document-response"
    version: ClassVar[int] = 2  # units without shameful words
    claim: ClassVar[str] = "epsilon-DP for any text and any other"
    truth: ClassVar[str] = "epsilon-DP for the whole text, exactly"
    largest: ClassVar[float] = 1e3
    references: ClassVar[tuple[str, ...]] = ("kairouz2014",)

    epsilon: float
    rounds: int = None  # type: ignore[assignment]  # made a number at once
    codebook: tuple[str, ...] | None = None
    shortlist: int = 24

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rounds is None:
            object.__setattr__(self, "rounds", max(1, round(self.epsilon / _UNIT)))
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
        """The list of which a release is made."""
        listed = units.english() if self.codebook is None else self.codebook
        fitting = math.exp(min((self.epsilon - _MARGIN) / self.rounds, math.log(len(listed))))
        return listed[: max(_FEWEST + self.rounds, round(fitting))]

    @cached_property
    def response(self) -> Response:
        """The weights of all sequences, as integers."""
        return Response.of(Fraction(self.epsilon), len(self.units) ** self.rounds)

    @property
    def loss(self) -> float:
        """From the integers that are drawn from; attained by two texts with other best units."""
        return min(self.epsilon, self.response.loss)

    def respond(self, texts: Sequence[str], encoder: Encoder, entropy: Entropy) -> list[str]:
        """A release for each text, units joined by commas; each text is encoded by itself."""
        drawn = [self.response.draw(place, entropy) for place in self.best(texts, encoder)]
        return [self._join(self._sequence(place)) for place in drawn]

    def best(self, texts: Iterable[str], encoder: Encoder) -> list[int]:
        """For each text the place of its best sequence among all M^T. As private as the text."""
        vectors = _vectors(encoder, self.units)

        def encode(some: Sequence[Sequence[int]]) -> NDArray[np.float32]:
            return encoder.encode([self._join(numbers) for numbers in some])

        places = []
        for text in texts:
            (target,) = encoder.encode([text.encode("utf-8", "replace").decode()])
            target = np.nan_to_num(np.asarray(target, np.float32), posinf=0.0, neginf=0.0)
            found = pursuit.best_units(target, self.rounds, vectors, encode, self.shortlist)
            places.append(self._place(found))
        return places

    def _place(self, sequence: Sequence[int]) -> int:
        """Of a sequence among all M^T: its units are the digits to the base M."""
        place = 0
        for number in sequence:
            place = place * len(self.units) + number
        return place

    def _sequence(self, place: int) -> list[int]:
        """The units of a sequence by its place."""
        digits = []
        for _ in range(self.rounds):
            place, number = divmod(place, len(self.units))
            digits.append(number)
        return digits[::-1]

    def _join(self, sequence: Sequence[int]) -> str:
        return ", ".join(self.units[number] for number in sequence)


@lru_cache(maxsize=4)
def _vectors(encoder: Encoder, units: tuple[str, ...]) -> NDArray[np.float32]:
    """Of the units, (M, d); the encoder keeps them on disk."""
    with told(f"encoding the codebook of {len(units):,} units, once for this computer"):
        return encoder.space(Vocabulary(units), "encoded").vectors.astype(np.float32)
