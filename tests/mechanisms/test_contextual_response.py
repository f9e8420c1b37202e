"""ContextualResponse: laws by hand, exactly epsilon with history, and codebooks that are public."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats
from support.cases import over
from support.contexts import by_left
from support.laws import p_value
from support.spaces import random_space, space_of, spaces

import dp_middleware as dp
from dp_middleware.mechanisms.contextual_response import choose, mix
from dp_middleware.mechanisms.drawing import FRESH, drawer
from dp_middleware.sampling import sampler
from dp_middleware.vocabulary import frequencies

EPSILONS = st.sampled_from([1e-3, 0.5, 2.0, 6.0, 10.0, 60.0, 800.0])
DRAWS = 1_500


def literal_size(shares, epsilon):
    """The largest worth by brute force, from the shares in descending order."""
    listed, e = sorted(shares, reverse=True), math.exp(epsilon)

    def worth(size):
        hit = sum(listed[:size])
        return (e - 1) * (hit + 0.3 * (1 - hit)) / (e + size - 1)

    return max(range(min(8, len(listed)), len(listed) + 1), key=worth)


def table_of(size, scale=3.0, seed=0):
    return np.random.default_rng(seed).normal(scale=scale, size=(size + 1, size))


def test_a_row_by_hand():
    """Nine equal logits and one far below: the ten shares are mixed with the uniform ones."""
    space = space_of([[float(k), 1.0] for k in range(10)])
    logits = [0.0] * 9 + [-60.0]
    mechanism = dp.ContextualResponse(epsilon=math.log(3.0))
    # shares 0.85/9 + 0.015 for nine tokens, 0.015 for the last; the worth at 8 is the largest
    assert literal_size([0.85 / 9 + 0.015] * 9 + [0.015], mechanism.epsilon) == 8
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


@settings(max_examples=25, deadline=None)
@given(epsilon=st.sampled_from([0.5, 2.0, 6.0, 10.0]), data=st.data())
def test_the_size_maximises_the_expected_worth(epsilon, data):
    size = data.draw(st.integers(1, 200))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    logits, unigram = rng.normal(0, 4, size), np.full(size, 1 / size)
    shares = mix(logits, 0.15, unigram)
    law = np.exp(logits - logits.max())
    assert shares == pytest.approx(0.85 * law / law.sum() + 0.15 / size, rel=1e-6, abs=1e-12)
    codebook = choose(shares, epsilon)
    assert len(codebook) == literal_size(shares.tolist(), epsilon)
    assert set(codebook) == set(np.argsort(-shares, kind="stable")[: len(codebook)])


@over("epsilon", [0.5, 6.0, 8.0, 10.0, 60.0])
@over("spread", [0.0, 0.5, 2.0, 5.0])
@over("ties", [False, True])
def test_only_the_largest_shares_decide(epsilon, spread, ties):
    """Of 3,000 most need not be sorted; the codebook is that of all of them sorted."""
    logits = np.random.default_rng(0).normal(0, spread, 3_000)
    shares = mix(np.round(logits) if ties else logits, 0.15, np.full(3_000, 1 / 3_000))
    codebook = choose(shares, epsilon)
    order = np.argsort(-shares, kind="stable")
    sizes = np.arange(8, 3_001)
    hit = np.cumsum(shares[order])[7:]
    worth = (0.3 + 0.7 * hit) / (1 + math.exp(-epsilon) * (sizes - 1))
    assert worth[len(codebook) - 8] == pytest.approx(worth.max(), rel=1e-12)
    assert np.array_equal(codebook, np.sort(order[: len(codebook)]))


@settings(max_examples=25, deadline=None)
@given(space=spaces(), epsilon=st.sampled_from([1e-3, 2.0, 6.0, 40.0]), seed=st.integers(0, 99))
def test_given_a_history_the_loss_is_exactly_epsilon(space, epsilon, seed):
    """All tokens, and the unknown symbol: the column ranges of one codebook."""
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


def losses_of_texts(mechanism, space, table, length, texts):
    """Largest loss of a whole release, and whether supports agree, over one changed token."""
    size = len(space)
    unknown = np.full(size, -np.inf)

    def law(text):
        total = np.zeros((size,) * length)
        for released in itertools.product(range(size), repeat=length):
            sums = 0.0
            for position, token in enumerate(text):
                left = released[position - 1] if position else -1
                sums += rows[left][token][released[position]]
            total[released] = sums
        return total

    rows = {}
    for left in range(-1, size):
        logits = table[left]
        known = mechanism.log_probs(np.arange(size), space, [logits] * size)
        uniform = unknown.copy()
        codebook = mechanism.outputs(space, logits)
        uniform[codebook] = -np.log(len(codebook))
        rows[left] = np.vstack([known, uniform])  # the last, -1: unknown
    laws = [law(text) for text in texts]
    found = 0.0
    for one, other in itertools.combinations(range(len(texts)), 2):
        if sum(a != b for a, b in zip(texts[one], texts[other], strict=True)) != 1:
            continue
        assert np.array_equal(np.isfinite(laws[one]), np.isfinite(laws[other]))
        possible = np.isfinite(laws[one])
        found = max(found, np.abs(laws[one][possible] - laws[other][possible]).max())
    return found


def test_a_whole_text_costs_exactly_epsilon_for_a_changed_token():
    """Enumerated: every release of three tokens, of which codebooks are 8 of 9 tokens."""
    space, table = random_space(tokens=9, seed=4), table_of(9, scale=0.5)
    mechanism = dp.ContextualResponse(epsilon=2.0)
    sizes = {tuple(mechanism.outputs(space, row)) for row in table}
    assert len(sizes) > 3  # the codebook depends on what was released
    assert all(len(codebook) == 8 for codebook in sizes)
    texts = [(0, 1, 2), (5, 1, 2), (-1, 1, 2), (0, 7, 2), (0, -1, 2), (0, 1, 8), (3, 1, 2)]
    loss = losses_of_texts(mechanism, space, table, 3, texts)
    assert loss == pytest.approx(2.0, abs=1e-9)
    certificate = dp.certify(mechanism, space)
    assert loss <= certificate.epsilon == pytest.approx(2.0, abs=1e-7)
    assert certificate.method == "proof"


@pytest.mark.parametrize("epsilon", [0.01, 3.0, 10.0, 30.0])
def test_what_is_drawn_is_at_most_what_is_certified(epsilon):
    """Of the integers, exactly; also where a row has 128 bits."""
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


def test_releases_follow_the_law_and_would_reject_twice_epsilon():
    """The second position's law is that after what was drawn at the first."""
    space, table = random_space(tokens=12, seed=3), table_of(12)
    mechanism = dp.ContextualResponse(epsilon=2.0)
    draw = drawer(mechanism, space, by_left(table)).draw
    drawn = np.array(draw([np.array([2, 5])] * DRAWS, sampler.insecure_entropy(1)))

    def law(epsilon):
        kind = dp.ContextualResponse(epsilon=epsilon)
        first = np.exp(kind.log_probs([2], space, table[[-1]])[0])
        second = np.exp(kind.log_probs([5] * 12, space, table[:12]))
        return (first[:, None] * second).ravel()

    counts = np.bincount(drawn[:, 0] * 12 + drawn[:, 1], minlength=144)
    assert p_value(counts, law(2.0), 0) > 1e-9 > p_value(counts, law(4.0), 0)


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


