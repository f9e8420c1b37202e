"""The randomness of a session, for tests: from a seed, or every way that draws can go."""

import random
from collections import Counter
from fractions import Fraction

from dp_middleware.pseudonyms.draws import Draws
from dp_middleware.pseudonyms.matching import cased


class _Remembered(Draws):
    """What a session draws once, or is told first."""

    def __init__(self):
        self._numbers = {}

    def _number(self, name, make):
        if name not in self._numbers:
            self._numbers[name] = make()
        return self._numbers[name]


class SeededDraws(_Remembered):
    def __init__(self, seed=0):
        self._random = random.Random(seed)
        super().__init__()

    def below(self, n):
        return self._random.randrange(n)


class _More(Exception):
    def __init__(self, n):
        self.n = n


class _Path(_Remembered):
    """Draws that go one way, and raise where it ends."""

    def __init__(self, way):
        self._way = iter(way)
        super().__init__()

    def below(self, n):
        for step in self._way:
            return step
        raise _More(n)


def law_of(outcome):
    """The exact law of a function of draws: outcomes with their probabilities."""
    law, ways = Counter(), [((), Fraction(1))]
    while ways:
        way, probability = ways.pop()
        try:
            law[outcome(_Path(way))] += probability
        except _More as more:
            ways += [((*way, step), probability / more.n) for step in range(more.n)]
    return dict(law)


class Names:
    """Pseudonyms of one kind in a session, and what is in use."""

    def __init__(self, kind, draws, public=()):
        self.kind, self.draws, self.used = kind, draws, {*public}
        self.by_key = {}

    def free(self, text):
        return text.casefold() not in self.used

    def unit(self, text, shape):
        key = self.kind.key(text, shape)
        if key not in self.by_key:
            drawn = self.kind.draw(key, shape, self.free, self.draws)
            assert self.free(drawn)
            self.used.add(drawn.casefold())
            self.by_key[key] = drawn, shape
        drawn, was = self.by_key[key]
        if was != shape:
            drawn = self.kind.respelled(drawn, was, shape, self.free, self.draws)
        return drawn if self.kind.exact else cased(drawn, text)

    def __call__(self, mention):
        parts = self.kind.parts(mention)
        texts = [self.unit(mention[a:b], shape) for a, b, shape in parts]
        for (a, b, _), text in reversed([*zip(parts, texts, strict=True)]):
            mention = mention[:a] + text + mention[b:]
        return mention


def replaced(kind, mention, seed=0):
    return Names(kind, SeededDraws(seed))(mention)
