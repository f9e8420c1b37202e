"""Mechanisms as evaluations ask for them: CAPE's bound from public text, policies, refusals."""

import math

import numpy as np
import pytest
from support.contexts import Says
from support.spaces import random_space, space_of

import dp_middleware as dp
from dp_middleware.lab.evaluation._laws import law_of


def longest(factor):
    """The logits of a position are the number of tokens of its text, times a factor."""
    return Says(raw=lambda ids: np.full((len(ids), 3), factor * len(ids)))


def law(chosen, space, *, context=None, policy=None, asked="nominal", epsilon=4.0):
    given = {"list_size": None, "length": 5, "policy": policy or dp.KeepPolicy.nothing()}
    return law_of(chosen, epsilon, space, asked=asked, context=context, **given)


@pytest.mark.parametrize(("name", "kind"), [("cape", dp.Cape), ("cape-strict", dp.CapeStrict)])
def test_a_named_cape_gets_the_largest_logit_over_public_sentences(name, kind):
    space, context = space_of(np.eye(3)), longest(0.5)
    made = law(name, space, context=context).mechanism
    lengths = [*map(len, context.seen)]
    assert made == kind(epsilon=4.0, logit_bound=0.5 * max(lengths))
    assert 8 <= max(lengths) < 100
    assert 30 <= len(lengths) <= 34
    again = law(name, space, context=context, epsilon=2.0).mechanism  # asked once
    assert (again.epsilon, again.logit_bound) == (2.0, made.logit_bound)
    assert len(context.seen) <= 34


def test_others_are_left_as_they_are():
    space, context = space_of(np.eye(3)), longest(1.0)
    own = dp.Cape(epsilon=4.0, logit_bound=3.0)
    assert law(own, space, context=context).mechanism == own
    assert law("rantext", space, context=context).mechanism == dp.RanText(epsilon=4.0)
    default = dp.Cape.with_defaults(4.0, space)
    assert law("cape", space).mechanism == default
    assert context.seen == []
    assert law("cape", space, context=longest(-1.0)).mechanism == default


def test_a_policy_makes_the_certificate_one_of_the_other_tokens():
    """SanTextPlus keeps w1 as it is: infinite beside it, finite without."""
    space = random_space(tokens=6, unknown="raise")
    chosen = dp.SanTextPlus(epsilon=4.0, non_sensitive=frozenset({"w1"}))
    assert math.isinf(law(chosen, space).certificate.epsilon)
    policy = dp.KeepPolicy.words(["w1"], label="one word")
    kept = law(chosen, space, policy=policy)
    assert kept.certificate.epsilon < 30
    assert "kept, and not attacked: one word" in kept.note
    assert kept.certificate.recovery is None
    exact = law("santext", space, policy=policy, asked="exact", epsilon=1.0)
    assert 0.99 < exact.certificate.epsilon <= 1.0
    with pytest.raises(dp.ParameterError, match="keeps no tokens"):
        law(dp.DocumentResponse(epsilon=4.0, codebook=("a", "b", "c")), space, policy=policy)
