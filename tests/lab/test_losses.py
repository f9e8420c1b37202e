"""Compositions against closed forms."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.special import comb, log_softmax
from support.cases import over

import dp_middleware as dp
from dp_middleware.lab.losses import LossDistribution

pytest.importorskip("dp_accounting", reason="needs the accounting extra")

DELTA = 1e-6


def randomised_response(epsilon):
    row = log_softmax([epsilon, 0.0])
    return row, row[::-1]


def response_delta(epsilon, count, at):
    """Kairouz, Oh and Viswanath (2015), Theorem 3.3: over the number of answers that are true."""
    true = np.arange(count + 1)
    log_p = true * epsilon - count * np.logaddexp(0, epsilon)
    log_q = (count - true) * epsilon - count * np.logaddexp(0, epsilon)
    return float(comb(count, true) @ np.maximum(0, np.exp(log_p) - np.exp(at + log_q)))


@over("count", [1, 2, 7, 40])
def test_exact_composition_of_randomised_response(count):
    epsilon = 0.5  # a multiple of the resolution: nothing is rounded
    found = LossDistribution.of_rows(*randomised_response(epsilon), resolution=2**-12).times(count)
    for at in (0.0, 0.3, 1.0, 2.5, 6.0):
        exact = response_delta(epsilon, count, at)
        assert exact <= found.delta(at) <= exact + 1e-9
    assert found.delta(count * epsilon * 1.001) == 0


def test_exact_composition_is_below_the_sum_and_no_lower_than_the_truth():
    rows = randomised_response(0.3)
    exact = LossDistribution.of_rows(*rows).times(30).guarantee(DELTA)
    assert exact.delta == DELTA
    assert exact.epsilon < 0.9 * 30 * 0.3
    assert response_delta(0.3, 30, exact.epsilon) <= DELTA
    assert response_delta(0.3, 30, exact.epsilon - 30 * 2e-4) > DELTA
    once = LossDistribution.of_rows(*rows)
    assert once.guarantee(1e-15).epsilon == pytest.approx(0.3)


def row_delta(log_p, log_q, at):
    return float(np.maximum(0, np.exp(log_p) - np.exp(at + log_q)).sum())


@given(seed=st.integers(0, 10**6), outputs=st.integers(2, 6))
def test_two_different_releases_compose_exactly(seed, outputs):
    """Against the product laws, enumerated, in both directions."""
    rng = np.random.default_rng(seed)
    first, second = log_softmax(rng.normal(size=(2, 2, outputs)), axis=-1)
    found = LossDistribution.of_rows(*first).then(LossDistribution.of_rows(*second))
    product = (first[:, :, None] + second[:, None, :]).reshape(2, -1)
    for at in (0.0, 0.2, 1.0):
        exact = max(row_delta(*product, at), row_delta(*product[::-1], at))
        assert exact <= found.delta(at) <= exact + 3e-4


def test_impossible_outputs_are_infinite_losses():
    p, q = np.log([0.9, 0.1, 1e-300]), np.log([0.9, 1e-300, 0.1])
    p[2] = q[1] = -math.inf
    found = LossDistribution.of_rows(p, q).times(3)
    assert found.largest == math.inf
    assert found.delta(50.0) == pytest.approx(1 - 0.9**3)
    assert found.guarantee(0.2).epsilon == math.inf


@given(seed=st.integers(0, 10**6), outputs=st.integers(2, 5))
def test_an_epsilon_dominates_every_pair(seed, outputs):
    """Whatever the rows, and in both directions; two answers attain it."""
    first, second = log_softmax(np.random.default_rng(seed).normal(size=(2, outputs)), axis=-1)
    epsilon = float(np.abs(first - second).max())
    bound = LossDistribution.of_epsilon(epsilon).times(3)
    own = LossDistribution.of_rows(first, second).times(3)
    for at in (0.0, 0.5, 2.0, 4.0):
        assert own.delta(at) <= bound.delta(at) + 1e-3
        exact = response_delta(epsilon, 3, at)
        assert exact <= bound.delta(at) <= exact + 1e-3


def test_bad_losses_are_refused():
    good, losses = np.log([0.5, 0.5]), LossDistribution
    once = losses.of_rows(good, good)
    for said, refused in {
        "mass": lambda: losses.of_rows([0.0, 0.0], good),
        "equal length": lambda: losses.of_rows(good, np.log([0.2, 0.3, 0.5])),
        "epsilon": lambda: losses.of_epsilon(-1.0),
        "count": lambda: once.times(0),
        "delta": lambda: once.guarantee(0.0),
    }.items():
        with pytest.raises(dp.ParameterError, match=said):
            refused()
    with pytest.raises(dp.IncompatibleGuarantees, match="resolution"):
        once.then(losses.of_rows(good, good, resolution=1e-3))
