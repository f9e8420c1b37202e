"""Public tokens beside private ones: contexts and windows see them, at no cost."""

import math
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.cases import over
from support.contexts import Says
from support.noise_laws import line_law
from support.replay import replayed, with_kept
from support.spaces import random_space, space_of

import dp_middleware as dp
from dp_middleware.mechanisms.drawing import FRESH, drawer
from dp_middleware.mechanisms.stencil import window_means
from dp_middleware.sampling import sampler
from dp_middleware.sampling.sampler import os_entropy

HALF = 1 / math.sqrt(2 * math.log(2))  # the sigma of weight 1/2 at offset 1


@over("mechanism", [dp.DChiStencil(eta=1.0), dp.MetricNoise(eta=1.0), dp.Stencil(window=3)])
def test_an_unknown_token_is_drawn_for_once_among_public_ones(mechanism):
    space, public = space_of([[0.0], [6.0], [12.0]]), np.array([1, FRESH, 0, FRESH])
    (drawn,) = drawer(mechanism, space).draw([np.array([-1, 2])], os_entropy, [public])
    assert len(drawn) == 2


@given(
    fresh=st.lists(st.booleans(), min_size=1, max_size=14),
    window=st.integers(1, 8),
    sigma=st.sampled_from([0.3, 0.75, 2.0, 40.0]),
)
def test_the_influence_of_a_token_on_the_drawn_positions_is_within_the_constant(
    fresh, window, sigma
):
    length, mechanism = len(fresh), dp.DChiStencil(eta=1.0, window=window, sigma=sigma)
    for token in np.flatnonzero(fresh):
        moved = np.zeros((length, 1))
        moved[token] = 1.0
        means = window_means(moved, window, sigma)[np.array(fresh)]
        assert means.sum() <= mechanism.lipschitz(length)
        assert means.sum() <= mechanism.lipschitz(None)


def test_the_exact_loss_beside_public_tokens_is_within_the_certificate():
    """Two private tokens with a public one between: the product law over both positions."""
    tokens, ids = np.array([-10.0, 0.0, 1.0, 10.0]), np.array([1, 2, 2])
    mechanism, drawn = dp.DChiStencil(eta=1.2, window=3, sigma=HALF), np.array([0, 2])
    other = np.array([2, 2, 2])  # the first is another; the public one stays
    means = [window_means(tokens[text][:, None], 3, HALF)[drawn, 0] for text in (ids, other)]
    first, second = ([np.log(line_law(tokens, m, mechanism.eta)) for m in row] for row in means)
    loss = sum(float(np.abs(p - q).max()) for p, q in zip(first, second, strict=True))
    # its weight is 1/1.5 in its own mean, and the public token keeps it out of the other
    assert loss == pytest.approx(1.2 / 1.5, rel=1e-9)
    assert loss <= mechanism.lipschitz(3)


SIZE = 30
SPACE = random_space(tokens=SIZE, seed=3)
MECHANISMS = [
    dp.ContextualResponse(epsilon=2.0),
    dp.CapeStrict(epsilon=4.0, buckets=5, logit_bound=5.0),
]


def sums():
    """Logits from a public table, by all tokens on the left."""
    table = np.random.default_rng(0).normal(scale=3.0, size=(97, SIZE))
    return Says(lambda left: table[reduce(lambda k, each: (3 * k + each + 1) % 97, left, 0)])


def texts_of(lengths, seed=1):
    rng = np.random.default_rng(seed)
    return [rng.integers(-1, SIZE, length) for length in lengths]


@over("mechanism", MECHANISMS)
@over("lengths", [[], [0], [1], [7], [0, 1, 5, 5, 2, 0, 9], [3, 1] * 20])
@over("kept", [False, True])
def test_releases_are_those_of_one_token_at_a_time(mechanism, lengths, kept):
    texts, context = texts_of(lengths), sums()
    fresh = [np.full(len(ids), FRESH) for ids in texts]
    releases = with_kept(texts, SIZE, 2) if kept else fresh
    before = [known.copy() for known in releases]
    draw = drawer(mechanism, SPACE, context).draw
    drawn = draw(texts, sampler.insecure_entropy(5), releases if kept else None)
    assert context.asked == sum(lengths)  # nothing is asked where the release is public
    expected = replayed(mechanism, SPACE, sums(), texts, releases, 5)
    assert [ids.tolist() for ids in drawn] == expected
    assert all(ids.dtype == np.int64 for ids in drawn)
    assert all(np.array_equal(a, b) for a, b in zip(before, releases, strict=True))
