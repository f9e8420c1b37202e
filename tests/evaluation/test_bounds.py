"""CAPE's logit bound in evaluations: the largest logit over sentences of the library."""

from __future__ import annotations

import numpy as np
import pytest
from support.spaces import space_of

import dp_middleware as dp
from dp_middleware.contexts import Context
from dp_middleware.evaluation._bounds import with_public_bound


class Longest(Context):
    """The logits of a position are the number of tokens of its text, times a factor."""

    window = 5

    def __init__(self, factor):
        self.factor, self.texts = factor, []

    def logits(self, ids, space):
        self.texts.append(len(ids))
        return np.full((len(ids), len(space)), self.factor * len(ids))

    def start(self, space):
        raise AssertionError("not asked")


@pytest.mark.parametrize(("name", "kind"), [("cape", dp.Cape), ("cape-strict", dp.CapeStrict)])
def test_a_name_gets_the_largest_logit_over_public_sentences(name, kind):
    space, context = space_of(np.eye(3)), Longest(0.5)
    made = with_public_bound(name, 4.0, space, context)
    assert made == kind(epsilon=4.0, logit_bound=0.5 * max(context.texts))
    assert 8 <= max(context.texts) < 100
    assert 30 <= len(context.texts) <= 34
    again = with_public_bound(name, 2.0, space, context)  # asked once
    assert (again.epsilon, again.logit_bound) == (2.0, made.logit_bound)
    assert len(context.texts) <= 34


def test_others_are_left_as_they_are():
    space, context = space_of(np.eye(3)), Longest(1.0)
    own = dp.Cape(epsilon=1.0, logit_bound=3.0)
    for chosen in (own, "rantext", "contextual-response"):
        assert with_public_bound(chosen, 4.0, space, context) is chosen
    assert with_public_bound("cape", 4.0, space, None) == "cape"
    assert context.texts == []
    silent = with_public_bound("cape", 4.0, space, Longest(-1.0))
    assert silent == dp.Cape.with_defaults(4.0, space)
