"""Attacks and metrics count words: another spelling of the same word is no miss."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.spaces import drawn_law

import dp_middleware as dp
from dp_middleware.lab import attacks, metrics
from dp_middleware.lab.attacks.rows import word_ranks
from dp_middleware.mechanisms.drawing import drawer
from dp_middleware.sampling import sampler

TOKENS = (" the", "The", "cat", "CAT", "mat")
WORDS = [0, 0, 1, 1, 2]


def space_of(vectors):
    return dp.EmbeddingSpace(dp.Vocabulary(TOKENS), np.array(vectors, dtype=float))


@pytest.fixture
def space():
    """Spellings of a word are one point, words are three far ones."""
    return space_of([[0, 0], [0, 0], [9, 0], [9, 0], [0, 9]])


def test_a_certain_word_of_uncertain_spelling(space):
    """The word stays with certainty, its spelling is a coin: 2 of 2 words, 1/2 of the ids."""
    mechanism = dp.SanText(epsilon=80.0)
    found = attacks.bayes(mechanism, space, top=(1, 2))
    assert found.rate == pytest.approx(1.0, abs=1e-12)
    assert found.by_id == pytest.approx((4 * 0.5 + 1) / 5, abs=1e-12)
    assert found.by_id == pytest.approx(dp.certify(mechanism, space).recovery, abs=1e-12)
    assert found.details["blind 1"] == pytest.approx(2 / 5)
    assert found.details["blind 1 by id"] == pytest.approx(1 / 5)
    assert found.details["top 2 by id"] == pytest.approx(1.0)
    kept = metrics.retention(mechanism, space)
    assert (kept.value, kept.by_id) == (pytest.approx(1.0), pytest.approx(3 / 5))
    sizes = metrics.mapping_set_size(mechanism, space, draws=2)
    assert sizes.value == pytest.approx(1.0)
    assert sizes.by_id == pytest.approx((4 * 1.5 + 1) / 5)
    assert sizes.details["support"] == 3.0  # all words are possible
    drawn = metrics.mapping_set_size_drawn(
        mechanism, space, ids=[0, 4], draws=60, entropy=sampler.insecure_entropy(0)
    )
    assert (drawn.value, drawn.by_id) == (1.0, 1.5)


@settings(max_examples=25)
@given(
    weights=st.lists(st.integers(0, 5), min_size=5, max_size=5).filter(any),
    epsilon=st.floats(0.1, 9.0),
    top=st.integers(1, 4),
)
def test_the_rate_is_the_sum_of_the_largest_joint_masses_of_words(weights, epsilon, top):
    space = space_of([[0, 0], [0.3, 0], [1, 1], [1, 1], [0, 2]])
    mechanism, prior = dp.TokenExponential(epsilon=epsilon), np.array(weights) / sum(weights)
    joint = prior[:, None] * drawn_law(mechanism, space)
    of_words = np.zeros((3, 5))
    np.add.at(of_words, WORDS, joint)
    found = attacks.bayes(mechanism, space, prior=prior, top=top)
    assert found.rate == pytest.approx(np.sort(of_words, axis=0)[::-1][:top].sum(), abs=1e-12)
    assert found.by_id == pytest.approx(np.sort(joint, axis=0)[::-1][:top].sum(), abs=1e-12)
    assert found.by_id <= found.rate + 1e-12
    certificate = dp.certify(mechanism, space)
    bounds = {
        by: attacks.recovery_bound(certificate, space, prior=prior, top=top, by=by)
        for by in ("word", "id")
    }
    assert found.rate <= bounds["word"] + 1e-12
    assert found.by_id <= bounds["id"] + 1e-12 <= bounds["word"] + 2e-12


def test_another_spelling_is_a_hit_on_releases(space):
    raw, released = [[0, 1, 2, 4, -1]], [[1, 1, 0, 4, 4]]
    found = attacks.embedding_inversion(raw, released, space, top=(1, 2))
    assert (found.rate, found.by_id) == (3 / 4, 2 / 4)
    assert found.details["top 2"] == 1.0  # two words: of the, cat and mat the nearest to "the"
    kept = metrics.retention_on(list(map(np.array, raw)), list(map(np.array, released)), space)
    assert (kept.value, kept.by_id) == (3 / 5, 2 / 5)  # an unknown token never stays itself
    mechanism = dp.SanText(epsilon=80.0)
    drawn = drawer(mechanism, space).draw([np.arange(5)] * 40, sampler.insecure_entropy(1))
    found = attacks.bayes_on([np.arange(5)] * 40, drawn, mechanism, space)
    assert found.rate == 1.0
    assert found.by_id == pytest.approx(3 / 5, abs=5 * math.sqrt(0.25 / 160))
    assert (found.details["blind 1"], found.details["blind 1 by id"]) == (2 / 5, 1 / 5)


def test_ranks_of_words_by_hand():
    """Words have 0.3 + 0.1, 0.2 + 0.25 and 0.15: ranks 2, 1, 3; by their best token 1, 2, 3."""
    vocabulary = dp.Vocabulary(TOKENS)
    scores = np.log([[0.3, 0.1, 0.2, 0.25, 0.15]] * 5)
    ids = np.arange(5)
    assert word_ranks(scores, ids, vocabulary, pooled="sum").tolist() == [2, 2, 1, 1, 3]
    assert word_ranks(scores, ids, vocabulary, pooled="best").tolist() == [1, 1, 2, 2, 3]
