"""Public distributions over texts, in which a search finds one that says what a text does."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache, reduce
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_middleware import _validate
from dp_middleware._files import DEFAULT_ENCODER
from dp_middleware._waits import told
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.backends import SentenceModel
from dp_middleware.embedding.plain import PlainEncoder, searcher
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.base import named
from dp_middleware.mechanisms.kernels import units
from dp_middleware.mechanisms.text_mechanisms import Encoder, spellable
from dp_middleware.sampling.entropy import Entropy, below, exp_below
from dp_middleware.vocabulary.vocabulary import Vocabulary

_UNIT = 12.5  # nats
_MARGIN = 2.0  # nats beyond the logarithm of the number of sequences of units
_FEWEST = 8
_NEAR = 160  # units that are encoded for a text
_LIMIT = 45.5  # nats for which prices are stated
FALL = 0.02  # cosine with the text that a further word of it may cost: other readers gain

Encode = Callable[[list[str]], NDArray[np.float32]]


def default_rounds(epsilon: float) -> int:
    """Returns how many units a release has by default, at least 1."""
    return max(1, round(epsilon / _UNIT))


def nats_of(mass: Fraction) -> float:
    """Returns what a mass costs: -ln of it, also where it is too small for a float."""
    return math.log(mass.denominator) - math.log(mass.numerator)


def price_of_a_nat(stated: float, limit: float) -> float:
    """Returns in cosine what a nat is worth where a release may have so many of them."""
    return stated * (_LIMIT / limit) ** 2 if limit else 0.0


def finite_rows(encode: Encode, texts: list[str]) -> NDArray[np.float32]:
    """Encodes texts, with 0 for what is no number."""
    return np.nan_to_num(encode(texts), posinf=0.0, neginf=0.0)


def promising(sums: NDArray[Any], target: NDArray[Any], prices: Floats, count: int) -> Ids:
    """Lists the sums of vectors that come nearest to the target for their price, the best first."""
    cosines = sums @ target / np.maximum(np.linalg.norm(sums, axis=1), 1e-6)
    return np.argsort(prices - cosines, kind="stable")[:count]


class PublicCode(ABC):
    """Draws from a distribution mu over texts, made from public data alone, and searches in it.

    Write a frozen dataclass of public fields. Masses must be exact and the same on every machine,
    so integers or fractions, and depend on no private text. The search is free: its order, ties and
    floats move what is likely, never the guarantee.

    Attributes:
        name: In certificates.
        version: Part of the fingerprint; raised when masses change.
        needs_encoder: Whether a search finds nothing without one.
    """

    name: ClassVar[str]
    version = 1
    needs_encoder = True

    def fitted(self, epsilon: float) -> PublicCode:
        """Returns the same with all that depends on epsilon, by a public rule."""
        return self

    def least(self, epsilon: float) -> Fraction:
        """Returns the smallest mass that a search may find: by default e^-(epsilon - 4) or so."""
        margin = min(epsilon / 2, 4 + min(max(0.0, epsilon - 25) / 50, 0.5))
        return Fraction(1, math.floor(exp_below(Fraction(epsilon - margin))))

    @abstractmethod
    def draw(self, entropy: Entropy) -> str:
        """Draws a text from mu, exactly."""

    @abstractmethod
    def weight(self, release: str) -> Fraction:
        """Returns mu of a text, or a number that it is proved to be at least; 0 if it has none."""

    @abstractmethod
    def search(self, text: str, least: Fraction, encoder: Encoder | None) -> Iterator[str]:
        """Yields texts that say what a private text, of any kind, says, the best first.

        The first of mass ``least`` or more, by :meth:`weight`, is the one. The ``encoder``, or
        ``None``, sees the text.
        """

    def answer(self, text: str, least: Fraction, encoder: Encoder | None) -> str | None:
        """Returns the first of what the search finds of a mass that is enough. Private."""
        found = self.search(text, least, encoder)
        return next((own for own in found if self.weight(own) >= least), None)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Says what its masses rest on, for certificates; by default nothing."""
        return ()

    @property
    def fingerprint(self) -> str:
        """Identifies name, version and fields."""
        return named(self.name, f"{self.name}/{self.version}/{self!r}")


