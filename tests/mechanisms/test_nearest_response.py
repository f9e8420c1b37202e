"""NearestResponse: its exact epsilon, and its codebook against the best there can be."""

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import sparse
from scipy.optimize import linprog
from support.cases import over, refuses
from support.laws import laws_of
from support.spaces import host_rows, random_space, space_of, spaces

import dp_middleware as dp
from dp_middleware.mechanisms import ChannelMechanism
from dp_middleware.mechanisms.kernels import codebook as _codebook
from dp_middleware.vocabulary import frequencies

E = math.e


def value(mechanism, space, prior=None):
    """Expected cosine of mean-centred vectors, tokens uniform or by the prior."""
    weights = np.full(len(space), 1 / len(space)) if prior is None else prior
    similarity = space.centred_unit @ space.centred_unit.T
    return float(weights @ (laws_of(mechanism, space) * similarity).sum(axis=1))


def best_possible(space, epsilon):
    """The linear programme over all epsilon-LDP mechanisms: q_y <= P(y|x) <= e^epsilon q_y."""
    size = len(space)
    similarity = space.centred_unit @ space.centred_unit.T
    floors = sparse.kron(np.ones((size, 1)), sparse.identity(size))
    cells = sparse.identity(size * size)
    above = sparse.hstack([-cells, floors])
    below = sparse.hstack([cells, -math.exp(epsilon) * floors])
    rows = sparse.kron(sparse.identity(size), np.ones((1, size)))
    solved = linprog(
        np.concatenate([-similarity.ravel() / size, np.zeros(size)]),
        A_ub=sparse.vstack([above, below]).tocsr(),
        b_ub=np.zeros(2 * size * size),
        A_eq=sparse.hstack([rows, sparse.csr_matrix((size, size))]).tocsr(),
        b_eq=np.ones(size),
        bounds=(0, 1),
        method="highs",
    )
    assert solved.success
    return -solved.fun


def test_by_hand():
    space = space_of([[0.0], [1.0], [3.0], [7.0]])
    # the two nearest of token 2 are itself and token 1; weights at epsilon 1: 1, e, e, 1
    row = laws_of(dp.NearestResponse(epsilon=1.0, candidates=2), space)[2]
    assert row == pytest.approx(np.array([1, E, E, 1]) / (2 * E + 2))
    mechanism = dp.NearestResponse(epsilon=1.0, candidates=1, codebook=[3, 0])
    assert mechanism.codebook == (0, 3)
    # 0, 1 and 3 are nearer to 0 than to 7; 1 and 2 cannot be released
    expected = [[E, 0, 0, 1]] * 3 + [[1, 0, 0, E]]
    assert laws_of(mechanism, space) == pytest.approx(np.array(expected) / (E + 1))
    # less the mean (12, 0): (-2, 1), (-2, -1), (2, 1.5), (2, -1.5); uncentred 1 would be with 3
    space = space_of([[10.0, 1.0], [10.0, -1.0], [14.0, 1.5], [14.0, -1.5]])
    options = {"codebook": (0, 3), "nearness": "centred_cosine"}
    rows = laws_of(dp.NearestResponse(epsilon=2.0, candidates=1, **options), space)
    assert rows.argmax(axis=1).tolist() == [0, 0, 3, 3]


def test_an_unknown_token_is_drawn_from_the_list():
    space = random_space(tokens=4)
    mechanism = dp.NearestResponse(epsilon=2.0, candidates=1, codebook=(0, 0, 0, 2))
    row = np.exp(host_rows(mechanism, np.array([-1]), space)[0])
    assert row == pytest.approx([0.75, 0, 0.25, 0])
    certificate = dp.certify(mechanism, space)
    assert certificate.epsilon <= 2.0 + 1e-9
    unknown = dp.Sanitizer(mechanism, space).release(" ".join(["nonsense"] * 400)).text
    assert set(unknown.split()) == {"w0", "w2"}


@settings(max_examples=60)
@given(
    space=spaces(),
    epsilon=st.one_of(st.floats(0.01, 20.0), st.sampled_from([1e-3, 20.0])),
    candidates=st.integers(1, 8),
    nearness=st.sampled_from(["distance", "centred_cosine"]),
    data=st.data(),
)
def test_the_exact_epsilon_is_the_nominal_one(space, epsilon, candidates, nearness, data):
    size = len(space)
    books = st.sets(st.integers(0, size - 1), min_size=2, max_size=size).map(tuple)
    codebook = data.draw(st.none() | books)
    outputs = size if codebook is None else len(codebook)
    mechanism = dp.NearestResponse(
        epsilon=epsilon, candidates=candidates, codebook=codebook, nearness=nearness
    )
    attained = epsilon if candidates < outputs else 0.0  # where all rows are equal
    assert dp.certify(mechanism, space).epsilon == pytest.approx(attained, abs=1e-9)


