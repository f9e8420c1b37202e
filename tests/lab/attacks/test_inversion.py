"""Embedding inversion: the nearest tokens, in the project's order of neighbours."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.spaces import space_of, spaces

from dp_middleware.lab import attacks


@given(spaces(), st.data())
@settings(max_examples=50)
def test_the_guesses_are_the_nearest_tokens(space, data):
    size = len(space)
    raw, released = (
        np.array(data.draw(st.lists(st.integers(0, size - 1), min_size=5, max_size=5)))
        for _ in range(2)
    )
    hits = {1: 0, 2: 0, 4: 0}
    for own, given_id in zip(raw, released, strict=True):
        distances = space.distances([given_id])[0]
        order = sorted(range(size), key=lambda k: (k != given_id, distances[k], k))
        for top in hits:
            hits[top] += own in order[:top]
    found = attacks.embedding_inversion([raw], [released], space, top=(1, 2, 4))
    for top, count in hits.items():
        assert found.details[f"top {top}"] == count / 5
    assert found.rate == np.mean(raw == released)


def test_the_released_token_comes_before_its_duplicates():
    space = space_of([[0.0], [0.0], [1.0]])
    assert attacks.embedding_inversion([[1]], [[1]], space, top=1).rate == 1.0
    assert attacks.embedding_inversion([[0]], [[1]], space, top=1).rate == 0.0
    assert attacks.embedding_inversion([[0]], [[1]], space, top=2).rate == 1.0


def test_texts_are_the_trials_and_unknown_tokens_are_left_out():
    space = space_of(np.arange(10.0)[:, None])
    raw = [[1, 2, -1], [3, 4, 5], []]
    released = [[1, 2, 7], [9, 9, 9], []]
    found = attacks.embedding_inversion(raw, released, space, top=(1, 10))
    assert (found.trials, found.details["tokens"]) == (2, 5.0)
    assert found.rate == pytest.approx(2 / 5)
    assert found.details["top 10"] == 1.0
    assert found.low == 0.0
    assert found.high == 1.0
