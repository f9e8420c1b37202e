"""ContextualResponse: laws by hand, exactly epsilon with history, and codebooks that are public."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats
from support.cases import over, refuses
from support.contexts import by_left
from support.spaces import random_space, space_of, spaces
from support.text_laws import worst_loss

import dp_middleware as dp
from dp_middleware.mechanisms.contextual_response import choose, mix
from dp_middleware.mechanisms.drawing import drawer
from dp_middleware.sampling import sampler
from dp_middleware.vocabulary import frequencies

EPSILONS = st.sampled_from([1e-3, 0.5, 2.0, 6.0, 10.0, 60.0, 800.0])


def worths(shares, epsilon):
    """The expected worth of each size from the least on, from all shares in descending order."""
    listed = np.sort(shares)[::-1]
    sizes = np.arange(min(8, len(listed)), len(listed) + 1)
    hit = np.cumsum(listed)[sizes - 1]
    return (0.3 + 0.7 * hit) / (1 + math.exp(-epsilon) * (sizes - 1))


def table_of(size, scale=3.0, seed=0):
    return np.random.default_rng(seed).normal(scale=scale, size=(size + 1, size))


def test_a_row_by_hand():
    """Nine equal logits and one far below: the ten shares are mixed with the uniform ones."""
    space = space_of([[float(k), 1.0] for k in range(10)])
    logits = [0.0] * 9 + [-60.0]
    mechanism = dp.ContextualResponse(epsilon=math.log(3.0))
    # shares 0.85/9 + 0.015 for nine tokens, 0.015 for the last; the worth at 8 is the largest
    assert worths([0.85 / 9 + 0.015] * 9 + [0.015], mechanism.epsilon).argmax() == 0
    rows = np.exp(mechanism.log_probs([2, 9], space, [logits, logits]))
    expected = np.array([1.0] * 8 + [0.0, 0.0]) / (3 + 7)
    expected[2] *= 3
    assert rows[0] == pytest.approx(expected)
    # the last token is not listed; centred, it points where tokens 5, 6 and 7 do: the nearest
    centred = space.vectors - space.vectors.mean(axis=0)
    cosines = (centred @ centred[9])[:8] / np.linalg.norm(centred[:8], axis=1)
    nearest = int(np.argmax(np.round(cosines, 6)))
    assert nearest == 5
    assert rows[1].argmax() == nearest
    assert sorted(rows[1]) == pytest.approx(sorted(expected))


@settings(max_examples=25, deadline=None)
@given(space=spaces(), epsilon=EPSILONS, data=st.data())
def test_rows_are_laws_on_one_codebook_and_ignore_the_other_rows(space, epsilon, data):
    size, count = len(space), data.draw(st.integers(1, 9))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    ids, logits = rng.integers(0, size, count), rng.normal(0, 4, size=(count, size))
    mechanism = dp.ContextualResponse(epsilon=epsilon)
    rows = mechanism.log_probs(ids, space, logits)
    np.testing.assert_allclose(np.exp(rows).sum(axis=1), 1.0, rtol=1e-12)
    for k in range(count):
        alone = mechanism.log_probs([ids[k]], space, logits[[k]])[0]
        assert np.array_equal(alone, rows[k])  # bit for bit
        codebook = mechanism.outputs(space, logits[k])
        assert np.array_equal(np.flatnonzero(rows[k] > -np.inf), codebook)
        if ids[k] in codebook:
            assert rows[k].argmax() == ids[k]


@settings(max_examples=100, deadline=None)
@given(
    epsilon=st.sampled_from([0.5, 2.0, 6.0, 8.0, 10.0, 60.0]),
    size=st.integers(1, 200) | st.just(3_000),
    spread=st.sampled_from([0.0, 0.5, 2.0, 4.0]),
    ties=st.booleans(),
    seed=st.integers(0, 99),
)
def test_the_size_maximises_the_expected_worth(epsilon, size, spread, ties, seed):
    """And the largest shares are taken, though of many most are never sorted."""
    logits = np.random.default_rng(seed).normal(0, spread, size)
    logits = np.round(logits) if ties else logits
    shares = mix(logits, 0.15, np.full(size, 1 / size))
    law = np.exp(logits - logits.max())
    assert shares == pytest.approx(0.85 * law / law.sum() + 0.15 / size, rel=1e-6, abs=1e-12)
    codebook, worth = choose(shares, epsilon), worths(shares, epsilon)
    assert worth[len(codebook) - min(8, size)] == pytest.approx(worth.max(), rel=1e-12)
    assert set(codebook) == set(np.argsort(-shares, kind="stable")[: len(codebook)])


@settings(max_examples=25, deadline=None)
@given(space=spaces(), epsilon=st.sampled_from([1e-3, 2.0, 6.0, 40.0]), seed=st.integers(0, 99))
def test_given_a_history_the_loss_is_exactly_epsilon(space, epsilon, seed):
    size = len(space)
    logits = np.random.default_rng(seed).normal(0, 3, size)
    mechanism = dp.ContextualResponse(epsilon=epsilon)
    rows = mechanism.log_probs(np.arange(size), space, [logits] * size)
    codebook = mechanism.outputs(space, logits)
    rows = np.vstack([rows[:, codebook], np.full((1, len(codebook)), -np.log(len(codebook)))])
    loss = np.ptp(rows, axis=0).max()
    assert loss <= mechanism.position_loss(size) + 1e-9
    if size > 1:  # every codeword is the nearest one to itself, and not to another
        assert loss == pytest.approx(epsilon, abs=1e-9)


def test_a_whole_text_costs_exactly_epsilon_for_a_changed_token():
    """Enumerated: every release of three tokens, of which codebooks are 8 of 9 tokens."""
    space, table = random_space(tokens=9, seed=4), table_of(9, scale=0.5)
    mechanism = dp.ContextualResponse(epsilon=2.0)
    sizes = {tuple(mechanism.outputs(space, row)) for row in table}
    assert len(sizes) > 3  # the codebook depends on what was released
    assert all(len(codebook) == 8 for codebook in sizes)
    texts = [(0, 1, 2), (5, 1, 2), (-1, 1, 2), (0, 7, 2), (0, -1, 2), (0, 1, 8), (3, 1, 2)]
    loss = worst_loss(mechanism, space, by_left(table), texts)
    assert loss == pytest.approx(2.0, abs=1e-9)
    certificate = dp.certify(mechanism, space)
    assert loss <= certificate.epsilon == pytest.approx(2.0, abs=1e-7)
    assert certificate.method == "proof"


@over("epsilon", [0.01, 3.0, 10.0, 30.0])
def test_what_is_drawn_is_at_most_what_is_certified(epsilon):
    space, logits = random_space(tokens=40, seed=1), table_of(40)[0]
    mechanism = dp.ContextualResponse(epsilon=epsilon)
    rows = mechanism.log_probs(np.arange(40), space, [logits] * 40)
    integers = np.array([table.integers(40) for table in sampler.tables(rows)], dtype=object)
    totals = [sum(row) for row in integers]
    codebook = mechanism.outputs(space, logits)
    logs = [[math.log(row[k]) for k in codebook] for row in integers]
    loss = np.ptp(np.array(logs) - np.log([float(t) for t in totals])[:, None], axis=0).max()
    assert epsilon - 1e-7 < loss <= dp.certify(mechanism, space).epsilon
    assert all((row > 0).sum() == len(codebook) for row in integers)


def test_an_unknown_token_is_a_uniform_codeword():
    """An output off the codebook would tell that the token was unknown."""
    space, table = random_space(tokens=30, seed=3), table_of(30)
    mechanism = dp.ContextualResponse(epsilon=2.0)
    drawn = drawer(mechanism, space, by_left(table)).draw(
        [np.array([-1])] * 400, sampler.insecure_entropy(0)
    )
    counts = np.bincount(np.concatenate(drawn), minlength=30)
    codebook = mechanism.outputs(space, table[-1])
    assert counts[codebook].sum() == 400
    assert stats.chisquare(counts[codebook]).pvalue > 1e-9


def test_the_unigram_is_english_where_the_vocabulary_is():
    words = [*frequencies._words()[0][:400], "xyzzy"]
    vectors = np.random.default_rng(0).normal(size=(401, 4))
    english = dp.EmbeddingSpace(dp.Vocabulary(words), vectors)
    mechanism = dp.ContextualResponse(epsilon=3.0)
    shares = mechanism._unigram(english)
    assert shares.sum() == pytest.approx(1.0)
    assert shares[0] > shares[300] > shares[400] == 0.0
    codebook = mechanism.outputs(english, np.zeros((1, 401)))
    assert set(codebook) == set(range(len(codebook)))  # the most frequent ones
    foreign = dp.EmbeddingSpace(dp.Vocabulary([f"{word}q" for word in words]), vectors)
    uniform = mechanism._unigram(foreign)
    assert set(uniform.tolist()) == {1 / 401}


def test_what_is_of_another_space_is_refused():
    space = random_space(tokens=5)
    plain = dp.ContextualResponse(epsilon=1.0)
    others = (replace(plain, unigram=(1.0,) * 4), replace(plain, allowed=(5,)))
    refuses("unigram|allowed", lambda m: m.log_probs([0], space, np.zeros((1, 5))), *others)
    bad = (np.zeros((1, 4)), np.full((1, 5), np.nan), [["a"] * 5])
    refuses("logits", lambda logits: plain.log_probs([0], space, logits), *bad)
    refuses("expected ids", lambda ids: plain.log_probs(ids, space, np.zeros((1, 5))), [-1])
    with pytest.raises(TypeError, match="context"):
        dp.ContextualResponse(epsilon=1.0, context="raw")


def test_it_claims_its_epsilon_and_is_calibrated():
    mechanism = dp.ContextualResponse(epsilon=3, unigram=np.array([1, 2, 3]), allowed=[1, 0])
    assert (mechanism.context, mechanism.claimed_epsilon) == ("released", 3.0)
    assert mechanism.position_loss(1) == 0.0
    calibrated = dp.calibrate(mechanism, random_space(tokens=3), epsilon=2.0)
    assert 1.999 < dp.certify(calibrated, random_space(tokens=3)).epsilon <= 2.0