@dataclass(frozen=True, kw_only=True)
class UnitCode(PublicCode):
    """Holds all sequences of T public words and phrases, each as likely.

    Attributes:
        rounds: Number T of units; default one for 12.5 nats.
        codebook: Public words, phrases or sentences, the most useful first; ``None``: English words
            and phrases. The first M are used, so few that T ln M is 2 nats below epsilon: then what
            is found is released with a probability of .88 or more.
        shortlist: Completions that the encoder sees for a unit: more are better and slower.
    """

    name = "units"

    rounds: int | None = field(default=None, metadata=_validate.count(most=64))
    codebook: tuple[str, ...] | None = None
    shortlist: int = field(default=24, metadata=_validate.COUNT)

    def __post_init__(self) -> None:
        _validate.check_fields(self)
        if self.codebook is not None:
            object.__setattr__(self, "codebook", units.checked(self.codebook))

    def fitted(self, epsilon: float) -> UnitCode:
        """Returns the same with no more units than epsilon tells apart; ParameterError: too few."""
        rounds, count = self.rounds or default_rounds(epsilon), len(self.units)
        if count <= rounds:
            raise ParameterError(f"expected a codebook of more units than {rounds=}, got {count}")
        fitting = math.exp(min((epsilon - _MARGIN) / rounds, math.log(count)))
        kept = self.units[: max(_FEWEST + rounds, round(fitting))]
        return replace(self, rounds=rounds, codebook=kept)

    @property
    def units(self) -> tuple[str, ...]:
        """Lists what a release is made of."""
        return units.english() if self.codebook is None else self.codebook

    @property
    def size(self) -> int:
        """Counts the M^T sequences."""
        return int(len(self.units) ** (self.rounds or 1))

    def least(self, epsilon: float) -> Fraction:
        """Returns the mass of each."""
        return Fraction(1, self.size)

    def draw(self, entropy: Entropy) -> str:
        """Draws a sequence, units joined by commas."""
        return self.sequence(below(self.size, entropy))

    def weight(self, release: str) -> Fraction:
        """Returns the mass of all sequences that are written so; units may have commas."""
        parts, listed = release.split(", "), {*self.units}
        ways = [1] + [0] * len(parts)  # of writing the first parts as so many units
        for _ in range(self.rounds or 1):
            ways = [
                sum(ways[k] for k in range(end) if ", ".join(parts[k:end]) in listed)
                for end in range(len(ways))
            ]
        return Fraction(ways[-1], self.size)

    def search(self, text: str, least: Fraction, encoder: Encoder | None) -> Iterator[str]:
        """Yields the sequence that :meth:`best` names."""
        if encoder is not None:
            yield self.sequence(self.best(text, encoder))

    def best(self, text: str, encoder: Encoder) -> int:
        """Returns the place of a text's sequence among all M^T, by a greedy pursuit. Private."""
        listed: Sequence[int] = range(len(self.units))
        plain = _plain(encoder) if self.units == units.english()[: len(listed)] else None
        reader = plain or encoder

        def encode(some: Sequence[Sequence[int]]) -> NDArray[np.float32]:
            return reader.encode([self._join([listed[k] for k in numbers]) for numbers in some])

        (target,) = finite_rows(reader.encode, [spellable(text)])
        if plain is None:  # all units are encoded, once for a computer; else those that may be near
            vectors = _vectors(encoder, self.units)
        else:
            listed = units.nearest(target, plain.pieces, len(listed), _NEAR)
            vectors = encode([[k] for k in range(len(listed))])
        best = units.best_units(target, self.rounds or 1, vectors, encode, self.shortlist)
        return reduce(lambda place, number: place * len(self.units) + listed[number], best, 0)

    def sequence(self, place: int) -> str:
        """Returns the sequence at a place, whose digits to the base M are the units."""
        digits = []
        for _ in range(self.rounds or 1):
            place, number = divmod(place, len(self.units))
            digits.append(number)
        return self._join(digits[::-1])

    def _join(self, sequence: Sequence[int]) -> str:
        return ", ".join(self.units[number] for number in sequence)


def _plain(encoder: Encoder) -> PlainEncoder | None:
    """The default encoder on NumPy, if it is this one."""
    backend = getattr(encoder, "backend", None)
    if isinstance(backend, SentenceModel) and backend.model == DEFAULT_ENCODER:
        encoder = searcher() or encoder
    return encoder if isinstance(encoder, PlainEncoder) else None


@lru_cache(maxsize=4)
def _vectors(encoder: Encoder, units: tuple[str, ...]) -> NDArray[np.float32]:
    """Of the units, (M, d); the encoder keeps them on disk."""
    with told(f"encoding the codebook of {len(units):,} units, once for this computer"):
        return encoder.space(Vocabulary(units), "encoded").vectors.astype(np.float32)
