"""The Bayes attack: exact, beaten by nobody, and under the bound of the certificate."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.cases import over
from support.laws import laws_of
from support.spaces import CASES, drawn_law, random_space, spaces

import dp_middleware as dp
from dp_middleware.lab import attacks
from dp_middleware.lab.attacks._guesses import _places
from dp_middleware.mechanisms.drawing import drawer
from dp_middleware.sampling import sampler

EPSILONS = st.floats(0.1, 12.0)


@st.composite
def priors(draw, size):
    """Laws over the tokens, some of probability zero."""
    weights = np.array(draw(st.lists(st.integers(0, 9), min_size=size, max_size=size)), float)
    weights[draw(st.integers(0, size - 1))] += 1.0
    return weights / weights.sum()


@st.composite
def channels(draw):
    """(mechanism, space, prior)."""
    space = draw(spaces())
    mechanism = CASES[draw(st.sampled_from(sorted(CASES)))](draw(EPSILONS))
    return mechanism, space, draw(priors(len(space)))


def best_sets(rows, prior, top):
    """By brute force: for each output the largest sum of ``top`` joint probabilities."""
    joint = np.sort(prior[:, None] * rows, axis=0)[::-1]
    return joint[:top].sum()


@given(channels(), st.integers(1, 10))
@settings(max_examples=30)
def test_the_rate_is_the_sum_of_the_largest_joint_probabilities(channel, top):
    mechanism, space, prior = channel
    found = attacks.bayes(mechanism, space, prior=prior, top=top)
    assert found.rate == pytest.approx(best_sets(laws_of(mechanism, space), prior, top), abs=1e-12)
    assert (found.low, found.high, found.confidence, found.trials) == (found.rate,) * 2 + (1.0, 0)


@given(spaces(), st.sampled_from(sorted(CASES)), EPSILONS)
@settings(max_examples=20)
def test_with_the_uniform_prior_it_is_the_recovery_of_the_certificate(space, name, epsilon):
    mechanism = CASES[name](epsilon)
    certificate = dp.certify(mechanism, space)
    assert attacks.bayes(mechanism, space).rate == pytest.approx(certificate.recovery, abs=1e-12)


@given(channels(), st.data())
@settings(max_examples=30)
def test_no_context_free_attack_beats_it(channel, data):
    """Any map from the released token to a guess, and embedding inversion with k guesses."""
    mechanism, space, prior = channel
    rows, size = laws_of(mechanism, space), len(space)
    guesses = np.array(data.draw(st.lists(st.integers(0, size - 1), min_size=size, max_size=size)))
    success = (prior[guesses] * rows[guesses, np.arange(size)]).sum()
    assert success <= attacks.bayes(mechanism, space, prior=prior).rate + 1e-12
    for top in (1, 2, size):
        success = (prior[:, None] * rows * inverted(space, top)).sum()
        assert success <= attacks.bayes(mechanism, space, prior=prior, top=top).rate + 1e-12


def inverted(space, top):
    """Which tokens (rows) embedding inversion names for which release (columns), (V, V)."""
    size = len(space)
    _, by_id = _places(*np.indices((size, size)).reshape(2, -1), space)
    named = by_id.reshape(size, size) <= top
    assert (named.sum(axis=0) == min(top, size)).all()  # k guesses, not more
    return named


@given(channels(), st.integers(1, 4))
@settings(max_examples=30)
def test_it_stays_under_the_bound_of_the_certificate(channel, top):
    mechanism, space, prior = channel
    certificate = dp.certify(mechanism, space)
    bound = attacks.recovery_bound(certificate, space, prior=prior, top=top)
    rate = attacks.bayes(mechanism, space, prior=prior, top=top).rate
    likeliest = np.sort(prior)[::-1][:top].sum()
    assert min(1.0, likeliest) - 1e-12 <= rate <= bound + 1e-12
    assert bound <= min(1.0, math.exp(min(700.0, certificate.epsilon)) * likeliest) + 1e-12


@given(channels(), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=20)
def test_within_classes_it_stays_under_the_mean_of_the_bounds(channel, top, count):
    mechanism, space, prior = channel
    adjacency = dp.Adjacency.within([k % count for k in range(len(space))])
    certificate = dp.certify(mechanism, space, adjacency=adjacency)
    bound = attacks.recovery_bound(certificate, space, prior=prior, top=top)
    assert attacks.bayes(mechanism, space, prior=prior, top=top).rate <= bound + 1e-12


def test_randomised_response_attains_the_bound():
    """So the bound cannot be lowered."""
    space = random_space(tokens=20, unknown="raise")
    mechanism = dp.NearestResponse(epsilon=3.0, candidates=1)
    certificate = dp.certify(mechanism, space)
    bound = attacks.recovery_bound(certificate, space)
    assert bound == pytest.approx(math.exp(3.0) / (math.exp(3.0) + 19), rel=1e-9)
    assert attacks.bayes(mechanism, space).rate == pytest.approx(bound, rel=1e-9)


def test_a_certificate_that_says_too_little_is_contradicted():
    """A wrong certificate does not pass: the attack is above its bound."""
    space = random_space(tokens=30)
    mechanism = dp.CusText(epsilon=3.0, candidates=3)  # claims 3; across classes infinite
    honest = dp.certify(mechanism, space)
    claimed = dataclasses.replace(honest, epsilon=3.0)
    rate = attacks.bayes(mechanism, space).rate
    assert attacks.recovery_bound(claimed, space) < rate
    assert attacks.recovery_bound(honest, space) == 1.0


def test_blocks_and_codebooks_change_nothing():
    space = random_space(tokens=150, seed=4)
    codebook = tuple(range(3, 60, 7))
    prior = np.arange(1.0, 151.0) / np.arange(1.0, 151.0).sum()
    for mechanism in (
        dp.TokenExponential(epsilon=9.0),
        dp.NearestResponse(epsilon=2.0, candidates=2, codebook=codebook),
    ):
        found = attacks.bayes(mechanism, space, prior=prior, top=(10, 1, 5, 400))
        rows = drawn_law(mechanism, space)
        for top in (1, 5, 10, 400):
            expected = best_sets(rows, prior, top)
            assert found.details[f"top {top}"] == pytest.approx(expected, abs=1e-12)
        assert found.rate == found.details["top 1"]
        assert found.details["blind 400"] == pytest.approx(1.0)
        assert found.details["blind 5"] == pytest.approx(prior[-5:].sum())


def drawn(mechanism, space, prior, *, texts=60, length=30, seed=0):
    generator = np.random.default_rng(seed)
    raw = [generator.choice(len(space), length, p=prior) for _ in range(texts)]
    return raw, drawer(mechanism, space).draw(raw, sampler.insecure_entropy(seed + 1))


def test_run_on_draws_it_finds_its_own_rate():
    space = random_space(tokens=80, seed=2)
    prior = np.random.default_rng(1).dirichlet(np.ones(80))
    mechanism = dp.TokenExponential(epsilon=10.0)
    raw, released = drawn(mechanism, space, prior)
    exact = attacks.bayes(mechanism, space, prior=prior, top=(1, 5))
    found = attacks.bayes_on(raw, released, mechanism, space, prior=prior, top=(1, 5))
    assert found.low <= exact.rate <= found.high
    assert found.details["top 5"] == pytest.approx(exact.details["top 5"], abs=0.04)
    assert found.trials == 60
    assert found.details["tokens"] == 1800
    ignorant = attacks.bayes_on(raw, released, mechanism, space)
    assert ignorant.rate < found.low  # the prior is of use


def test_unknown_tokens_are_left_out():
    space = random_space()
    mechanism = dp.NearestResponse(epsilon=20.0, candidates=1)
    found = attacks.bayes_on([[1, -1, 2], [-1]], [[1, 5, 3], [4]], mechanism, space)
    assert (found.rate, found.trials, found.details["tokens"]) == (0.5, 1, 2.0)
    with pytest.raises(dp.ParameterError, match="none to attack"):
        attacks.bayes_on([[-1]], [[1]], mechanism, space)


@over(
    "mechanism, options, said",
    [
        (dp.MetricNoise(eta=1.0), {}, "use embedding_inversion"),
        (dp.Cape(epsilon=1.0, logit_bound=5.0), {}, "use embedding_inversion"),
        *(
            (dp.SanText(epsilon=1.0), {"prior": prior}, "expected a prior")
            for prior in (np.ones(11) / 11, np.ones(12), [math.nan] * 12, [-1.0, 2.0] + [0.0] * 10)
        ),
        *((dp.SanText(epsilon=1.0), {"top": top}, "top") for top in (0, -1, (), (1, 0), 1.5, True)),
    ],
)
def test_what_has_no_rows_no_law_or_no_guesses_is_refused(mechanism, options, said):
    space = random_space()
    for attack in (
        lambda: attacks.bayes(mechanism, space, **options),
        lambda: attacks.bayes_on([[1]], [[1]], mechanism, space, **options),
    ):
        with pytest.raises(dp.ParameterError, match=said):
            attack()


def test_texts_that_are_not_aligned_are_refused_without_their_ids():
    space, mechanism = random_space(), dp.SanText(epsilon=1.0)
    for raw, released in (
        ([[7, 8]], [[7]]),
        ([[7], [8]], [[7]]),
        ([[7]], [[-1]]),
        ([[99]], [[1]]),
        ([[[7]]], [[[7]]]),
    ):
        with pytest.raises(dp.ParameterError) as caught:
            attacks.bayes_on(raw, released, mechanism, space)
        assert "99" not in str(caught.value)


def test_a_release_of_another_mechanism_is_refused():
    space = random_space()
    mechanism = dp.NearestResponse(epsilon=1.0, candidates=1, codebook=(1, 2))
    with pytest.raises(dp.ParameterError, match="releases for no token of the prior"):
        attacks.bayes_on([[1, 2]], [[1, 7]], mechanism, space)
    partial = dp.CusText(epsilon=1.0, candidates=3)
    alone = np.eye(12)[0]
    far = int(np.argmin(laws_of(partial, space)[0]))
    with pytest.raises(dp.ParameterError, match="releases for no token of the prior"):
        attacks.bayes_on([[0]], [[far]], partial, space, prior=alone)


def test_a_certificate_for_another_space_or_with_a_delta_bounds_nothing_here():
    certificate = dp.certify(dp.SanText(epsilon=1.0), random_space(seed=1))
    with pytest.raises(dp.ParameterError, match="another"):
        attacks.recovery_bound(certificate, random_space(seed=2))
    allowed = dataclasses.replace(certificate, guarantee=dp.ApproxDP(epsilon=1.0, delta=0.1))
    with pytest.raises(dp.ParameterError, match="delta"):
        attacks.recovery_bound(allowed, random_space(seed=1))
