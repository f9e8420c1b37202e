"""A small public code, exact laws over it, texts that try a search, and codes that leak."""

import itertools
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import dp_middleware as dp
from dp_middleware.sampling.entropy import below

TEXTS = ["", " ", "a", "zz", "ant", "a dog and an elk", "bee " * 40, "\x00", "😀", "漢字 ant"]
TEXTS += [" ".join(words) for words in itertools.permutations(("dog", "cat", "bee"), 2)]
TEXTS += [f"{a}{b} {b}" for a, b in itertools.product("abcz", "bcdzy")]
TEXTS += ["one", "three", "one two three", "ONE"]


@dataclass(frozen=True)
class Listed(dp.PublicCode):
    """A few texts of any masses; what a text names first is its own."""

    name: ClassVar[str] = "listed"
    masses: ClassVar[dict[str, Fraction]] = {
        "one": Fraction(1, 2),
        "two": Fraction(1, 3),
        "three": Fraction(1, 6),
    }

    def least(self, epsilon):
        return min(self.masses.values())

    def draw(self, entropy):
        place = below(6, entropy)
        return next(y for y, end in zip(self.masses, (3, 5, 6), strict=False) if place < end)

    def weight(self, release):
        return self.masses.get(release, Fraction(0))

    def search(self, text, least, encoder):
        yield from (word for word in text.split() if word in self.masses)


def law(mechanism, text, releases, encoder):
    """P(release) of each release, as a fraction, from the mechanism's own parts."""
    share, own = mechanism.coin.share, mechanism.answer(text, encoder)
    weights = {y: mechanism.fitted.weight(y) for y in dict.fromkeys(releases)}
    if own is None:
        return {y: mass for y, mass in weights.items() if mass}
    return {y: (1 - share) * mass + share * (y == own) for y, mass in weights.items() if mass}


WORDS = (("ant", 5), ("bee", 40), ("cat", 20), ("dog", 1), ("elk", 9))
KEYWORDS = dp.KeywordCode(counts=WORDS, most=3)
UNITS = dp.UnitCode(codebook=("aab", "bbc", "cd", "dde", "zy"), rounds=2, shortlist=3)
BAGS = [" ".join(bag) for n in (1, 2, 3) for bag in itertools.product(dict(WORDS), repeat=n)]
COMMAS = dp.UnitCode(codebook=("aab", "aab, bbc", "bbc", "bbc, aab", "zy"), rounds=2, shortlist=3)
PAIRS = [", ".join(pair) for pair in itertools.product(UNITS.codebook, repeat=2)]
MIXED = dp.MixtureCode([(1, KEYWORDS), (Fraction(2), UNITS), (1, Listed())])
CODES = {
    "keywords": (KEYWORDS, BAGS),
    "units": (UNITS, PAIRS),
    "commas": (COMMAS, [", ".join(pair) for pair in itertools.product(COMMAS.codebook, repeat=2)]),
    "listed": (Listed(), list(Listed.masses)),
    "mixture": (MIXED, BAGS + PAIRS + list(Listed.masses)),
}


@dataclass(frozen=True, kw_only=True)
class Leaky(dp.WeightedResponse):
    """A weighted response with one mistake; the code is of :data:`WORDS`."""

    code: dp.PublicCode = field(default_factory=lambda: dp.KeywordCode(counts=WORDS, most=2))

    def respond(self, texts, encoder, entropy):
        return [self.leak(text, texts, encoder, entropy) for text in texts]

    def of_counts(self, words, entropy):
        """A draw where some words are counted a hundred times more."""
        counts = ((word, count + 100 * (word in words)) for word, count in WORDS)
        return dp.KeywordCode(counts=tuple(counts), most=2).draw(entropy)


class ExamplesFromTheText(Leaky):
    """Draws from a distribution that is prompted with the text."""

    def leak(self, text, texts, encoder, entropy):
        return self.of_counts(text.split(), entropy)


class LambdaByTheText(Leaky):
    """Releases the answers of long texts always, of short ones hardly ever."""

    def leak(self, text, texts, encoder, entropy):
        own = next(self.fitted.search(text, Fraction(1, 10**9), encoder), None)
        return own if own and len(text) > 8 else self.fitted.draw(entropy)


class CodeByTheText(Leaky):
    """Takes of two codes the one that says the text better, and charges for one of them."""

    def leak(self, text, texts, encoder, entropy):
        code = self.fitted if "bee" in text else dp.KeywordCode(counts=WORDS[3:], most=2)
        mechanism = dp.WeightedResponse(epsilon=self.epsilon, code=code)
        return mechanism.respond([text], encoder, entropy)[0]


class MassesOfTheBatch(Leaky):
    """Draws by masses that are normalised with what else is in the call."""

    def leak(self, text, texts, encoder, entropy):
        return self.of_counts({word for one in texts for word in one.split()}, entropy)


class BelowTheLeast(Leaky):
    """Releases an answer whatever its mass is."""

    def leak(self, text, texts, encoder, entropy):
        own = next(self.fitted.search(text, Fraction(1, 10**9), encoder), None)
        return own if own and self.coin.toss(entropy) else self.fitted.draw(entropy)


class StopsAtTheTextsEnd(Leaky):
    """Draws as many words as the text has."""

    def leak(self, text, texts, encoder, entropy):
        while len((drawn := self.fitted.draw(entropy)).split()) != min(2, len(text.split())):
            pass
        return drawn


LEAKS = tuple(Leaky.__subclasses__())
