"""The Bayes attack: exact, beaten by nobody, under the bound of the certificate; words, texts."""

import dataclasses
import itertools
import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.cases import over
from support.laws import laws_of
from support.letters import Letters
from support.spaces import CASES, drawn_law, random_space, spaces
from support.weighted import CODES, TEXTS as HELD, law

import dp_middleware as dp
from dp_middleware.lab import attacks, metrics
from dp_middleware.lab.attacks._guesses import _places
from dp_middleware.lab.attacks.rows import both_ranks
from dp_middleware.mechanisms.drawing import drawer
from dp_middleware.sampling import sampler

EPSILONS = st.floats(0.1, 12.0)


@st.composite
def priors(draw, size):
    """Laws over the tokens, some of probability zero."""
    weights = np.array(draw(st.lists(st.integers(0, 9), min_size=size, max_size=size)), float)
    weights[draw(st.integers(0, size - 1))] += 1.0
    return weights / weights.sum()


@st.composite
def channels(draw):
    space = draw(spaces())
    mechanism = CASES[draw(st.sampled_from(sorted(CASES)))](draw(EPSILONS))
    return mechanism, space, draw(priors(len(space)))


def best_sets(rows, prior, top):
    """By brute force: for each output the largest sum of ``top`` joint probabilities."""
    joint = np.sort(prior[:, None] * rows, axis=0)[::-1]
    return joint[:top].sum()


@given(channels(), st.integers(1, 10))
@settings(max_examples=30)
def test_the_rate_is_the_sum_of_the_largest_joint_probabilities(channel, top):
    mechanism, space, prior = channel
    found = attacks.bayes(mechanism, space, prior=prior, top=top)
    assert found.rate == pytest.approx(best_sets(laws_of(mechanism, space), prior, top), abs=1e-12)
    assert (found.low, found.high, found.confidence, found.trials) == (found.rate,) * 2 + (1.0, 0)
    recovery = dp.certify(mechanism, space).recovery  # under the uniform prior
    assert attacks.bayes(mechanism, space).rate == pytest.approx(recovery, abs=1e-12)


@given(channels(), st.data())
@settings(max_examples=30)
def test_no_context_free_attack_beats_it(channel, data):
    """Any map from the released token to a guess, and embedding inversion with k guesses."""
    mechanism, space, prior = channel
    rows, size = laws_of(mechanism, space), len(space)
    guesses = np.array(data.draw(st.lists(st.integers(0, size - 1), min_size=size, max_size=size)))
    success = (prior[guesses] * rows[guesses, np.arange(size)]).sum()
    assert success <= attacks.bayes(mechanism, space, prior=prior).rate + 1e-12
    for top in (1, 2, size):
        success = (prior[:, None] * rows * inverted(space, top)).sum()
        assert success <= attacks.bayes(mechanism, space, prior=prior, top=top).rate + 1e-12


def inverted(space, top):
    """Which tokens (rows) embedding inversion names for which release (columns), (V, V)."""
    size = len(space)
    _, by_id = _places(*np.indices((size, size)).reshape(2, -1), space)
    named = by_id.reshape(size, size) <= top
    assert (named.sum(axis=0) == min(top, size)).all()  # k guesses, not more
    return named


@given(channels(), st.integers(1, 4), st.integers(1, 3))
@settings(max_examples=40)
def test_it_stays_under_the_bound_of_the_certificate(channel, top, count):
    """Within classes, under the mean of their bounds."""
    mechanism, space, prior = channel
    certificate = dp.certify(mechanism, space)
    rate = attacks.bayes(mechanism, space, prior=prior, top=top).rate
    bound = attacks.recovery_bound(certificate, space, prior=prior, top=top)
    likeliest = np.sort(prior)[::-1][:top].sum()
    assert min(1.0, likeliest) - 1e-12 <= rate <= bound + 1e-12
    assert bound <= min(1.0, math.exp(min(700.0, certificate.epsilon)) * likeliest) + 1e-12
    adjacency = dp.Adjacency.within([k % count for k in range(len(space))])
    within = dp.certify(mechanism, space, adjacency=adjacency)
    assert rate <= attacks.recovery_bound(within, space, prior=prior, top=top) + 1e-12


