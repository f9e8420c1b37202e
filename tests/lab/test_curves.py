"""Ranges and zero-concentration against brute force and closed forms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import logsumexp
from support.spaces import CASES, random_space, space_of

import dp_middleware as dp
from dp_middleware.lab import curves as profile
from dp_middleware.lab.curves import bounded_range, zcdp
from dp_middleware.mechanisms import ChannelMechanism
from dp_middleware.mechanisms.nearest_response import NearestResponse
from dp_middleware.privacy.conversions import approx_of_zcdp, zcdp_of_bounded_range, zcdp_of_pure
from dp_middleware.sampling import sampler

ORDERS = 1 + np.logspace(-3, 2, 60)
SLACK = 1e-10


@dataclass(frozen=True, kw_only=True)
class Given(ChannelMechanism):
    """A channel of given scores, -inf where an output is impossible."""

    name: ClassVar[str] = "given"
    epsilon: float = 1.0
    scores: tuple[tuple[float, ...], ...]

    def log_probs(self, ids, space):
        return sampler.log_softmax(np.array(self.scores)[space.checked(ids)])


def channel(scores, **options):
    """The channel and a space of as many tokens."""
    mechanism = Given(scores=tuple(map(tuple, np.asarray(scores).tolist())))
    return mechanism, space_of(np.arange(len(scores))[:, None], **options)


@st.composite
def channels(draw):
    size = draw(st.integers(1, 6))
    numbers = st.one_of(st.just(0.0), st.floats(-8, 8).map(lambda x: round(x, 2)))
    scores = draw(hnp.arrays(np.float64, (size, size), elements=numbers))
    return channel(scores, unknown=draw(st.sampled_from(["uniform", "raise"])))


def probabilities(mechanism, space):
    rows = np.exp(mechanism.log_probs(np.arange(len(space)), space))
    if space.vocabulary.has_unknown_symbol:
        rows = np.vstack([rows, np.full(len(space), 1 / len(space))])
    return rows


def test_the_slack_is_what_recomputation_may_change_and_no_more(monkeypatch):
    """Without the allowance the closed form is met to 1e-12; with it the range is above."""
    from dp_middleware.lab import _bounds

    space = random_space(tokens=12, seed=1)
    mechanism = NearestResponse(epsilon=2.0, candidates=1, codebook=None)
    assert bounded_range(mechanism, space) > 4.0 + 1e-12
    monkeypatch.setattr(_bounds, "RECOMPUTED", 0.0)
    assert bounded_range(mechanism, space) == pytest.approx(4.0, abs=1e-12)


def test_rows_on_another_device_stay_within_the_range():
    """ln P moved by 1e-11 the worst way on both sides: the range covers it."""
    mechanism, space = channel(np.random.default_rng(0).normal(scale=3, size=(8, 8)))
    logs = np.log(probabilities(mechanism, space))
    widest = max(np.ptp(p - q) for p in logs for q in logs)
    assert widest + 4e-11 <= bounded_range(mechanism, space) <= widest + 1e-9


def test_where_supports_differ_nothing_adds_up():
    space = random_space(tokens=20, seed=2)
    mechanism = dp.CusText(epsilon=3.0, candidates=5)
    assert math.isinf(bounded_range(mechanism, space))
    assert math.isinf(zcdp(mechanism, space))


def test_within_classes_only_members_are_compared():
    space = random_space(tokens=20, seed=2)
    mechanism = dp.CusText(epsilon=3.0, candidates=5)
    adjacency = dp.Adjacency.within(mechanism.classes(space))
    assert 0 < bounded_range(mechanism, space, adjacency=adjacency) <= 3.0 + SLACK
    assert zcdp(mechanism, space, adjacency=adjacency) <= zcdp_of_bounded_range(3.0) + SLACK
    alone = dp.Adjacency.within(range(20))
    assert bounded_range(mechanism, space, adjacency=alone) == 0.0


def test_a_dropped_token_reveals_itself():
    mechanism, space = dp.TokenExponential(epsilon=1.0), random_space(tokens=6, unknown="drop")
    assert math.isinf(bounded_range(mechanism, space))
    assert math.isinf(zcdp(mechanism, space))
    known = dp.Adjacency.within([0] * 6)  # whether a token is known is public
    assert zcdp(mechanism, space, adjacency=known) <= 1 / 8


def test_the_size_decides_and_the_sparse_tail_is_kept():
    """128-bit rows: probabilities far below 2^-64 still count."""
    mechanism, space = channel([[0.0, -60.0], [-60.0, 0.0]], unknown="raise")
    loss = dp.certify(mechanism, space).epsilon
    assert loss == pytest.approx(60.0)
    assert bounded_range(mechanism, space) == pytest.approx(120.0)
    big = [np.arange(2000)]
    assert not profile._is_small(big, random_space(tokens=2000))
    assert profile._is_small([np.arange(1025)], random_space(tokens=1024))


@given(drawn=channels())
def test_the_exact_range_is_the_brute_force_one(drawn):
    rows = np.log(probabilities(*drawn))
    expected = max(np.ptp(p - q) for p in rows for q in rows)
    assert bounded_range(*drawn) == pytest.approx(expected, abs=1e-5)
    assert bounded_range(*drawn) >= expected - 1e-9


def forced_bound(monkeypatch):
    monkeypatch.setattr(profile, "EXACT_UP_TO", 0)


@pytest.mark.parametrize("name", ["token-exponential", "custext-strict", "rantext-strict"])
@pytest.mark.parametrize("epsilon", [1.0, 6.0])
def test_scores_in_the_unit_interval_have_a_range_of_epsilon(name, epsilon, monkeypatch):
    """Mixtures over a random radius too; so rho is a fraction of what the loss alone gives."""
    space, mechanism = random_space(tokens=30, seed=3), CASES[name](epsilon)
    exact = bounded_range(mechanism, space)
    forced_bound(monkeypatch)
    bound = bounded_range(mechanism, space)
    assert exact <= bound + 1e-12
    assert bound <= epsilon + 1e-6
    assert zcdp(mechanism, space) <= zcdp_of_bounded_range(epsilon + 1e-6)
    assert zcdp(mechanism, space) < zcdp_of_pure(epsilon) / 1.5


def test_two_levels_have_twice_the_range():
    mechanism = NearestResponse(epsilon=2.0, candidates=1, codebook=None)
    space = random_space(tokens=10, seed=1)
    assert bounded_range(mechanism, space) == pytest.approx(4.0, abs=1e-6)
    assert zcdp(mechanism, space) == pytest.approx(zcdp_of_pure(2.0), rel=1e-6)


def divergences(rows, alpha):
    """D_alpha of all ordered pairs, nats."""
    logs = np.log(rows)
    moments = logsumexp(alpha * logs[:, None] + (1 - alpha) * logs[None, :], axis=-1)
    return moments / (alpha - 1)


@pytest.mark.slow
@given(drawn=channels())
def test_every_pair_is_as_concentrated_as_stated(drawn):
    rows = probabilities(*drawn)
    constants = [
        zcdp(*drawn),
        zcdp_of_pure(dp.certify(*drawn).epsilon),
        zcdp_of_bounded_range(bounded_range(*drawn)),
    ]
    worst = max((divergences(rows, alpha) / alpha).max() for alpha in ORDERS)
    assert worst <= min(constants) + 1e-9


def test_a_rho_too_small_is_caught():
    """Binary randomised response attains the pure constant, so 1 % less fails."""
    mechanism, space = channel([[2.0, 0.0], [0.0, 2.0]], unknown="raise")
    worst = max((divergences(probabilities(mechanism, space), a) / a).max() for a in ORDERS)
    assert 0.99 * zcdp(mechanism, space) < worst <= zcdp(mechanism, space)


def test_many_releases_cost_less_than_their_sum():
    space, mechanism = random_space(tokens=30, seed=3), dp.TokenExponential(epsilon=1.0)
    together = approx_of_zcdp(1000 * zcdp(mechanism, space), 1e-6)
    assert together < 1000 * dp.certify(mechanism, space).epsilon / 2.5


def test_bad_arguments_are_refused():
    mechanism, space = dp.TokenExponential(epsilon=1.0), random_space()
    for function in (bounded_range, zcdp):
        with pytest.raises(dp.ParameterError, match="class labels"):
            function(mechanism, space, adjacency=dp.Adjacency.within([1, 2]))
        with pytest.raises(dp.ParameterError, match="expected a channel mechanism"):
            function("token-exponential", space)
