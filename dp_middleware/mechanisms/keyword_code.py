"""KeywordCode: bags of a text's own words, as likely as the words are in public text."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, cached_property, partial
from itertools import accumulate
from typing import Self

import numpy as np

from dp_middleware import _validate
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms import codes
from dp_middleware.mechanisms.base import named
from dp_middleware.mechanisms.codes import PublicCode
from dp_middleware.mechanisms.kernels.units import public
from dp_middleware.mechanisms.text_mechanisms import Encoder, spellable
from dp_middleware.sampling.entropy import Entropy, below
from dp_middleware.vocabulary import frequencies

_WORD = re.compile(r"[a-z]+")
_NATS_A_WORD = 6.0
_PRICE = 0.0003  # in cosine, of a nat
_MOST_READ = 64  # words of a text


@dataclass(frozen=True, kw_only=True)
class KeywordCode(PublicCode):
    """Holds bags of up to T words, drawn by public counts: common words are cheap, order free.

    mu of a bag of t words is 1/T t! / (product of m! over its words' multiplicities m) times the
    product of the words' shares. The search takes counted words of the text, greedily by the
    encoder's cosine with it less a price of each nat: at 50 nats five to seven, at 25 two or three.
    Without an encoder it takes the rarest ones.

    Attributes:
        counts: Public words of the letters a to z and how often they occur; ``None``: 160,000 words
            of English.
        most: Number T; default one word for 6 nats.
        shortlist: Words that the encoder sees for a step.
    """

    name = "keywords"
    needs_encoder = False  # rare words do without

    counts: tuple[tuple[str, int], ...] | None = None
    most: int | None = field(default=None, metadata=_validate.COUNT)
    shortlist: int = field(default=8, metadata=_validate.COUNT)

    def __post_init__(self) -> None:
        _validate.check_fields(self)
        if self.counts is not None:
            counts = tuple(sorted((str(word), count) for word, count in self.counts))
            for _, count in counts:
                _validate.at_least(1, count=count)
            if not counts or len({w for w, _ in counts if _WORD.fullmatch(w)}) < len(counts):
                raise ParameterError("expected counts of distinct words of the letters a to z")
            object.__setattr__(self, "counts", counts)

    @classmethod
    def tuned(cls, texts: Iterable[str], *, most: int | None = None) -> Self:
        """Takes words of *public* texts, which get half of all counts; ParameterError: none."""
        words = (word for text in public(texts) for word in _WORD.findall(text.lower()))
        common, listed = frequencies.stop_words(), frequencies.keywords()
        own = Counter(word for word in words if len(word) > 1 and word not in common)
        if not own:
            raise ParameterError("expected public texts with words, got none")
        scale = -(-sum(listed.values()) // own.total())
        every = Counter(listed) + Counter({word: scale * n for word, n in own.items()})
        return cls(counts=tuple(every.items()), most=most)

    def fitted(self, epsilon: float) -> Self:
        """Returns the same with the number of words for this epsilon."""
        return replace(self, most=self.most or math.ceil(epsilon / _NATS_A_WORD))

    @property
    def fingerprint(self) -> str:
        """Identifies counts, number, and search."""
        counts = frequencies.keywords_fingerprint() if self.counts is None else self.counts
        return named(self.name, f"{self.version}/{self.most}/{self.shortlist}/{counts}")

    @cached_property
    def _table(self) -> _Table:
        return english() if self.counts is None else _Table(dict(self.counts))

    def draw(self, entropy: Entropy) -> str:
        """Draws how many words, then each of them; written with the rarest first."""
        table = self._table
        number = 1 + below(self.most or 1, entropy)
        return self.written([table.draw(entropy) for _ in range(number)])

    def weight(self, release: str) -> Fraction:
        """Returns the mass of a bag; 0 for what is no bag in its order."""
        bag, counts = release.split(" "), self._table.counts
        listed = len(bag) <= (self.most or 1) and all(word in counts for word in bag)
        if not listed or self.written(bag) != release:
            return Fraction(0)
        orders = math.factorial(len(bag)) // math.prod(map(math.factorial, Counter(bag).values()))
        ways = orders * math.prod(counts[word] for word in bag)
        return Fraction(ways, (self.most or 1) * self._table.total ** len(bag))

    def search(self, text: str, least: Fraction, encoder: Encoder | None) -> Iterator[str]:
        """Yields the bag that a greedy search ends with, then those on its way."""
        own = _OwnWords(self, text, least)
        bags = own.rarest() if encoder is None else own.nearest(text, encoder.encode)
        yield from reversed([self.written(bag) for bag in bags])

    def written(self, bag: Iterable[str]) -> str:
        """Returns the text of a bag, its rarest words first."""
        counts = self._table.counts
        return " ".join(sorted(bag, key=lambda word: (counts[word], word)))


class _Table:
    """Counts with their words in a fixed order, and their running sums."""

    def __init__(self, counts: dict[str, int]) -> None:
        self.counts = counts
        self.words = tuple(counts)
        self.ends = tuple(accumulate(counts.values()))
        self.total = self.ends[-1]

    def draw(self, entropy: Entropy) -> str:
        """A word by its count."""
        return self.words[bisect_right(self.ends, below(self.total, entropy))]

    def share(self, word: str) -> Fraction:
        """Of a word; 0 for one that is not counted."""
        return Fraction(self.counts.get(word, 0), self.total)

    def nats(self, word: str) -> float:
        """What a word costs; infinity for one that is not counted."""
        return math.log(self.total / self.counts[word]) if word in self.counts else math.inf


@cache
def english() -> _Table:
    """The words that ship."""
    return _Table(frequencies.keywords())


class _OwnWords:
    """Bags of a text's words, each a word longer than the one before it."""

    def __init__(self, code: KeywordCode, text: str, least: Fraction) -> None:
        own = {word: code._table.nats(word) for word in _WORD.findall(text.lower())}
        nats = {word: cost for word, cost in own.items() if cost < math.inf}
        read = sorted(nats, key=lambda word: -nats[word])[:_MOST_READ]
        self._code, self._nats = code, {word: nats[word] for word in nats if word in read}
        self._limit = codes.nats_of(least)
        self._price = codes.price_of_a_nat(_PRICE, self._limit)

    def _cost(self, bag: Sequence[str]) -> float:
        """Nats of a bag of distinct words."""
        together = math.log(self._code.most or 1) - math.lgamma(len(bag) + 1)
        return together + sum(self._nats[word] for word in bag)

    def _longer(self, bag: Sequence[str]) -> list[list[str]]:
        """Bags of a word more, as far as they can be paid for."""
        if len(bag) >= (self._code.most or 1):
            return []
        bags = ([*bag, word] for word in self._nats if word not in bag)
        return [longer for longer in bags if self._cost(longer) <= self._limit]

    def rarest(self) -> Iterator[list[str]]:
        """Bags of the rarest words."""
        bag: list[str] = []
        while longer := self._longer(bag):
            bag = max(longer, key=self._cost)
            yield bag

    def nearest(self, text: str, encode: codes.Encode) -> Iterator[list[str]]:
        """Bags that come nearest to the text for their price, as long as none falls back."""
        rows = partial(codes.finite_rows, encode)
        if not (longer := self._longer([])):
            return
        words = list(self._nats)
        (target,) = rows([spellable(text)])
        alone = dict(zip(words, rows(words), strict=True))
        bag, head, best = list[str](), np.zeros_like(target), -math.inf
        while longer:
            # the vector of a bag is near the mean of its words' vectors
            sums = len(bag) * head + np.array([alone[one[-1]] for one in longer])
            prices = self._price * np.array([self._cost(one) for one in longer])
            listed = codes.promising(sums, target, prices, self._code.shortlist)
            heads = rows([self._code.written(longer[k]) for k in listed]) if bag else sums[listed]
            scores = heads @ target - prices[listed]
            first = int(np.argmax(scores))
            if scores[first] <= best - codes.FALL:
                return
            bag, head, best = longer[listed[first]], heads[first], max(best, float(scores[first]))
            yield bag
            longer = self._longer(bag)
