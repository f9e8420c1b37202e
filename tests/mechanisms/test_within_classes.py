"""A channel kept inside public classes: the inner law given the class."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.cases import over
from support.spaces import CASES, host_rows, random_space, space_of, spaces

import dp_middleware as dp
from dp_middleware.certification.enumeration import classes_of

EPSILONS = st.sampled_from([0.5, 2.0, 8.0])


@st.composite
def cases(draw):
    """A space, and a label per token, sometimes one for the unknown symbol too."""
    space = draw(spaces())
    count = len(space) + draw(st.sampled_from([0, 1]))
    labels = draw(st.lists(st.sampled_from("abc"), min_size=count, max_size=count))
    return space, tuple(labels)


def within(inner, labels):
    return dp.WithinClasses(mechanism=inner, classes=labels)


def rows_of(mechanism, space):
    ids = [*range(len(space)), *([-1] if space.vocabulary.has_unknown_symbol else [])]
    return host_rows(mechanism, np.array(ids), space)


def brute_force(mechanism, space, labels):
    """The largest loss between two inputs of one class."""
    rows, worst = rows_of(mechanism, space), 0.0
    for members in classes_of(space, dp.Adjacency.within(labels)):
        own = rows[members]
        for first in own:
            possible = np.isfinite(first)
            if (~np.isfinite(own[:, possible])).any():
                return math.inf
            worst = max(worst, float((first[possible] - own[:, possible]).max()))
    return worst


@over("name", CASES)
@settings(max_examples=5, deadline=None)
@given(case=cases(), epsilon=EPSILONS)
def test_the_law_is_the_inner_one_given_the_class(name, case, epsilon):
    space, labels = case
    inner = CASES[name](epsilon)
    rows = np.exp(within(inner, labels).log_probs(np.arange(len(space)), space))
    given_x = np.exp(inner.log_probs(np.arange(len(space)), space))
    same = np.equal.outer(labels[: len(space)], labels[: len(space)])
    restricted = np.where(same, given_x, 0.0)
    total = restricted.sum(axis=1, keepdims=True)
    reached = total[:, 0] > 0
    np.testing.assert_allclose(rows[reached], (restricted / total)[reached], rtol=1e-9)
    uniform = same / same.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(rows[~reached], uniform[~reached], rtol=1e-12)
    assert (rows[~same] == 0).all()


@over("name", CASES)
@settings(max_examples=5, deadline=None)
@given(case=cases(), epsilon=EPSILONS)
def test_the_exact_loss_is_the_brute_force_one(name, case, epsilon):
    space, labels = case
    mechanism = within(CASES[name](epsilon), labels)
    certificate = dp.certify(mechanism, space, adjacency=mechanism.adjacency)
    assert certificate.epsilon == pytest.approx(brute_force(mechanism, space, labels), abs=1e-6)


@over("name", [name for name in CASES if CASES[name].proved])
@settings(max_examples=5, deadline=None)
@given(case=cases(), epsilon=EPSILONS)
def test_at_most_twice_the_inner_loss(name, case, epsilon):
    space, labels = case
    mechanism = within(CASES[name](epsilon), labels)
    twice = 2 * dp.certify(mechanism.mechanism, space).epsilon
    certificate = dp.certify(mechanism, space, adjacency=mechanism.adjacency)
    assert certificate.epsilon <= min(twice, certificate.claimed) + 1e-6


@settings(max_examples=40, deadline=None)
@given(case=cases(), epsilon=EPSILONS)
def test_the_exponential_mechanism_keeps_its_epsilon(case, epsilon):
    space, labels = case
    mechanism = within(dp.TokenExponential(epsilon=epsilon), labels)
    found = dp.certify(mechanism, space, adjacency=mechanism.adjacency)
    assert found.epsilon <= epsilon + 1e-9


def test_across_classes_the_loss_is_infinite():
    space = random_space(tokens=6)
    mechanism = within(dp.TokenExponential(epsilon=1.0), "aaabbb")
    assert dp.certify(mechanism, space).epsilon == math.inf
    assert math.isfinite(dp.certify(mechanism, space, adjacency=mechanism.adjacency).epsilon)
    with pytest.raises(dp.InfiniteEpsilon):
        dp.Sanitizer(mechanism, space)
    with pytest.raises(dp.CannotCalibrate):
        dp.calibrate(mechanism, space, 1.0)


def test_where_the_inner_one_reaches_nothing_the_class_is_drawn_from_uniformly():
    space = space_of([[0.0], [0.1], [5.0], [5.1]])
    inner = dp.NearestResponse(epsilon=1.0, candidates=1, codebook=(0, 1))
    mechanism = within(inner, (0, 0, 1, 1, 1))
    rows = np.exp(host_rows(mechanism, np.array([2, 3, -1]), space))
    np.testing.assert_allclose(rows, [[0, 0, 0.5, 0.5]] * 3)
    found = dp.certify(mechanism, space, adjacency=mechanism.adjacency)
    assert found.epsilon <= 2.0 + 1e-9


def test_an_unknown_symbol_with_a_label_is_released_within_its_class():
    space = random_space(tokens=6)
    mechanism = within(dp.TokenExponential(epsilon=1.0), "aaabbbb")
    row = np.exp(host_rows(mechanism, np.array([-1]), space))[0]
    np.testing.assert_allclose(row, [0, 0, 0, 1 / 3, 1 / 3, 1 / 3])
    unlabelled = within(dp.TokenExponential(epsilon=1.0), "aaabbb")
    row = np.exp(host_rows(unlabelled, np.array([-1]), space))[0]
    np.testing.assert_allclose(row, np.full(6, 1 / 6))


@settings(max_examples=10, deadline=None)
@given(epsilon=st.sampled_from([0.1, 1.0, 5.0, 12.0]), seed=st.integers(0, 3))
def test_calibration_comes_close_from_below(epsilon, seed):
    space = random_space(tokens=20, seed=seed)
    mechanism = within(dp.TokenExponential(epsilon=1.0), [k % 3 for k in range(21)])
    found = dp.calibrate(mechanism, space, epsilon, adjacency=mechanism.adjacency)
    exact = dp.certify(found, space, adjacency=mechanism.adjacency).epsilon
    assert 0.998 * epsilon <= exact <= epsilon
    assert found.classes == mechanism.classes


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_a_metric_channel_within_classes_is_calibrated_at_any_scale(scale):
    space = space_of(scale * random_space(tokens=60, seed=2).vectors)
    mechanism = within(dp.SanText(epsilon=1.0), [k % 3 for k in range(61)])
    found = dp.calibrate(mechanism, space, 3.0, adjacency=mechanism.adjacency)
    certificate = dp.certify(found, space, adjacency=mechanism.adjacency)
    assert 0.998 * 3.0 <= certificate.epsilon <= 3.0
    assert certificate.claimed == 2 * found.nominal  # per unit of distance
    assert certificate.metric is None  # of substitution only


def test_one_class_of_all_tokens_keeps_the_metric_guarantee():
    space, inner = random_space(tokens=20), dp.SanText(epsilon=2.0)
    mechanism = within(inner, ["all"] * 21)
    assert dp.certify(mechanism, space).metric == dp.certify(inner, space).metric


def test_what_cannot_be_kept_in_classes_is_refused():
    with pytest.raises(dp.ParameterError, match="as a channel"):
        within(dp.MetricNoise(eta=1.0), "ab")
    with pytest.raises(dp.ParameterError, match="hashed"):
        within(dp.TokenExponential(epsilon=1.0), [[0], [1]])
    with pytest.raises(dp.ParameterError, match="expected 5 class labels, one per token, got 3"):
        within(dp.TokenExponential(epsilon=1.0), "aab").log_probs([0], random_space(tokens=5))


def test_the_default_has_the_shipped_classes():
    space = random_space(tokens=5)
    mechanism = dp.WithinClasses.with_defaults(2.0, space)
    assert mechanism.classes == dp.token_classes(space.vocabulary)
    assert mechanism.mechanism == dp.TokenExponential(epsilon=2.0)