def test_public_tokens_stand_in_the_prefix_as_themselves():
    space, context = random_space(tokens=30, seed=3), by_left(table_of(30))
    one = drawer(dp.ContextualResponse(epsilon=2.0), space, context)
    releases = [np.array([4, FRESH, 9, 9, FRESH]), np.array([], dtype=np.int64)]
    texts = [np.array([1, 2]), np.array([], dtype=np.int64)]
    drawn = one.draw(texts, sampler.os_entropy, releases)
    assert context.seen == [[4, drawn[0][0], 9, 9, drawn[0][1]], []]
    assert [len(ids) for ids in drawn] == [2, 0]


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
    for wrong in ({"unigram": (1.0,) * 4}, {"allowed": (5,)}):
        with pytest.raises(dp.ParameterError, match=next(iter(wrong))):
            dp.ContextualResponse(epsilon=1.0, **wrong).log_probs([0], space, np.zeros((1, 5)))
    for logits in (np.zeros((1, 4)), np.full((1, 5), np.nan), [["a"] * 5]):
        with pytest.raises(dp.ParameterError, match="logits"):
            dp.ContextualResponse(epsilon=1.0).log_probs([0], space, logits)
    with pytest.raises(dp.ParameterError, match="expected ids"):
        dp.ContextualResponse(epsilon=1.0).log_probs([-1], space, np.zeros((1, 5)))
    with pytest.raises(TypeError, match="context"):
        dp.ContextualResponse(epsilon=1.0, context="raw")


def test_it_claims_its_epsilon_and_is_calibrated():
    mechanism = dp.ContextualResponse(epsilon=3, unigram=np.array([1, 2, 3]), allowed=[1, 0])
    assert (mechanism.context, mechanism.claimed_epsilon) == ("released", 3.0)
    assert mechanism.position_loss(1) == 0.0
    calibrated = dp.calibrate(mechanism, random_space(tokens=3), epsilon=2.0)
    assert 1.999 < dp.certify(calibrated, random_space(tokens=3)).epsilon <= 2.0
