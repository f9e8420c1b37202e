"""N_x and S_x: exact against enumeration, against the sampler's own integers and against draws."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.cases import over
from support.spaces import CASES, drawn_law, random_space, space_of, spaces

import dp_middleware as dp
from dp_middleware.lab import metrics
from dp_middleware.mechanisms.drawing import drawer
from dp_middleware.sampling import sampler as sampling

NAMES = ["token-exponential", "custext", "santext-plus", "dyntext", "rantext", "nearest-response"]


@over("name", NAMES)
@settings(max_examples=8)
@given(space=spaces(), epsilon=st.sampled_from([0.5, 3.0, 80.0]))
def test_retention_is_enumerated_and_the_certificates(name, space, epsilon):
    mechanism = CASES[name](epsilon)
    found = metrics.retention(mechanism, space)
    kept = np.diag(drawn_law(mechanism, space))
    assert found.value == pytest.approx(kept.mean(), abs=1e-12)
    assert found.value == pytest.approx(dp.certify(mechanism, space).retention, abs=1e-12)
    assert found.details["maximum"] == pytest.approx(kept.max(), abs=1e-12)
    assert found.details["median"] == pytest.approx(np.median(kept), abs=1e-12)
    assert found.low == found.high == found.value
    assert (found.confidence, found.trials) == (1.0, 0)


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


@over("name", NAMES)
@settings(max_examples=8)
@given(space=spaces(), draws=st.sampled_from([1, 2, 30]), epsilon=st.sampled_from([0.5, 80.0]))
def test_mapping_set_sizes_are_enumerated(name, space, draws, epsilon):
    mechanism = CASES[name](epsilon)
    found = metrics.mapping_set_size(mechanism, space, draws=draws, mass=0.9)
    distinct, smallest, support = [], [], []
    for row in drawn_law(mechanism, space):
        distinct.append(sum(1 - (1 - p) ** draws for p in row))
        running, count = 0.0, 0
        for p in sorted(row, reverse=True):
            if running < 0.9 - 1e-12:
                running, count = running + p, count + 1
        smallest.append(count)
        support.append(sum(p > 0 for p in row))
    assert found.value == pytest.approx(np.mean(distinct), rel=1e-9)
    assert found.details["smallest set"] == pytest.approx(np.mean(smallest))
    assert found.details["support"] == pytest.approx(np.mean(support))
    if draws == 1:
        assert found.value == pytest.approx(1.0)


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
    raw = [np.array([0, 1, -1]), np.array([2])]
    found = metrics.retention_on(raw, [np.array([0, 2, 0]), np.array([2])])
    assert found.value == pytest.approx(2 / 4)  # the unknown token counts, and is never kept
    assert found.low <= 0.5 <= found.high
    assert metrics.retention_on(raw[:1], [np.array([0, 1, 2])]).low == 0.0  # one text: no interval
    with pytest.raises(dp.ParameterError, match="for each raw token"):
        metrics.retention_on(raw, [np.array([0]), np.array([2])])
    with pytest.raises(dp.ParameterError, match="without any"):
        metrics.retention_on([np.array([], dtype=np.int64)], [np.array([], dtype=np.int64)])


def test_set_sizes_are_counted_for_mechanisms_without_rows():
    """The interval of 12 tokens holds the exact mean of the same channel with this seed."""
    space = random_space(12)
    channel = dp.TokenExponential(epsilon=4.0)
    drawn = metrics.mapping_set_size_drawn(
        channel, space, ids=np.arange(12), draws=8, entropy=sampling.insecure_entropy(2)
    )
    exact = metrics.mapping_set_size(channel, space, draws=8).value
    assert abs(drawn.value - exact) < 5 * 1.3 / math.sqrt(12)
    assert drawn.trials == 12
    silent, loud = (
        metrics.mapping_set_size_drawn(
            dp.DChiStencil(eta=eta), space, ids=[1, 4], draws=40, entropy=entropy
        ).value
        for eta, entropy in (
            (1e4, sampling.insecure_entropy(3)),
            (0.1, sampling.insecure_entropy(5)),
        )
    )
    assert silent == 1.0
    assert loud > 3
    assert metrics.mapping_set_size_drawn(dp.Stencil(), space, ids=[1], draws=5).value == 1.0


class _Flat:
    """A context without any opinion."""

    def blocks(self, ids, space, rows):
        yield np.zeros((len(ids), len(space)))


def test_set_sizes_are_counted_for_contextual_mechanisms():
    space = random_space(6)
    cape = dp.Cape(epsilon=1e-6, logit_bound=1.0)
    found = metrics.mapping_set_size_drawn(
        cape, space, ids=[0, 1, 2], draws=60, context=_Flat(), entropy=sampling.insecure_entropy(4)
    )
    assert found.value == pytest.approx(6, abs=0.4)  # nearly uniform: (5/6)^60 is 2e-5
    with pytest.raises(dp.ParameterError, match="context="):
        metrics.mapping_set_size_drawn(cape, space, ids=[0])


def test_refusals():
    space = random_space(5)
    for metric in (metrics.retention, metrics.mapping_set_size):
        with pytest.raises(dp.ParameterError, match="retention_on, mapping_set_size_drawn"):
            metric(dp.MetricNoise(eta=1.0), space)
        with pytest.raises(dp.ParameterError, match="at least one token"):
            metric(dp.SanText(epsilon=1.0), space, ids=[])
        with pytest.raises(dp.ParameterError, match=r"0 \.\. 4"):
            metric(dp.SanText(epsilon=1.0), space, ids=[5])
    with pytest.raises(dp.ParameterError, match="draws"):
        metrics.mapping_set_size(dp.SanText(epsilon=1.0), space, draws=0)
    with pytest.raises(dp.ParameterError, match="mass"):
        metrics.mapping_set_size(dp.SanText(epsilon=1.0), space, mass=1.0)
