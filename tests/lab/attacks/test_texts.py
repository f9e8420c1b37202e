"""The attacker among known texts: exact, and never above what epsilon allows."""

import itertools

import pytest
from support.cases import over
from support.letters import Letters
from support.weighted import CODES, TEXTS as HELD, law

import dp_middleware as dp
from dp_middleware.errors import ParameterError
from dp_middleware.lab import attacks

UNITS = ("aab", "bbc", "cd", "dde", "zy")
TEXTS = ("aab", "zy zy", "cd dde", "", "aab aab", "b", "漢字", "dddd")


def brute_force(texts, mechanism):
    """Over all sequences, the largest probability of a text, over the number of texts."""
    places = mechanism.best(texts, Letters())
    response = mechanism.response
    other = (1 - response.hit) / (response.size - 1)
    sequences = range(len(UNITS) ** mechanism.rounds)
    return sum(
        max(response.hit if place == y else other for place in places) for y in sequences
    ) / len(texts)


@over("epsilon, rounds", [*itertools.product((0.5, 3.0, 9.0), (1, 2))])
@over("count", [2, 5, 8])
def test_the_rate_is_that_of_all_sequences_and_below_the_bound(epsilon, rounds, count):
    mechanism = dp.DocumentResponse(epsilon=epsilon, rounds=rounds, codebook=UNITS)
    found = attacks.bayes_among(TEXTS[:count], mechanism, Letters())
    assert found.rate == pytest.approx(brute_force(TEXTS[:count], mechanism))
    assert found.details["blind"] <= found.rate <= found.details["bound"] + 1e-12
    assert (found.low, found.high, found.trials) == (found.rate, found.rate, 0)


@over("name", sorted(CODES))
@over("count", [2, 4, len(HELD)])
def test_the_rate_of_a_weighted_code_is_that_of_all_releases(name, count):
    code, releases = CODES[name]
    mechanism = dp.WeightedResponse(epsilon=6.0, code=code)
    laws = [law(mechanism, text, releases, Letters()) for text in HELD[:count]]
    best = sum(max(own[y] for own in laws) for y in laws[0]) / count
    found = attacks.bayes_among(HELD[:count], mechanism, Letters())
    assert found.rate == pytest.approx(float(best), rel=1e-12)
    assert found.rate <= found.details["bound"] + 1e-12


def test_texts_with_one_best_sequence_cannot_be_told_apart():
    mechanism = dp.DocumentResponse(epsilon=9.0, codebook=UNITS)
    found = attacks.bayes_among(["aab", "aab", "aab", "aab"], mechanism, Letters())
    assert found.rate == pytest.approx(0.25)
    assert found.details["different"] == 1


def test_two_candidates_are_needed():
    mechanism = dp.DocumentResponse(epsilon=9.0, codebook=UNITS)
    with pytest.raises(ParameterError, match="candidates"):
        attacks.bayes_among(["aab"], mechanism, Letters())