def test_randomised_response_attains_the_bound():
    space = random_space(tokens=20, unknown="raise")
    mechanism = dp.NearestResponse(epsilon=3.0, candidates=1)
    certificate = dp.certify(mechanism, space)
    bound = attacks.recovery_bound(certificate, space)
    assert bound == pytest.approx(math.exp(3.0) / (math.exp(3.0) + 19), rel=1e-9)
    assert attacks.bayes(mechanism, space).rate == pytest.approx(bound, rel=1e-9)


def test_a_certificate_that_says_too_little_is_contradicted():
    space, mechanism = random_space(tokens=30), dp.CusText(epsilon=3.0, candidates=3)
    honest = dp.certify(mechanism, space)  # claims 3; across classes infinite
    claimed = dataclasses.replace(honest, epsilon=3.0)
    assert attacks.recovery_bound(claimed, space) < attacks.bayes(mechanism, space).rate
    assert attacks.recovery_bound(honest, space) == 1.0


LISTED = dp.NearestResponse(epsilon=2.0, candidates=2, codebook=(*range(3, 60, 7),))


@over("mechanism", [dp.TokenExponential(epsilon=9.0), LISTED])
def test_blocks_and_codebooks_change_nothing(mechanism):
    space = random_space(tokens=150, seed=4)
    prior = np.arange(1.0, 151.0) / np.arange(1.0, 151.0).sum()
    found = attacks.bayes(mechanism, space, prior=prior, top=(10, 1, 5, 400))
    rows = drawn_law(mechanism, space)
    for top in (1, 5, 10, 400):
        expected = best_sets(rows, prior, top)
        assert found.details[f"top {top}"] == pytest.approx(expected, abs=1e-12)
    assert found.rate == found.details["top 1"]
    assert found.details["blind 400"] == pytest.approx(1.0)
    assert found.details["blind 5"] == pytest.approx(prior[-5:].sum())


def test_run_on_draws_it_finds_its_own_rate():
    space, mechanism = random_space(tokens=80, seed=2), dp.TokenExponential(epsilon=10.0)
    prior, generator = np.random.default_rng(1).dirichlet(np.ones(80)), np.random.default_rng(0)
    raw = [generator.choice(80, 30, p=prior) for _ in range(60)]
    released = drawer(mechanism, space).draw(raw, sampler.insecure_entropy(1))
    exact = attacks.bayes(mechanism, space, prior=prior, top=(1, 5))
    found = attacks.bayes_on(raw, released, mechanism, space, prior=prior, top=(1, 5))
    assert found.low <= exact.rate <= found.high
    assert found.details["top 5"] == pytest.approx(exact.details["top 5"], abs=0.04)
    assert (found.trials, found.details["tokens"]) == (60, 1800)
    ignorant = attacks.bayes_on(raw, released, mechanism, space)
    assert ignorant.rate < found.low  # the prior is of use


def test_unknown_tokens_are_left_out():
    space = random_space()
    mechanism = dp.NearestResponse(epsilon=20.0, candidates=1)
    found = attacks.bayes_on([[1, -1, 2], [-1]], [[1, 5, 3], [4]], mechanism, space)
    assert (found.rate, found.trials, found.details["tokens"]) == (0.5, 1, 2.0)
    with pytest.raises(dp.ParameterError, match="none to attack"):
        attacks.bayes_on([[-1]], [[1]], mechanism, space)


@over(
    "mechanism, options, said",
    [
        (dp.MetricNoise(eta=1.0), {}, "use embedding_inversion"),
        (dp.Cape(epsilon=1.0, logit_bound=5.0), {}, "use embedding_inversion"),
        *(
            (dp.SanText(epsilon=1.0), {"prior": prior}, "expected a prior")
            for prior in (np.ones(11) / 11, np.ones(12), [math.nan] * 12, [-1.0, 2.0] + [0.0] * 10)
        ),
        *((dp.SanText(epsilon=1.0), {"top": top}, "top") for top in (0, -1, (), (1, 0), 1.5, True)),
    ],
)
def test_what_has_no_rows_no_law_or_no_guesses_is_refused(mechanism, options, said):
    space = random_space()
    for attack in (
        lambda: attacks.bayes(mechanism, space, **options),
        lambda: attacks.bayes_on([[1]], [[1]], mechanism, space, **options),
    ):
        with pytest.raises(dp.ParameterError, match=said):
            attack()


@over(
    "raw, released",
    [
        *(([[7, 8]], [[7]]), ([[7], [8]], [[7]]), ([[7]], [[-1]]), ([[99]], [[1]])),
        ([[[7]]], [[[7]]]),
    ],
)
def test_texts_that_are_not_aligned_are_refused_without_their_ids(raw, released):
    with pytest.raises(dp.ParameterError) as caught:
        attacks.bayes_on(raw, released, dp.SanText(epsilon=1.0), random_space())
    assert "99" not in str(caught.value)


