"""Golden vectors worked by hand; claims that fail are shown in auditing/test_known_bad.py."""

import math

import numpy as np
import pytest
from support.laws import law_of
from support.spaces import random_space, space_of

import dp_middleware as dp

E = math.e


def test_token_exponential_by_hand():
    space = space_of([[1.0, 0.0], [0.0, 2.0], [-1.0, 0.0]])
    # cosines of token 0: 1, 0, -1; clipped: 1, 0, 0; weights at epsilon 2: e, 1, 1
    clipped = law_of(dp.TokenExponential(epsilon=2.0), space, 0)
    assert clipped == pytest.approx(np.array([E, 1, 1]) / (E + 2))
    # shifted: 1, 1/2, 0; weights e, e^(1/2), 1
    shifted = law_of(dp.TokenExponential(epsilon=2.0, score="shifted_cosine"), space, 0)
    assert shifted == pytest.approx(np.array([E, E**0.5, 1]) / (E + E**0.5 + 1))


def test_the_cosine_of_a_zero_vector_is_zero():
    space = space_of([[0.0, 0.0], [1.0, 0.0]])
    assert law_of(dp.TokenExponential(epsilon=2.0), space, 0) == pytest.approx([0.5, 0.5])


def test_santext_by_hand():
    space = space_of([[0.0], [1.0], [3.0]])
    # distances of token 1: 1, 0, 2; weights at epsilon 2: e^-1, 1, e^-2
    expected = np.array([E**-1, 1, E**-2])
    assert law_of(dp.SanText(epsilon=2.0), space, 1) == pytest.approx(expected / expected.sum())


def test_custext_by_hand():
    space = space_of([[0.0], [10.0], [1.0], [11.0], [3.0]])
    mechanism = dp.CusText(epsilon=2.0, candidates=2)
    # token 0 takes its nearest free token 2, token 1 takes 3, token 4 is the remainder
    assert mechanism.classes(space) == (0, 1, 0, 1, 2)
    assert law_of(mechanism, space, 0) == pytest.approx([E / (E + 1), 0, 1 / (E + 1), 0, 0])
    assert law_of(mechanism, space, 4) == pytest.approx([0, 0, 0, 0, 1])


def test_custext_lists_by_hand():
    space = space_of([[0.0], [1.0], [3.0], [7.0]])
    # the 3 nearest of token 0 at distances 0, 1, 3: scores 1, 2/3, 0; off the list 0 or nothing
    aggressive = law_of(dp.CusTextAggressive(epsilon=3.0, candidates=3), space, 0)
    weights = np.array([E**1.5, E, 1.0, 0.0])
    assert aggressive == pytest.approx(weights / weights.sum())
    strict = law_of(dp.CusTextStrict(epsilon=3.0, candidates=3), space, 0)
    weights[3] = 1.0
    assert strict == pytest.approx(weights / weights.sum())


def test_ties_go_to_the_smaller_index_and_the_token_itself_is_first():
    space = space_of([[1.0], [0.0], [2.0], [0.0], [0.0]])
    aggressive = dp.CusTextAggressive(epsilon=1.0, candidates=2)
    listed = np.flatnonzero(law_of(aggressive, space, 4))
    assert listed.tolist() == [1, 4]  # itself, then the first of its duplicates
    listed = np.flatnonzero(law_of(aggressive, space, 0))
    assert listed.tolist() == [0, 1]  # 1 and 2 are equally far


def test_custext_reveals_the_class_and_is_private_within():
    space = random_space(tokens=20, seed=2)
    mechanism = dp.CusText(epsilon=3.0, candidates=5)
    across = dp.certify(mechanism, space)
    assert math.isinf(across.epsilon)
    assert isinstance(across.guarantee, dp.NoGuarantee)
    within = dp.certify(mechanism, space, adjacency=dp.Adjacency.within(mechanism.classes(space)))
    assert 0 < within.epsilon <= 3.0
    assert within.method == "exact"
