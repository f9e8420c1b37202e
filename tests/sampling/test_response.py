"""Weights of randomised response never exceed their epsilon, and draws follow them."""

import math
from decimal import Context, Decimal
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st
from scipy.stats import binom, chisquare

from dp_middleware.sampling.response import OTHER, Response
from dp_middleware.sampling.sampler import insecure_entropy


@given(st.fractions(min_value=Fraction(1, 10**6), max_value=700), st.integers(1, 50_000))
def test_the_weight_is_the_largest_below_epsilon(epsilon, size):
    response, digits = Response.of(epsilon, size), Context(prec=800)
    exact = digits.exp(digits.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator)))
    assert Decimal(response.best) <= digits.multiply(exact, OTHER) < Decimal(response.best + 2)
    if size > 1:
        true = digits.ln(digits.divide(Decimal(response.best), OTHER))
        assert Decimal(math.nextafter(response.loss, 0.0)) < true <= Decimal(response.loss)


def test_draws_follow_the_law_and_no_other():
    epsilon, size, best, count = Fraction(2), 5, 3, 40_000
    response, entropy = Response.of(epsilon, size), insecure_entropy(7)
    drawn = [response.draw(best, entropy) for _ in range(count)]
    hits = drawn.count(best)
    assert response.hit == pytest.approx(math.exp(2) / (math.exp(2) + 4))
    assert binom.cdf(hits, count, response.hit) > 1e-6 < binom.sf(hits - 1, count, response.hit)
    others = [drawn.count(k) for k in range(size) if k != best]
    assert chisquare(others).pvalue > 1e-6
    twice = Response.of(2 * epsilon, size).hit
    assert binom.cdf(hits, count, twice) < 1e-6


def test_every_integer_below_the_total_has_its_answer():
    """With small weights all integers can be counted: each answer owns as many as its weight."""
    response = Response(size=3, best=2 * OTHER)
    owned = {0: 0, 1: 0, 2: 0}
    for part in range(4):  # of OTHER integers each
        for place in (0, 1, OTHER - 1):
            number = part * OTHER + place
            bits = response.total.bit_length()
            size = (bits + 7) // 8
            shifted = (number << (8 * size - bits)).to_bytes(size, "little")
            owned[response.draw(1, lambda _, one=shifted: one)] += 1
    assert owned == {0: 3, 1: 6, 2: 3}


def test_a_single_answer_costs_nothing():
    response = Response.of(Fraction(3), 1)
    assert response.loss == 0.0
    assert response.draw(0, insecure_entropy(0)) == 0
