"""DocumentResponse: public words and phrases that together come closest to a whole text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from operator import attrgetter
from typing import Self

from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.mechanisms.codes import UnitCode, default_rounds
from dp_middleware.mechanisms.kernels.units import checked, from_texts
from dp_middleware.mechanisms.text_mechanisms import Encoder, TextMechanism
from dp_middleware.sampling.entropy import Entropy, Response


@dataclass(frozen=True, kw_only=True)
class DocumentResponse(TextMechanism):
    """Releases the T public units that together come closest to a text, or any T units.

    Of all M^T sequences of units in a public list, the one that a greedy pursuit finds for the
    encoder's vector of the text has the weight e^epsilon, all others have the weight 1.

    Reference:
        This library: generalised randomised response (Kairouz, Oh and Viswanath, 2014) over
        sequences.

    Guarantee:
        epsilon-DP for any text and any other, exactly: all laws live on the same sequences with the
        same total weight. Length, layout and correlated words are covered; time is not.

    Attributes:
        epsilon: Nats for the whole text. Positive.
        rounds: See :class:`UnitCode`, and so for the rest.
        codebook: Public units; ``None``: English words and phrases.
        shortlist: Completions that the encoder sees for a unit.
    """

    name = "document-response"
    version = 2  # units without shameful words
    references = ("kairouz2014",)

    epsilon: float
    rounds: int | None = None
    codebook: tuple[str, ...] | None = None
    shortlist: int = 24

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rounds is None:
            object.__setattr__(self, "rounds", default_rounds(self.epsilon))
        if self.codebook is not None:
            object.__setattr__(self, "codebook", checked(self.codebook))
        self.code  # noqa: B018 - refuses what does not fit

    @classmethod
    def tuned(cls, texts: Iterable[str], *, epsilon: float, rounds: int | None = None) -> Self:
        """Takes words and phrases of *public* texts, the best first; ParameterError: too few."""
        return cls(epsilon=epsilon, codebook=from_texts(texts), rounds=rounds)

    @classmethod
    def with_defaults(cls, nominal: float, space: EmbeddingSpace) -> Self:
        """Takes the English codebook; the space of tokens has no part in it."""
        return cls(epsilon=nominal)

    @cached_property
    def code(self) -> UnitCode:
        """Holds the sequences of units that can be released."""
        chosen = UnitCode(rounds=self.rounds, codebook=self.codebook, shortlist=self.shortlist)
        return chosen.fitted(self.epsilon)

    units = property(attrgetter("code.units"))

    @cached_property
    def response(self) -> Response:
        """Holds the weights of all sequences, as integers."""
        return Response.of(Fraction(self.epsilon), self.code.size)

    @property
    def loss(self) -> float:
        """Returns the loss of the integers drawn from; attained where best units differ."""
        return min(self.epsilon, self.response.loss)

    def respond(self, texts: Sequence[str], encoder: Encoder, entropy: Entropy) -> list[str]:
        """Draws a release for each text, units joined by commas; each text is encoded by itself."""
        draws = (self.response.draw(place, entropy) for place in self.best(texts, encoder))
        return [*map(self.code.sequence, draws)]

    def best(self, texts: Iterable[str], encoder: Encoder) -> list[int]:
        """Finds for each text the place of its best sequence among all M^T. Private as the text."""
        return [self.code.best(text, encoder) for text in texts]
