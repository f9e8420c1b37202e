"""The audit of mechanisms of whole texts: what is proved passes, known mistakes are caught."""

from dataclasses import dataclass

import pytest
from support.cases import over
from support.letters import Letters
from support.spaces import random_space
from support.weighted import LEAKS, Leaky

import dp_middleware as dp
from dp_middleware.errors import ParameterError
from dp_middleware.sampling.entropy import Response

UNITS = ("aab", "bbc", "cd", "dde", "zy")
SPACE = random_space(tokens=6, seed=1)
FEW = {"samples": 4000, "failure_probability": 1e-9, "encoder": Letters()}


@dataclass(frozen=True, kw_only=True)
class OnlyWhatItHas(dp.DocumentResponse):
    """Offers units that share a letter with the text, so the list tells of it."""

    def respond(self, texts, encoder, entropy):
        offered = [[unit for unit in UNITS if set(unit) & set(text)] for text in texts]
        return [each[Response(size=len(each), best=1 << 66).draw(0, entropy)] for each in offered]


@dataclass(frozen=True, kw_only=True)
class StopsEarly(dp.DocumentResponse):
    """Releases no second unit for a short text, so the number of units tells of it."""

    def respond(self, texts, encoder, entropy):
        pairs = zip(texts, super().respond(texts, encoder, entropy), strict=True)
        return [y.split(", ")[0] if len(text) < 4 else y for text, y in pairs]


@dataclass(frozen=True, kw_only=True)
class NeverItsOwn(dp.DocumentResponse):
    """Never releases a unit that the text has: what is missing tells of it."""

    def respond(self, texts, encoder, entropy):
        pairs = zip(texts, super().respond(texts, encoder, entropy), strict=True)
        return [", ".join(u for u in y.split(", ") if u not in text) for text, y in pairs]


@pytest.mark.slow
@pytest.mark.parametrize("texts", [("aab", "zy"), ("", "aab bbc cd"), ("a", "a a a a a a")])
def test_document_response_keeps_its_claim(texts):
    mechanism = dp.DocumentResponse(epsilon=3.0, rounds=2, codebook=UNITS, shortlist=3)
    bound = dp.audit(mechanism, SPACE, texts=texts, **FEW)
    assert bound <= bound.claim == 3.0


def test_the_bound_is_near_the_truth():
    mechanism = dp.DocumentResponse(epsilon=2.0, rounds=1, codebook=UNITS)
    assert dp.audit(mechanism, SPACE, texts=("aab", "zy"), **FEW | {"samples": 16_000}) > 1.2


@pytest.mark.slow
@pytest.mark.parametrize("kind", [OnlyWhatItHas, StopsEarly, NeverItsOwn])
def test_known_mistakes_break_their_claim(kind):
    mechanism = kind(epsilon=2.0, rounds=2, codebook=UNITS, shortlist=3)
    bound = dp.audit(mechanism, SPACE, texts=("aab", "zy zy zy"), **FEW)
    assert bound > bound.claim == 2.0


def test_two_strings_are_needed():
    mechanism = dp.DocumentResponse(epsilon=2.0, codebook=UNITS)
    for texts in (None, ([1], [2]), ("one", "two", "three"), ("one", 2)):
        with pytest.raises(ParameterError, match="two strings"):
            dp.audit(mechanism, SPACE, texts=texts, encoder=Letters())


@over("texts", [("bee bee bee", "dog"), ("", "cat elk ant"), ("dog", "dog elk")])
def test_weighted_response_keeps_its_claim(texts):
    mechanism = dp.WeightedResponse(epsilon=2.0, code=Leaky(epsilon=2.0).code)
    assert dp.audit(mechanism, SPACE, texts=texts, **FEW) <= 2.0


@over("kind", LEAKS)
def test_what_breaks_a_weighted_response_is_caught(kind):
    texts = ("bee", "elk dog elk")
    bound = dp.audit(kind(epsilon=2.0), SPACE, texts=texts, **FEW)
    assert bound > bound.claim == 2.0
