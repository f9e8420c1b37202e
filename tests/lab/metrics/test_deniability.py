"""N_x and S_x by enumeration, the sampler's integers and draws; intervals over texts."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import binomtest
from support.cases import over
from support.contexts import Says
from support.spaces import CASES, drawn_law, random_space, space_of, spaces

import dp_middleware as dp
from dp_middleware.lab import metrics
from dp_middleware.lab.metrics import results
from dp_middleware.mechanisms.drawing import drawer
from dp_middleware.sampling import sampler as sampling

NAMES = ["token-exponential", "custext", "santext-plus", "dyntext", "rantext", "nearest-response"]


@over("name", NAMES)
@settings(max_examples=8)
@given(space=spaces(), draws=st.sampled_from([1, 2, 30]), epsilon=st.sampled_from([0.5, 3.0, 80.0]))
def test_retention_and_set_sizes_are_enumerated(name, space, draws, epsilon):
    mechanism = CASES[name](epsilon)
    law, found = drawn_law(mechanism, space), metrics.retention(mechanism, space)
    kept = np.diag(law)
    assert found.value == pytest.approx(kept.mean(), abs=1e-12)
    assert found.value == pytest.approx(dp.certify(mechanism, space).retention, abs=1e-12)
    assert found.details["maximum"] == pytest.approx(kept.max(), abs=1e-12)
    assert found.details["median"] == pytest.approx(np.median(kept), abs=1e-12)
    assert (found.low, found.high, found.confidence, found.trials) == (found.value,) * 2 + (1.0, 0)
    found = metrics.mapping_set_size(mechanism, space, draws=draws, mass=0.9)
    assert found.value == pytest.approx((1 - (1 - law) ** draws).sum(axis=1).mean(), rel=1e-9)
    sums = np.cumsum(np.sort(law, axis=1)[:, ::-1], axis=1)
    smallest = 1 + (sums < 0.9 - 1e-12).sum(axis=1)
    assert found.details["smallest set"] == pytest.approx(smallest.mean())
    assert found.details["support"] == pytest.approx((law > 0).sum(axis=1).mean())
    assert draws > 1 or found.value == pytest.approx(1.0)


@over("name", NAMES)
@settings(max_examples=8)
@given(space=spaces(), epsilon=st.sampled_from([0.5, 80.0]))
def test_the_cosine_of_tokens_is_enumerated(name, space, epsilon):
    mechanism, law = CASES[name](epsilon), drawn_law(CASES[name](epsilon), space)
    vectors = np.random.default_rng(len(space)).normal(size=(len(space), 3))
    vectors[1:-1] = 0.0  # have none
    first, last = (vectors[k] / np.linalg.norm(vectors[k]) for k in (0, -1))
    own, other = law[0, 0] + law[-1, -1], law[0, -1] + law[-1, 0]
    if own + other:
        found = metrics.token_cosine(mechanism, space, vectors=vectors)
        expected = (own + other * (first @ last)) / (own + other)
        assert found.value == pytest.approx(expected, abs=1e-9)
    with pytest.raises(dp.ParameterError, match="with vectors"):
        metrics.token_cosine(mechanism, space, vectors=0 * vectors)


def test_randomised_response_attains_the_bound():
    space = space_of(np.eye(9))  # all tokens equally far
    mechanism = dp.TokenExponential(epsilon=2.0)
    epsilon = dp.certify(mechanism, space).epsilon
    bound = metrics.retention_bound(epsilon, 9)
    assert metrics.retention(mechanism, space).value == pytest.approx(bound, abs=1e-9)
    assert metrics.retention_bound(0.0, 9) == pytest.approx(1 / 9)
    assert metrics.retention_bound(math.inf, 9) == 1.0
    assert metrics.retention_bound(10.0, 11_000) == pytest.approx(0.667, abs=1e-3)
    with pytest.raises(dp.ParameterError, match="epsilon >= 0"):
        metrics.retention_bound(math.nan, 9)


def test_retention_agrees_with_draws():
    """A share of 20,000 draws is off by 5 * 0.5 / sqrt(20,000) with probability below 1e-6."""
    space, mechanism = random_space(15), dp.RanText(epsilon=3.0)
    raw = [np.arange(15)] * 1000 + [np.array([], dtype=np.int64)] + [np.full(5, 3)] * 1000
    released = drawer(mechanism, space).draw(raw, sampling.insecure_entropy(1))
    exact = metrics.retention(mechanism, space, ids=np.concatenate(raw)).value
    found = metrics.retention_on(raw, released)
    assert found.value == pytest.approx(exact, abs=5 * 0.5 / math.sqrt(20_000))
    assert found.low < exact < found.high
    assert (found.trials, found.details["tokens"]) == (2000, 20_000)


def test_retention_on_by_hand():
    raw, none = [np.array([0, 1, -1]), np.array([2])], [np.array([], dtype=np.int64)]
    found = metrics.retention_on(raw, [np.array([0, 2, 0]), np.array([2])])
    assert found.value == pytest.approx(2 / 4)  # the unknown token counts, and is never kept
    assert found.low <= 0.5 <= found.high
    assert metrics.retention_on(raw[:1], [np.array([0, 1, 2])]).low == 0.0  # one text: no interval
    with pytest.raises(dp.ParameterError, match="for each raw token"):
        metrics.retention_on(raw, [np.array([0]), np.array([2])])
    with pytest.raises(dp.ParameterError, match="without any"):
        metrics.retention_on(none, none)


def test_set_sizes_are_counted_for_mechanisms_without_rows():
    """The interval of 12 tokens holds the exact mean of the same channel with this seed."""
    space, channel = random_space(12), dp.TokenExponential(epsilon=4.0)

    def counted(mechanism, ids, draws, seed, **options):
        entropy = sampling.insecure_entropy(seed)
        return metrics.mapping_set_size_drawn(
            mechanism, space, ids=ids, draws=draws, entropy=entropy, **options
        )

    drawn = counted(channel, np.arange(12), 8, seed=2)
    exact = metrics.mapping_set_size(channel, space, draws=8).value
    assert abs(drawn.value - exact) < 5 * 1.3 / math.sqrt(12)
    assert drawn.trials == 12
    assert counted(dp.DChiStencil(eta=1e4), [1, 4], 40, seed=3).value == 1.0
    assert counted(dp.DChiStencil(eta=0.1), [1, 4], 40, seed=5).value > 3
    assert counted(dp.Stencil(), [1], 5, seed=0).value == 1.0
    flat = Says(raw=lambda ids: np.zeros((len(ids), 12)))
    cape = dp.Cape(epsilon=1e-6, logit_bound=1.0)
    nearly_all = counted(cape, [0, 1, 2], 120, seed=4, context=flat)
    assert nearly_all.value == pytest.approx(12, abs=0.4)  # nearly uniform: (11/12)^120 is 3e-5
    with pytest.raises(dp.ParameterError, match="context="):
        counted(cape, [0], 1, seed=0)


def test_refusals():
    space, channel = random_space(5), dp.SanText(epsilon=1.0)
    for metric in (metrics.retention, metrics.mapping_set_size):
        with pytest.raises(dp.ParameterError, match="retention_on"):
            metric(dp.MetricNoise(eta=1.0), space)
        for ids, said in (([], "at least one token"), ([5], r"0 \.\. 4")):
            with pytest.raises(dp.ParameterError, match=said):
                metric(channel, space, ids=ids)
    for name, value in (("draws", 0), ("mass", 1.0)):
        with pytest.raises(dp.ParameterError, match=name):
            metrics.mapping_set_size(channel, space, **{name: value})


def test_it_covers_the_true_rate_of_texts_that_differ():
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
    assert results.rate_interval([3], [10]) == (0.0, 1.0)  # of one text nothing is known
    for rate in (0, 1):  # without spread
        low, high = results.rate_interval([rate * 30] * 50, [30] * 50)
        assert (low == 0.0, high == 1.0) == (not rate, bool(rate))
        assert 0.05 < high - low < 0.1


def test_a_mean_is_a_ratio_and_may_be_anything():
    values = np.random.default_rng(0).normal(-3.0, 1.0, 100)
    low, high = results.ratio_interval(values, np.ones(100))
    assert low < values.mean() < high
    assert high - low == pytest.approx(2 * 1.96 * values.std() / 10, rel=0.2)
    assert results.ratio_interval([2.0] * 3, [4.0] * 3) == (0.5, 0.5)