def test_a_release_of_another_mechanism_is_refused():
    space, partial = random_space(), dp.CusText(epsilon=1.0, candidates=3)
    other = dp.NearestResponse(epsilon=1.0, candidates=1, codebook=(1, 2))
    far = int(np.argmin(laws_of(partial, space)[0]))
    for mechanism, raw, released, prior in (
        (other, [[1, 2]], [[1, 7]], None),
        (partial, [[0]], [[far]], np.eye(12)[0]),
    ):
        with pytest.raises(dp.ParameterError, match="releases for no token of the prior"):
            attacks.bayes_on(raw, released, mechanism, space, prior=prior)


def test_a_certificate_for_another_space_or_with_a_delta_bounds_nothing_here():
    certificate = dp.certify(dp.SanText(epsilon=1.0), random_space(seed=1))
    with pytest.raises(dp.ParameterError, match="another"):
        attacks.recovery_bound(certificate, random_space(seed=2))
    allowed = dataclasses.replace(certificate, guarantee=dp.ApproxDP(epsilon=1.0, delta=0.1))
    with pytest.raises(dp.ParameterError, match="delta"):
        attacks.recovery_bound(allowed, random_space(seed=1))


TOKENS = (" the", "The", "cat", "CAT", "mat")
WORDS = [0, 0, 1, 1, 2]


def words_of(vectors):
    return dp.EmbeddingSpace(dp.Vocabulary(TOKENS), np.array(vectors, dtype=float))


@pytest.fixture
def spelled():
    """Spellings of a word are one point, words are three far ones."""
    return words_of([[0, 0], [0, 0], [9, 0], [9, 0], [0, 9]])


def test_a_certain_word_of_uncertain_spelling(spelled):
    """The word stays with certainty, its spelling is a coin: 2 of 2 words, 1/2 of the ids."""
    mechanism, approx = dp.SanText(epsilon=80.0), pytest.approx
    found = attacks.bayes(mechanism, spelled, top=(1, 2))
    both = (1.0, (4 * 0.5 + 1) / 5)
    assert (found.rate, found.by_id) == approx(both, abs=1e-12)
    assert found.by_id == approx(dp.certify(mechanism, spelled).recovery, abs=1e-12)
    assert found.details["blind 1"] == approx(2 / 5)
    assert found.details["blind 1 by id"] == approx(1 / 5)
    assert found.details["top 2 by id"] == approx(1.0)
    kept = metrics.retention(mechanism, spelled)
    assert (kept.value, kept.by_id) == (approx(1.0), approx(3 / 5))
    sizes = metrics.mapping_set_size(mechanism, spelled, draws=2)
    assert (sizes.value, sizes.by_id) == (approx(1.0), approx((4 * 1.5 + 1) / 5))
    assert sizes.details["support"] == 3.0  # all words are possible
    entropy = sampler.insecure_entropy(0)
    how = {"ids": [0, 4], "draws": 60, "entropy": entropy}
    drawn = metrics.mapping_set_size_drawn(mechanism, spelled, **how)
    assert (drawn.value, drawn.by_id) == (1.0, 1.5)


@settings(max_examples=25)
@given(
    weights=st.lists(st.integers(0, 5), min_size=5, max_size=5).filter(any),
    epsilon=st.floats(0.1, 9.0),
    top=st.integers(1, 4),
)
def test_the_rate_is_the_sum_of_the_largest_joint_masses_of_words(weights, epsilon, top):
    space = words_of([[0, 0], [0.3, 0], [1, 1], [1, 1], [0, 2]])
    mechanism, prior = dp.TokenExponential(epsilon=epsilon), np.array(weights) / sum(weights)
    joint = prior[:, None] * drawn_law(mechanism, space)
    of_words = np.zeros((3, 5))
    np.add.at(of_words, WORDS, joint)
    found = attacks.bayes(mechanism, space, prior=prior, top=top)
    assert found.rate == pytest.approx(np.sort(of_words, axis=0)[::-1][:top].sum(), abs=1e-12)
    assert found.by_id == pytest.approx(np.sort(joint, axis=0)[::-1][:top].sum(), abs=1e-12)
    assert found.by_id <= found.rate + 1e-12
    certificate = dp.certify(mechanism, space)
    bound = partial(attacks.recovery_bound, certificate, space, prior=prior, top=top)
    assert found.rate <= bound() + 1e-12
    assert found.by_id <= bound(by="id") + 1e-12 <= bound() + 2e-12


