"""Intervals over texts: they cover, and say so where nothing is known."""

import numpy as np
import pytest
from scipy.stats import binomtest

from dp_middleware.lab.metrics import results


def test_it_covers_the_true_rate_of_texts_that_differ():
    """Rates of texts vary, so an interval over tokens alone would be far too narrow."""
    generator = np.random.default_rng(0)
    covered = naive = 0
    for _ in range(150):
        lengths = generator.integers(20, 60, 80)
        hits = generator.binomial(lengths, generator.beta(2, 3, 80))
        low, high = results.rate_interval(hits, lengths)
        covered += low <= 0.4 <= high
        tokens = binomtest(int(hits.sum()), int(lengths.sum())).proportion_ci()
        naive += tokens.low <= 0.4 <= tokens.high
    assert covered >= 132
    assert naive < 100


def test_texts_of_one_trial_are_independent_trials():
    found = results.rate_interval([1] * 7 + [0] * 13, [1] * 20)
    expected = binomtest(7, 20).proportion_ci(method="exact")
    assert found == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize("rate", [0, 1])
def test_a_rate_without_spread_has_an_interval(rate):
    low, high = results.rate_interval([rate * 30] * 50, [30] * 50)
    assert (low == 0.0, high == 1.0) == (not rate, bool(rate))
    assert 0.05 < high - low < 0.1


def test_of_one_text_nothing_is_known():
    assert results.rate_interval([3], [10]) == (0.0, 1.0)


def test_a_mean_is_a_ratio_and_may_be_anything():
    values = np.random.default_rng(0).normal(-3.0, 1.0, 100)
    low, high = results.ratio_interval(values, np.ones(100))
    assert low < values.mean() < high
    assert high - low == pytest.approx(2 * 1.96 * values.std() / 10, rel=0.2)
    assert results.ratio_interval([2.0] * 3, [4.0] * 3) == (0.5, 0.5)
