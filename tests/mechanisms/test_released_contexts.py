"""Texts are released one token at a time, each after what was released before it."""

from functools import reduce

import numpy as np
from support.cases import over
from support.contexts import Says
from support.replay import replayed, with_kept
from support.spaces import random_space

import dp_middleware as dp
from dp_middleware.mechanisms.drawing import FRESH, drawer
from dp_middleware.sampling import sampler

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
    """Unknown tokens and empty texts are among them."""
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