def test_another_spelling_is_a_hit_on_releases(spelled):
    raw, released = [[0, 1, 2, 4, -1]], [[1, 1, 0, 4, 4]]
    found = attacks.embedding_inversion(raw, released, spelled, top=(1, 2))
    assert (found.rate, found.by_id) == (3 / 4, 2 / 4)
    assert found.details["top 2"] == 1.0  # two words: of the, cat and mat the nearest to "the"
    kept = metrics.retention_on(list(map(np.array, raw)), list(map(np.array, released)), spelled)
    assert (kept.value, kept.by_id) == (3 / 5, 2 / 5)  # an unknown token never stays itself
    mechanism = dp.SanText(epsilon=80.0)
    drawn = drawer(mechanism, spelled).draw([np.arange(5)] * 40, sampler.insecure_entropy(1))
    found = attacks.bayes_on([np.arange(5)] * 40, drawn, mechanism, spelled)
    assert found.rate == 1.0
    assert found.by_id == pytest.approx(3 / 5, abs=5 * math.sqrt(0.25 / 160))
    assert (found.details["blind 1"], found.details["blind 1 by id"]) == (2 / 5, 1 / 5)


def test_ranks_of_words_by_hand():
    """Words have 0.3 + 0.1, 0.2 + 0.25 and 0.15: ranks 2, 1, 3; by their best token 1, 2, 3."""
    vocabulary = dp.Vocabulary(TOKENS)
    scores = np.log([[0.3, 0.1, 0.2, 0.25, 0.15]] * 5)
    ids = np.arange(5)
    for pooled, words in (("sum", [2, 2, 1, 1, 3]), ("best", [1, 1, 2, 2, 3])):
        found = both_ranks(scores, ids, vocabulary, pooled=pooled)
        assert found.tolist() == [words, [1, 5, 3, 2, 4]]


UNITS = ("aab", "bbc", "cd", "dde", "zy")
TEXTS = ("aab", "zy zy", "cd dde", "", "aab aab", "b", "漢字", "dddd")


def brute_force(texts, mechanism):
    """Over all sequences, the largest probability of a text, over the number of texts."""
    places, response = mechanism.best(texts, Letters()), mechanism.response
    other = (1 - response.hit) / (response.size - 1)
    sequences = range(len(UNITS) ** mechanism.rounds)
    return sum(response.hit if y in places else other for y in sequences) / len(texts)


@over("epsilon, rounds", [*itertools.product((0.5, 3.0, 9.0), (1, 2))])
@over("count", [2, 5, 8])
def test_the_rate_is_that_of_all_sequences_and_below_the_bound(epsilon, rounds, count):
    mechanism = dp.DocumentResponse(epsilon=epsilon, rounds=rounds, codebook=UNITS)
    found = attacks.bayes_among(TEXTS[:count], mechanism, Letters())
    assert found.rate == pytest.approx(brute_force(TEXTS[:count], mechanism))
    assert found.details["blind"] <= found.rate <= found.details["bound"] + 1e-12
    assert (found.low, found.high, found.trials) == (found.rate, found.rate, 0)


@over("name", sorted(CODES))
@over("count", [2, 4, len(HELD)])
def test_the_rate_of_a_weighted_code_is_that_of_all_releases(name, count):
    code, releases = CODES[name]
    mechanism = dp.WeightedResponse(epsilon=6.0, code=code)
    laws = [law(mechanism, text, releases, Letters()) for text in HELD[:count]]
    best = sum(max(own[y] for own in laws) for y in laws[0]) / count
    found = attacks.bayes_among(HELD[:count], mechanism, Letters())
    assert found.rate == pytest.approx(float(best), rel=1e-12)
    assert found.rate <= found.details["bound"] + 1e-12


def test_texts_with_one_best_sequence_cannot_be_told_apart():
    mechanism = dp.DocumentResponse(epsilon=9.0, codebook=UNITS)
    found = attacks.bayes_among(["aab", "aab", "aab", "aab"], mechanism, Letters())
    assert (found.rate, found.details["different"]) == (pytest.approx(0.25), 1)
    with pytest.raises(dp.ParameterError, match="candidates"):
        attacks.bayes_among(["aab"], mechanism, Letters())
