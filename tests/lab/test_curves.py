"""Delta curves, ranges and zero-concentration against brute force and closed forms."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp
from support.cases import over
from support.spaces import CASES, random_space, space_of, spaces

import dp_middleware as dp
from dp_middleware.lab import curves as profile
from dp_middleware.lab.curves import delta_curve
from dp_middleware.mechanisms import ChannelMechanism
from dp_middleware.mechanisms.nearest_response import NearestResponse
from dp_middleware.sampling import sampler

GRID = [0.0, 0.3, 1.0, 2.5, 6.0, 40.0, math.inf]
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


def brute_force(rows, epsilon):
    largest = 0.0
    for p in rows:
        for q in rows:
            scaled = np.where(q > 0, math.exp(min(epsilon, 500.0)) * q, 0.0)
            largest = max(largest, np.maximum(p - scaled, 0.0).sum())
    return largest


@over("name", CASES)
@settings(max_examples=10)
@given(space=spaces(max_tokens=7), epsilon=st.sampled_from([0.5, 3.0, 20.0]))
def test_the_exact_curve_is_the_brute_force_one(name, space, epsilon):
    mechanism = CASES[name](epsilon)
    curve = delta_curve(mechanism, space, GRID)
    rows = probabilities(mechanism, space)
    assert curve.method == "exact"
    for at, delta in zip(curve.epsilons, curve.deltas, strict=True):
        expected = brute_force(rows, at)
        assert expected - 1e-15 * len(space) <= delta <= expected + SLACK


@over("name", CASES)
def test_the_bound_is_above_the_exact_curve_and_both_fall_to_zero(name):
    space, mechanism = random_space(tokens=70, dimensions=3, seed=4), CASES[name](3.0)
    loss = dp.certify(mechanism, space).epsilon
    grid = [*np.linspace(0, 8, 17), min(loss, 30.0)]
    exact = delta_curve(mechanism, space, grid, method="exact")
    bound = delta_curve(mechanism, space, grid, method="bound")
    assert (exact.method, bound.method) == ("exact", "bound")
    for curve in (exact, bound):
        assert (np.diff(curve.deltas[:17]) <= 0).all()
        assert max(curve.deltas) <= 1
    assert all(e <= b + 1e-15 for e, b in zip(exact.deltas, bound.deltas, strict=True))
    if math.isfinite(loss):
        assert bound.deltas[-1] <= 1e-12
        assert bound.deltas[0] <= math.tanh(loss / 2) + 1e-9
    else:
        assert exact.deltas[-1] > 0


@given(drawn=channels())
def test_the_bound_holds_for_any_channel(drawn):
    grid = [0.0, 0.2, 1.0, 3.0, 9.0]
    exact = delta_curve(*drawn, grid, method="exact")
    bound = delta_curve(*drawn, grid, method="bound")
    assert all(e <= b + SLACK for e, b in zip(exact.deltas, bound.deltas, strict=True))


@given(drawn=channels())
def test_delta_at_the_certified_loss_is_zero_and_positive_below(drawn):
    loss = dp.certify(*drawn).epsilon
    at, below = delta_curve(*drawn, [loss, 0.9 * loss]).deltas
    assert at <= 1e-12
    assert loss < 1e-6 or below > 1e-9


@over("epsilon, size", [(0.5, 2), (2.0, 3), (8.0, 40)])
@over("method", ["exact", "bound"])
def test_randomised_response_has_its_closed_form(epsilon, size, method):
    """delta(e) = (e^epsilon - e^e) / (e^epsilon + V - 1), also where the bound is used."""
    mechanism = NearestResponse(epsilon=epsilon, candidates=1, codebook=None)
    space = random_space(tokens=size, seed=1)
    grid = epsilon * np.linspace(0, 1, 9)
    expected = (math.exp(epsilon) - np.exp(grid)) / (math.exp(epsilon) + size - 1)
    deltas = np.array(delta_curve(mechanism, space, grid, method=method).deltas)
    assert (deltas >= expected - 1e-15).all()
    assert (deltas <= expected + 5e-11).all()  # 1e-11 on each probability is the stated slack


def test_the_slack_is_what_recomputation_may_change_and_no_more(monkeypatch):
    """Without the allowance the closed form is met to 1e-12; with it delta is above."""
    space = random_space(tokens=12, seed=1)
    mechanism = NearestResponse(epsilon=2.0, candidates=1, codebook=None)
    expected = (math.exp(2) - math.e) / (math.exp(2) + 11)
    assert delta_curve(mechanism, space, [1.0]).deltas[0] > expected + 1e-12
    monkeypatch.setattr(profile, "RECOMPUTED", 0.0)
    assert delta_curve(mechanism, space, [1.0]).deltas[0] == pytest.approx(expected, abs=1e-12)


def test_rows_on_another_device_stay_below_the_curve():
    """ln P moved by 1e-11 the worst way, then rounded: the curve covers it."""
    mechanism, space = channel(np.random.default_rng(0).normal(scale=3, size=(8, 8)))
    rows = probabilities(mechanism, space)
    curve = delta_curve(mechanism, space, [0.0, 1.0, 3.0])
    for at, delta in zip(curve.epsilons, curve.deltas, strict=True):
        worst = max(
            np.maximum(p * (1 + 1e-11) - math.exp(at) * q * (1 - 1e-11), 0).sum()
            for p in rows
            for q in rows
        )
        assert brute_force(rows, at) < worst <= delta


def test_where_supports_differ_delta_never_reaches_zero():
    space = random_space(tokens=20, seed=2)
    mechanism = dp.CusText(epsilon=3.0, candidates=5)
    across = delta_curve(mechanism, space, [1.0, 100.0, 1e6, math.inf])
    assert across.deltas[-1] == pytest.approx(1.0)  # two classes share no output
    lists = dp.CusTextAggressive(epsilon=3.0, candidates=5)
    partial = delta_curve(lists, space, GRID)
    assert partial.deltas[-1] > 0
    assert partial.deltas[-1] == pytest.approx(brute_force(probabilities(lists, space), 500.0))


def test_within_classes_only_members_are_compared():
    space = random_space(tokens=20, seed=2)
    mechanism = dp.CusText(epsilon=3.0, candidates=5)
    labels = mechanism.classes(space)
    adjacency = dp.Adjacency.within(labels)
    rows = probabilities(mechanism, space)
    expected = max(brute_force(rows[:-1][np.array(labels) == k], 0.5) for k in set(labels))
    for method in ("exact", "bound"):
        curve = delta_curve(mechanism, space, [0.5, 3.0], adjacency=adjacency, method=method)
        assert expected - 1e-15 <= curve.deltas[0] < 1
        assert curve.deltas[1] <= 1e-9
    exact = delta_curve(mechanism, space, [0.5], adjacency=adjacency)
    assert exact.deltas[0] == pytest.approx(expected, abs=SLACK)
    alone = dp.Adjacency.within(range(20))
    assert delta_curve(mechanism, space, [0.0], adjacency=alone).deltas == (0.0,)


def test_a_dropped_token_reveals_itself():
    mechanism, space = dp.TokenExponential(epsilon=1.0), random_space(tokens=6, unknown="drop")
    assert delta_curve(mechanism, space, [0.0, 9.0]).deltas == (1.0, 1.0)
    known = dp.Adjacency.within([0] * 6)  # whether a token is known is public
    assert delta_curve(mechanism, space, [9.0], adjacency=known).deltas[0] == 0


def test_the_size_decides_and_the_sparse_tail_is_kept():
    """128-bit rows: probabilities far below 2^-64 still count."""
    mechanism, space = channel([[0.0, -60.0], [-60.0, 0.0]], unknown="raise")
    loss = dp.certify(mechanism, space).epsilon
    assert loss == pytest.approx(60.0)
    for method in ("exact", "bound"):
        curve = delta_curve(mechanism, space, [0.0, 59.0, loss], method=method)
        assert curve.deltas[1] == pytest.approx(1 - math.exp(-1), rel=1e-6)
        assert curve.deltas[2] <= 1e-12
    big = [np.arange(2000)]
    assert not profile._is_small(big, random_space(tokens=2000))
    assert profile._is_small([np.arange(1025)], random_space(tokens=1024))


@pytest.mark.parametrize("epsilons", [[-1.0], [math.nan], 1.0, [[1.0]]])
def test_bad_epsilons_are_refused(epsilons):
    with pytest.raises(dp.ParameterError, match="expected epsilons"):
        delta_curve(dp.TokenExponential(epsilon=1.0), random_space(), epsilons)


def test_bad_arguments_are_refused():
    mechanism, space = dp.TokenExponential(epsilon=1.0), random_space()
    with pytest.raises(dp.ParameterError, match="method"):
        delta_curve(mechanism, space, [1.0], method="guess")
    with pytest.raises(dp.ParameterError, match="class labels"):
        delta_curve(mechanism, space, [1.0], adjacency=dp.Adjacency.within([1, 2]))
    with pytest.raises(dp.ParameterError, match="expected a channel mechanism"):
        delta_curve("token-exponential", space, [1.0])
