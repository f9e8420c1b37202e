"""The audit finds what is broken and leaves what is proved alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from spaces import random_space

import dp_middleware as dp
from dp_middleware import sampling
from dp_middleware.certification.auditing import _clopper_pearson


def test_the_bound_is_a_number_with_its_evidence():
    bound = dp.audit(dp.SanText(epsilon=8.0), random_space(tokens=20), samples=2000)
    assert isinstance(bound, float)
    assert bound == bound.epsilon
    assert bound.failure_probability == 1e-3
    assert bound.samples == 6000


def test_it_comes_close_to_the_loss_where_samples_allow():
    space = random_space(tokens=4, dimensions=2, seed=1)
    mechanism = dp.TokenExponential(epsilon=3.0)
    loss = dp.certify(mechanism, space).epsilon
    bound = dp.audit(mechanism, space, claim=0.01, samples=200_000)
    assert 0.5 * loss < bound <= loss


def test_it_rarely_fails_and_the_test_could_show_it():
    """At failure probability 0.2 the bound exceeds the truth in at most 20 % of 60 runs.

    With binomial tails: more than 26 of 60 has probability below 1e-4.
    """
    space = random_space(tokens=4, dimensions=2, seed=1)
    mechanism = dp.TokenExponential(epsilon=1.0)
    loss = dp.certify(mechanism, space).epsilon
    failures = sum(
        dp.audit(mechanism, space, samples=500, failure_probability=0.2, claim=0.1) > loss
        for _ in range(60)
    )
    assert stats.binom.sf(26, 60, 0.2) < 1e-4
    assert failures <= 26


def test_a_broken_generator_is_caught():
    """An entropy source stuck at one value releases a constant: retention gives nothing away,
    but a source that is stuck low keeps every token whose table starts with it."""
    space = random_space(tokens=2, dimensions=1, seed=0)
    mechanism = dp.TokenExponential(epsilon=0.1)
    order = np.argsort(-mechanism.log_probs([0], space)[0])
    stuck = 0 if order[0] == 0 else 2**64 - 1

    def entropy(count):
        return stuck.to_bytes(8, "little") * (count // 8)

    sampler = sampling.Sampler(lambda ids: mechanism.rows(ids, space))
    assert len(set(sampler.draw(np.zeros(100, dtype=np.int64), entropy))) == 1


def test_clopper_pearson_by_hand():
    low, high = _clopper_pearson(0, 100, 0.05)
    assert low == 0.0
    assert high == pytest.approx(1 - 0.05 ** (1 / 100))
    low, high = _clopper_pearson(100, 100, 0.05)
    assert high == 1.0
    assert low == pytest.approx(0.05 ** (1 / 100))


def test_bad_parameters_are_refused():
    with pytest.raises(dp.ParameterError):
        dp.audit(dp.SanText(epsilon=1.0), random_space(), samples=10)
    with pytest.raises(dp.ParameterError):
        dp.audit(dp.SanText(epsilon=1.0), random_space(), failure_probability=0)


def test_a_vocabulary_of_one_shows_nothing():
    assert dp.audit(dp.SanText(epsilon=9.0), random_space(tokens=1), samples=100) == 0.0
    assert math.isfinite(dp.audit(dp.SanText(epsilon=9.0), random_space(tokens=2), samples=100))