@settings(max_examples=60)
@given(space=spaces(), epsilon=st.floats(0.01, 20.0), candidates=st.integers(1, 8), data=st.data())
def test_repeated_codewords_never_cost_more(space, epsilon, candidates, data):
    ids = st.integers(0, len(space) - 1)
    codebook = data.draw(st.lists(ids, min_size=1, max_size=12).map(tuple))
    mechanism = dp.NearestResponse(epsilon=epsilon, candidates=candidates, codebook=codebook)
    assert dp.certify(mechanism, space).epsilon <= epsilon + 1e-9


def test_calibration_loses_nothing():
    mechanism = dp.NearestResponse(epsilon=1.0, candidates=3)
    found = dp.calibrate(mechanism, random_space(), epsilon=4.0)
    assert found.epsilon == pytest.approx(4.0, rel=1e-8)
    assert dp.certify(found, random_space()).epsilon <= 4.0


def clustered(tokens, seed):
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(tokens // 4, 12))
    return space_of(
        centres[generator.integers(len(centres), size=tokens)]
        + generator.normal(scale=0.7, size=(tokens, 12))
    )


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [2.0, 3.0, 4.0, 6.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_tuned_comes_within_half_a_percent_of_the_linear_programme(epsilon, seed):
    """On 40 tokens; docs/benchmarks.md has it on 150 real words."""
    space = clustered(40, seed)
    reached = value(dp.NearestResponse.tuned(space, epsilon=epsilon), space)
    possible = best_possible(space, epsilon)
    assert 0.995 * possible <= reached <= possible * (1 + 1e-9)


def test_tuned_is_the_best_codebook_of_all():
    space = random_space(tokens=8, dimensions=4, seed=5)
    similarity = space.centred_unit @ space.centred_unit.T
    for epsilon in (0.5, 2.0, 5.0):
        weight = math.expm1(epsilon)
        best = max(
            (weight * similarity[:, c].max(axis=1).mean() + similarity[:, c].mean(axis=0).sum())
            / (weight + len(c))
            for size in range(1, 9)
            for c in map(list, itertools.combinations(range(8), size))
        )
        tuned = dp.NearestResponse.tuned(space, epsilon=epsilon)
        assert value(tuned, space) >= best * (1 - 1e-5)


def test_a_prior_moves_the_codebook():
    space = clustered(60, 3)
    prior = np.zeros(60)
    prior[:10] = 0.1
    tuned = dp.NearestResponse.tuned(space, epsilon=4.0, prior=prior)
    everyone = dp.NearestResponse.tuned(space, epsilon=4.0)
    assert value(tuned, space, prior) > 1.1 * value(everyone, space, prior)
    some = dp.NearestResponse.tuned(space, epsilon=4.0, outputs=range(5, 30))
    assert set(some.codebook) <= set(range(5, 30))


@pytest.fixture(scope="module")
def english():
    words, shares = frequencies._words()
    order = [k for k in np.argsort(-shares, kind="stable") if len(words[k]) == 3]
    tokens = [words[k] for k in [*order[:40], *order[-80:]]]
    vectors = np.random.default_rng(8).normal(size=(120, 8))
    return dp.EmbeddingSpace(dp.Vocabulary(tokens), vectors)


def test_named_priors_and_texts_are_damped_shares(english):
    tuned = partial(dp.NearestResponse.tuned, english, epsilon=6.0)
    shares = frequencies.english(english.vocabulary)
    prior = shares / (1 + 1000 * shares)
    named, uniform = tuned(prior="english"), tuned(prior="uniform")
    assert named == tuned(prior=prior) != tuned(prior=shares)
    weights = prior / prior.sum()
    assert value(named, english, weights) > 1.05 * value(uniform, english, weights)
    assert value(named, english) < value(uniform, english)
    tokens = english.vocabulary.tokens
    texts = [" ".join(tokens[5:45]), " ".join((*tokens[30:80], "unheard"))]
    shares = np.bincount([*range(5, 45), *range(30, 80)], minlength=120) / 90
    assert (
        tuned(prior=texts) == tuned(prior=tuple(texts)) == tuned(prior=shares / (1 + 1000 * shares))
    )


@over("share", [0.4, 0.6])
def test_the_default_is_english_from_epsilon_6_on_where_the_vocabulary_is(share):
    words, shares = frequencies._words()
    tokens = [*words[: int(np.searchsorted(np.cumsum(shares), share)) + 1], *words[-200:], "1", "2"]
    vectors = np.random.default_rng(9).normal(size=(len(tokens), 6))
    space = dp.EmbeddingSpace(dp.Vocabulary(tokens), vectors)
    whole = space.vocabulary.whole_words.astype(float)  # what is no word has no say
    assert not whole[-2:].any()
    for epsilon in (5.9, 6.0):
        prior = "english" if epsilon == 6.0 and share > 0.5 else "uniform"
        tuned = dp.NearestResponse.tuned(space, epsilon=epsilon, prior=prior)
        assert tuned == dp.NearestResponse.tuned(space, epsilon=epsilon)
        assert tuned == dp.NearestResponse.with_defaults(epsilon, space)
        plain = dp.NearestResponse.tuned(space, epsilon=epsilon, prior=whole)
        assert (tuned == plain) == (prior == "uniform")


@over("epsilon", [6.0, 9.0])
@over("prior", ["english", "uniform", ["the and for", "was not you the"]])
def test_no_prior_changes_the_loss(english, epsilon, prior):
    tuned = dp.NearestResponse.tuned(english, epsilon=epsilon, prior=prior)
    assert 1 < len(set(tuned.codebook)) == len(tuned.codebook)
    assert dp.certify(tuned, english).epsilon == pytest.approx(epsilon, abs=1e-9)


@dataclass(frozen=True, kw_only=True)
class OwnPrior(ChannelMechanism):
    """Known-bad: the codebook is chosen for the private text, of which the token is one."""

    name = "own-prior"
    truth = "nothing: codebooks differ"
    full_support = False
    codebooks: tuple[tuple[int, ...], ...]

    def log_probs(self, ids, space):
        laws = [
            dp.NearestResponse(epsilon=self.epsilon, candidates=1, codebook=each)
            for each in self.codebooks
        ]
        return np.concatenate([laws[int(k >= 60)].log_probs([k], space) for k in ids])


def test_a_prior_of_the_private_text_is_caught(english):
    tokens = english.vocabulary.tokens
    texts = [" ".join(tokens[:60]), " ".join(tokens[60:])]
    tuned = [dp.NearestResponse.tuned(english, epsilon=6.0, prior=[text]) for text in texts]
    bad = OwnPrior(epsilon=6.0, codebooks=tuple(law.codebook for law in tuned))
    assert dp.audit(bad, english) > 6.0
    assert math.isinf(dp.certify(bad, english).epsilon)
    assert dp.audit(tuned[0], english, failure_probability=1e-9) <= 6.0


def test_a_space_too_large_for_memory_is_thinned_by_the_prior(monkeypatch):
    monkeypatch.setattr(_codebook, "_ENTRIES", 200)
    space = random_space(tokens=50, dimensions=5, seed=1)
    prior = np.full(50, 1e-60)
    prior[[7, 13]] = 0.5
    tuned = dp.NearestResponse.tuned(space, epsilon=8.0, prior=prior)
    assert {7, 13} <= set(tuned.codebook)


def test_two_threads_search_and_leave_torch_as_it_was():
    import torch

    before = torch.get_num_threads()
    spaces_ = [clustered(40, seed) for seed in range(20, 24)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda s: dp.NearestResponse.tuned(s, epsilon=3.0), spaces_))
        assert set(pool.map(lambda _: torch.get_num_threads(), range(4))) == {before}


@over("vectors", [[[1.0]], [[1.0], [1.0]], [[0.0], [0.0], [0.0]]])
def test_spaces_without_differences(vectors):
    space = space_of(vectors)
    tuned = dp.NearestResponse.tuned(space, epsilon=3.0)
    assert dp.certify(tuned, space).epsilon <= 3.0 + 1e-9


WRONG = ["abc", "english", ["no token of it"], [], ["w0", 1.0], [1.0], [[1.0], [1.0, 2.0]]]


def test_bad_choices_are_refused():
    tuned = partial(dp.NearestResponse.tuned, random_space(), epsilon=1.0)
    refuses("expected", lambda prior: tuned(prior=prior), *WRONG, np.zeros(12))
    refuses("expected", lambda outputs: tuned(outputs=outputs), [])
    far = dp.NearestResponse(epsilon=1.0, candidates=1, codebook=(0, 99))
    refuses("codebook", lambda ids: far.log_probs(ids, random_space()), [0])
