"""Conversions between kinds of privacy hold for all pairs and cannot be improved."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import logsumexp
from scipy.stats import norm
from support.cases import over

from dp_middleware.errors import ParameterError
from dp_middleware.privacy.conversions import approx_of_zcdp, zcdp_of_bounded_range, zcdp_of_pure

EPSILONS = [0.01, 0.5, 1.0, 3.0, 8.0, 20.0]
ORDERS = 1 + np.logspace(-4, 3, 120)


def concentration(log_p, log_q, orders=ORDERS):
    """Largest D_alpha(P || Q) / alpha over the orders; rows over the last axis."""
    alpha = np.asarray(orders)
    moments = [logsumexp(a * log_p + (1 - a) * log_q, axis=-1) / (a * (a - 1)) for a in alpha]
    return np.max(moments, axis=0)


def binary_pairs(high, low):
    """ln P and ln Q on two outputs with ln(P/Q) = high and low; high > 0 > low."""
    log_q = np.log(-np.expm1(low)) - high - np.log(-np.expm1(low - high))
    other = np.log(-np.expm1(-high)) - np.log(-np.expm1(low - high))
    log_q = np.stack([log_q, other], axis=-1)
    return log_q + np.stack([high, low], axis=-1), log_q


@over("epsilon", EPSILONS)
def test_pure_privacy_concentrates_as_stated_and_no_more(epsilon):
    """Over all pairs on two outputs, which are the worst, and to the last 0.1 %."""
    grid = np.linspace(0, epsilon, 41)[1:]
    worst = concentration(*binary_pairs(*np.meshgrid(grid, -grid))).max()
    assert worst <= zcdp_of_pure(epsilon) * (1 + 1e-6)
    assert worst > zcdp_of_pure(epsilon) * 0.999
    assert zcdp_of_pure(epsilon) <= epsilon**2 / 2 + 1e-15


@over("width", EPSILONS)
def test_a_bounded_range_concentrates_as_stated_and_no_more(width):
    high = width * np.linspace(0, 1, 2001)[1:-1]
    worst = concentration(*binary_pairs(high, high - width)).max()
    assert worst <= zcdp_of_bounded_range(width) * (1 + 1e-6)
    assert worst > zcdp_of_bounded_range(width) * 0.999
    assert zcdp_of_bounded_range(width) <= min(width**2 / 8, zcdp_of_pure(width))


def test_golden_values():
    assert zcdp_of_pure(2 * math.log(3)) == pytest.approx(2 * math.log(3) * 0.8)  # tanh: 8/10
    q = 2 * math.log(2)  # range / (1 - 1/2)
    assert zcdp_of_bounded_range(math.log(2)) == pytest.approx(q - 1 - math.log(q))
    assert zcdp_of_bounded_range(1e-8) == pytest.approx(1e-16 / 8)
    below, above = (zcdp_of_bounded_range(x) for x in (0.999_999e-3, 1.000_001e-3))
    assert below == pytest.approx(above, rel=1e-5)
    # the same conversion in OpenDP: rho = 1/32, delta = 1e-3
    assert approx_of_zcdp(1 / 32, 1e-3) == pytest.approx(0.6880024554878086, rel=1e-12)


@given(
    logits=hnp.arrays(
        np.float64, st.tuples(st.just(2), st.integers(2, 6)), elements=st.floats(-4, 4)
    )
)
def test_both_constants_hold_for_any_pair(logits):
    log_p, log_q = logits - logsumexp(logits, axis=1, keepdims=True)
    loss = np.abs(log_p - log_q).max()
    width = np.ptp(log_p - log_q)
    found = concentration(log_p, log_q)
    # a moment is off by some roundings of its logarithms, and is divided by alpha - 1
    rounded = 16 * np.finfo(float).eps * max(-log_p.min(), -log_q.min()) / (ORDERS[0] - 1)
    assert found <= zcdp_of_pure(loss) + rounded
    assert found <= zcdp_of_bounded_range(width) + rounded


def test_extreme_parameters():
    assert zcdp_of_pure(0) == zcdp_of_bounded_range(0) == 0
    assert zcdp_of_pure(math.inf) == zcdp_of_bounded_range(math.inf) == math.inf
    assert approx_of_zcdp(math.inf, 0.1) == math.inf
    assert approx_of_zcdp(0, 1e-5) == 0
    assert zcdp_of_pure(1e5) == 1e5
    assert zcdp_of_bounded_range(1e5) == pytest.approx(1e5 - math.log(1e5) - 1)


RHOS = st.floats(1e-6, 1e4)
DELTAS = st.floats(1e-15, 0.5)


@given(rho=RHOS, delta=DELTAS)
def test_no_order_gives_less(rho, delta):
    above_one = np.logspace(-6, 9, 4000)
    alpha = 1 + above_one
    terms = rho * alpha, -np.log(alpha * delta) / above_one, np.log(above_one / alpha)
    best = int(sum(terms).argmin())
    rounded = 16 * np.finfo(float).eps * sum(abs(term[best]) for term in terms)
    assert approx_of_zcdp(rho, delta) <= max(0.0, sum(terms)[best]) + rounded


@given(rho=st.floats(1e-3, 1e3), delta=DELTAS)
def test_gaussian_noise_has_the_delta_promised(rho, delta):
    """Gaussian noise is rho-zCDP with D_alpha = rho alpha, and its exact delta is known."""
    epsilon, shift = approx_of_zcdp(rho, delta), math.sqrt(2 * rho)

    def exact(at):
        tail = at + norm.logcdf(-shift / 2 - at / shift)
        return norm.cdf(shift / 2 - at / shift) - math.exp(tail)

    assert exact(epsilon) <= delta * (1 + 1e-9)
    if 1e-9 < delta < 1e-3:  # and not far above it: half would be wrong
        assert exact(epsilon / 2) > delta


@over("value", [-1.0, math.nan, "3", None, True])
def test_bad_parameters_are_refused(value):
    for convert in (zcdp_of_pure, zcdp_of_bounded_range, lambda x: approx_of_zcdp(x, 0.1)):
        with pytest.raises(ParameterError, match=r"expected .* >= 0, got"):
            convert(value)
    with pytest.raises(ParameterError, match="delta"):
        approx_of_zcdp(1.0, value)
