"""Token channels: golden vectors, literal laws, claims that hold or fail."""

import itertools
import math
from functools import partial
from statistics import NormalDist

import numpy as np
import pytest
from scipy import stats
from support.cases import over, refuses
from support.laws import law_of, laws_of
from support.spaces import host_rows, random_space, space_of

import dp_middleware as dp
from dp_middleware.mechanisms.dyntext import table_noise

E = math.e
LINE = [[0.0], [1.0], [2.0], [10.0]]
TWO_CLASSES = [[0.0], [10.0], [1.0], [11.0], [3.0]]  # by CUSTEXT {0, 2}, {1, 3} and {4}
CROSS = [[1.0, 0.0], [0.0, 2.0], [-1.0, 0.0]]  # cosines 1, 0 and -1 from the first
TEM = partial(dp.TruncatedExponential, epsilon=2.0)
BY_HAND = [  # a mechanism, vectors, a token, and the weights of its outputs
    (dp.TokenExponential(epsilon=2.0), CROSS, 0, [E, 1, 1]),
    (dp.TokenExponential(epsilon=2.0, score="shifted_cosine"), CROSS, 0, [E, E**0.5, 1]),
    (dp.SanText(epsilon=2.0), LINE[:3], 1, [1, E, 1]),
    (dp.SanTextPlus(epsilon=2.0, non_sensitive={" W1"}, keep=0.25), LINE[:3], 0, [1, 0, E**-2]),
    (dp.SanTextPlus(epsilon=2.0, non_sensitive={" W1"}, keep=0.25), LINE[:3], 1, [3, 2, 3]),
    (dp.SanTextPlus(epsilon=1.0, non_sensitive=["w0"]), LINE, -1, [0, 1, 1, 1]),
    (TEM(threshold=2.0), [[0.0], [1.0], [3.0]], 0, [1, E**-1, E**-2]),  # 3 counts as 2
    (TEM(), np.ones((4, 2)), 3, [1, 1, 1, 1]),
    (dp.CusText(epsilon=2.0, candidates=2), TWO_CLASSES, 0, [E, 0, 1, 0, 0]),
    (dp.CusText(epsilon=2.0, candidates=2), TWO_CLASSES, 4, [0, 0, 0, 0, 1]),
    # token 2 can be drawn but is never replaced
    (dp.CusTextPlus(epsilon=2.0, candidates=2, kept=["W2 "]), TWO_CLASSES, 2, [0, 0, 1, 0, 0]),
    (dp.CusTextPlus(epsilon=2.0, candidates=2, kept=["W2 "]), TWO_CLASSES, 0, [E, 0, 1, 0, 0]),
    # the 3 nearest score 1, 1/2 and 0; off the list 0 or nothing
    (dp.CusTextAggressive(epsilon=4.0, candidates=3), LINE, 0, [E**2, E, 1, 0]),
    (dp.CusTextStrict(epsilon=4.0, candidates=3), LINE, 0, [E**2, E, 1, 1]),
    # second-nearest at 1, 1, 1, 8: gamma 2.75, f = 3, 3, 3, 1; only w3 has neighbours unlike it,
    # sigma = 2 sqrt(2 ln 1.25e5) / 0.5 = 19.4; its draw of seed 0 is -2.131, of seed 1 1.632:
    # noisy f = 3, 3, 3 and -40.3 or 32.6; so F = 1, 1, 1, 0 or 0, 0, 0, 1: lists of 1 or 2
    (dp.DynText(epsilon=2.0, candidates=2), LINE, 2, [0, 0, 1, 0]),
    (dp.DynText(epsilon=2.0, candidates=2), LINE, 3, [0, 0, 1, E]),
    (dp.DynText(epsilon=2.0, candidates=2, table_seed=1), LINE, 2, [0, 1, E, 0]),
    (dp.DynText(epsilon=2.0, candidates=2, table_seed=1), LINE, 3, [0, 0, 0, 1]),
    (dp.DynTextStrict(epsilon=2.0, candidates=2, table_seed=1), LINE, 2, [1, 1, E, 1]),
    # no token is denser than another: full lists, ties by index, the token itself first
    (dp.DynText(epsilon=2.0, candidates=2), np.ones((4, 2)), 3, [1, 0, 0, 1]),
    (dp.DynTextStrict(epsilon=2.0, candidates=2), np.ones((4, 2)), 3, [E, 1, 1, E]),
]


@over("mechanism, vectors, token, weights", BY_HAND)
def test_rows_by_hand(mechanism, vectors, token, weights):
    row = np.exp(host_rows(mechanism, np.array([token]), space_of(vectors))[0])
    assert row == pytest.approx(np.array(weights) / sum(weights))


def test_classes_cuts_and_noise_by_hand():
    space = space_of(TWO_CLASSES)
    assert dp.CusText(epsilon=2.0, candidates=2).classes(space) == (0, 1, 0, 1, 2)
    kept = dp.CusTextPlus(epsilon=2.0, candidates=2, kept=["W2 "])
    assert kept.classes(space) == (0, 1, 3, 1, 2)
    assert dp.TruncatedExponential(epsilon=0.5).cut(3) == pytest.approx(4 * math.log(999 * 2))
    assert dp.TruncatedExponential(epsilon=0.5, beta=0.2).cut(3) == pytest.approx(4 * math.log(8))
    for seed, number in ((0, -2.131411), (1, 1.631897)):
        assert table_noise(seed, 4)[3] == pytest.approx(number, abs=1e-6)
    assert stats.kstest(table_noise(7, 20_000), "norm").pvalue > 1e-3


@over("keep", [0.0, 0.5, 0.9])
def test_santext_plus_is_private_towards_sensitive_outputs_only(keep):
    space = random_space(tokens=14, seed=4)
    public = np.arange(14) % 3 == 0
    words = [f"w{i}" for i in np.flatnonzero(public)]
    mechanism = dp.SanTextPlus(epsilon=3.0, non_sensitive=words, keep=keep)
    rows = mechanism.log_probs(np.arange(14), space)[:, ~public]
    loss = np.abs(rows[:, None, :] - rows[None, :, :]).max(axis=2)
    mixed = public[:, None] != public[None, :]
    bound = 3.0 * space.distances(np.arange(14)) + mixed * -math.log1p(-keep)
    assert (loss <= bound + 1e-9).all()


def test_santext_plus_has_delta_of_at_least_keep():
    space = random_space(tokens=10, seed=1)
    rows = laws_of(dp.SanTextPlus(epsilon=0.1, non_sensitive=["w2"], keep=0.4), space)
    for epsilon, other in itertools.product((0.5, 3.0, 50.0), (0, 1, 3)):
        assert rows[other, 2] == 0
        delta = np.maximum(rows[2] - math.exp(epsilon) * rows[other], 0).sum()
        assert delta >= rows[2, 2] - 1e-12 == pytest.approx(0.4)


def test_custext_plus_is_infinite_with_a_kept_token_and_private_without():
    space = random_space(tokens=20, seed=2)
    mechanism = dp.CusTextPlus(epsilon=3.0, candidates=20, kept=["w7"])  # one class
    assert math.isinf(dp.certify(mechanism, space).epsilon)
    unlisted = dp.CusTextPlus(epsilon=3.0, candidates=20, kept=["elsewhere"])
    assert dp.certify(unlisted, random_space(tokens=20, seed=2, unknown="raise")).epsilon <= 3.0
    several = dp.CusTextPlus(epsilon=3.0, candidates=5, kept=["w7", "w8"])
    adjacency = dp.Adjacency.within(several.classes(space))
    assert 0 < dp.certify(several, space, adjacency=adjacency).epsilon <= 3.0


def test_lists_of_words_that_make_no_sense_are_refused():
    wrong = ("the", 3, None, [3], [None])
    refuses("kept", lambda words: dp.CusTextPlus(epsilon=1.0, kept=words), *wrong)
    refuses("sensitive", lambda words: dp.SanTextPlus(epsilon=1.0, non_sensitive=words), *wrong)
    nothing_left = dp.SanTextPlus(epsilon=1.0, non_sensitive=["w0", "w1"])
    refuses("all non-", lambda ids: nothing_left.log_probs(ids, random_space(tokens=2)), [0])


def test_the_default_lists_are_stop_words():
    space = dp.EmbeddingSpace(dp.Vocabulary(["The", "cat", "on", "mats"]), np.eye(4))
    custext = dp.CusTextPlus.with_defaults(2.0, space)
    assert (np.diagonal(laws_of(custext, space)) == 1).tolist() == [True, False, True, False]
    santext = dp.SanTextPlus.with_defaults(2.0, space)
    assert santext.outputs(space).tolist() == [1, 3]
    assert santext.epsilon == custext.epsilon == 2.0


def literally(space, size, epsilon_density, delta):
    """f, its noise and the lists of a space, by the words of the definition; no shortcut."""
    everyone = range(len(space))
    d = [[float(x) for x in row] for row in space.distances(np.arange(len(space)))]
    lists = [sorted(everyone, key=lambda s: (s != t, d[t][s], s))[:size] for t in everyone]
    gamma = sum(d[t][lists[t][-1]] for t in everyone) / len(space)
    f = [sum(d[t][s] <= gamma for s in everyone) for t in everyone]
    local = [max(abs(f[t] - f[s]) for s in lists[t]) for t in everyone]
    beta = epsilon_density / (2 * math.log(2 / delta))
    smooth = [max(local[s] * math.exp(-beta * d[t][s]) for s in lists[t]) for t in everyone]
    sigma = [s * math.sqrt(2 * math.log(1.25 / delta)) / epsilon_density for s in smooth]
    return d, lists, np.array(f), np.array(sigma)


def drawn_from(kind, distances, listed):
    """The law over one list by Eq. 6, at epsilon 3."""
    farthest = distances[listed[-1]] or 1.0
    weights = np.full(30, float(kind.full_support))
    for s in listed:
        weights[s] = math.exp(1.5 * (1 - distances[s] / farthest))
    return weights / weights.sum()


@over("seed, size", [(0, 4), (1, 7), (2, 3)])
@over("kind", [dp.DynText, dp.DynTextStrict])
def test_dyntext_is_the_table_made_literally(kind, seed, size):
    """A row is that of the k_t-list; with the clean extremes most would be another."""
    space = random_space(tokens=30, dimensions=2, seed=seed)
    d, lists, f, sigma = literally(space, size, 0.5, 1e-5)
    noisy = f + sigma * table_noise(seed, 30)

    def row(t, low, high):
        k = min(max(math.floor((1 - (noisy[t] - low) / (high - low)) * size), 1), size)
        return drawn_from(kind, d[t], lists[t][:k])

    mechanism = kind(epsilon=3.0, candidates=size, table_seed=seed)
    rows = laws_of(mechanism, space)
    assert rows == pytest.approx(np.array([row(t, min(noisy), max(noisy)) for t in range(30)]))
    clean = np.array([row(t, min(f), max(f)) for t in range(30)])
    assert (np.abs(rows - clean).max(axis=1) > 1e-3).sum() > 5
    again = kind(epsilon=3.0, candidates=size, table_seed=seed + 1)
    assert again.fingerprint != mechanism.fingerprint
    assert not np.array_equal(laws_of(again, space), rows)


@over("seed, size, epsilon_density", [(0, 4, 0.5), (1, 7, 9.0), (2, 3, 40)])
@over("kind", [dp.DynText, dp.DynTextStrict])
def test_fresh_dyntext_is_the_two_steps_drawn_literally(kind, seed, size, epsilon_density):
    space = random_space(tokens=30, dimensions=2, seed=seed)
    d, lists, f, sigma = literally(space, size, epsilon_density, 1e-2)
    low, high = int(min(f)), int(max(f))

    def at_least(t, k):
        if k in (1, size + 1):
            return float(k == 1)
        if sigma[t] == 0:
            return float((high - f[t]) * size >= k * (high - low))
        return NormalDist(f[t], sigma[t]).cdf(high - k * (high - low) / size)

    chances = [[at_least(t, k) - at_least(t, k + 1) for k in range(1, size + 1)] for t in range(30)]
    laws = [[drawn_from(kind, d[t], lists[t][:k]) for k in range(1, size + 1)] for t in range(30)]
    options = {"epsilon_density": epsilon_density, "delta": 1e-2, "candidates": size}
    mechanism = kind(epsilon=3.0, reading="fresh", **options)
    expected = np.einsum("tk,tky->ty", chances, laws)
    assert laws_of(mechanism, space) == pytest.approx(expected, abs=1e-12)
    assert (sigma > 0).sum() > 10


@over("reading", ["table", "fresh"])
def test_dyntext_has_no_guarantee(reading):
    space = random_space(tokens=20, seed=2)
    mechanism = dp.DynText(epsilon=3.0, candidates=5, reading=reading)
    certificate = dp.certify(mechanism, space)
    assert certificate.claimed == 3.5
    assert isinstance(certificate.guarantee, dp.NoGuarantee)
    assert dp.audit(mechanism, space) > certificate.claimed
    with pytest.raises(dp.CannotCalibrate):
        dp.calibrate(mechanism, space, epsilon=3.0)


def test_dyntext_exceeds_its_claim_also_where_two_lists_meet():
    """Eq. 9 is of outputs that both lists have: lists of other sizes have other normalisers."""
    space = random_space(tokens=60, seed=1)
    mechanism = dp.DynText(epsilon=0.5, candidates=20)
    rows = mechanism.log_probs(np.arange(60), space)
    both = np.isfinite(rows[:, None]) & np.isfinite(rows[None, :])
    losses = np.subtract(rows[:, None], rows[None, :], out=np.zeros(both.shape), where=both)
    assert losses.max() > mechanism.claimed_epsilon + 0.5


def clustered():
    generator = np.random.default_rng(0)
    close = generator.normal(scale=0.01, size=(30, 5))
    return space_of(np.vstack([close, 10 + generator.normal(scale=5.0, size=(30, 5))]))


def test_fresh_dyntext_releases_a_crowded_token_unchanged_at_any_epsilon():
    mechanism = dp.DynText(epsilon=1e-3, candidates=6, reading="fresh")
    certificate = dp.certify(mechanism, clustered())
    assert (law_of(mechanism, clustered(), 0) == np.eye(60)[0]).all()  # k = 1 for certain
    assert certificate.retention > 0.5
    allowed = math.exp(certificate.claimed) / (math.exp(certificate.claimed) + 59)
    assert allowed < 0.03  # of any mechanism for which the claim were true
    assert dp.audit(mechanism, clustered()) > certificate.claimed


@over("reading", ["table", "fresh"])
@over("epsilon_density", [0.5, 1e-9, 1e4])
@over("epsilon", [0.5, 3.0, 8.0])
def test_dyntext_strict_is_private_whatever_the_density_noise(epsilon, epsilon_density, reading):
    mechanism = dp.DynTextStrict(
        epsilon=epsilon, epsilon_density=epsilon_density, candidates=6, reading=reading
    )
    for space in (clustered(), random_space(tokens=20, seed=2), space_of(LINE)):
        certificate = dp.certify(mechanism, space)
        assert certificate.claimed == epsilon
        assert 0 < certificate.epsilon <= epsilon + 1e-9


@over("total, epsilon, density", [(3.0, 2.5, 0.5), (1.0, 0.5, 0.5), (0.2, 0.1, 0.1)])
def test_the_nominal_epsilon_of_dyntext_is_the_total(total, epsilon, density):
    space = random_space(9)
    mechanism = dp.DynText.with_defaults(total, space)
    assert (mechanism.epsilon, mechanism.epsilon_density) == (epsilon, density)
    assert mechanism.nominal == mechanism.claimed_epsilon == total
    assert dp.certify(mechanism, space).claimed == total
    other = dp.DynText(epsilon=7.0, epsilon_density=2.0, candidates=3)
    assert other.nominal == 9.0
    assert other.at(5.0) == dp.DynText(epsilon=3.0, epsilon_density=2.0, candidates=3)
    assert other.at(1.0) == dp.DynText(epsilon=0.5, epsilon_density=0.5, candidates=3)
    strict = dp.DynTextStrict.with_defaults(total, space)
    assert (strict.epsilon, strict.nominal, strict.claimed_epsilon) == (total, total, total)
    assert strict.at(4.0) == dp.DynTextStrict(epsilon=4.0)


def test_dyntext_strict_can_be_calibrated():
    space = random_space(tokens=20, seed=2)
    found = dp.calibrate(dp.DynTextStrict(epsilon=1.0, candidates=5), space, epsilon=2.0)
    assert 1.99 < dp.certify(found, space).epsilon <= 2.0
    assert found.epsilon > 2.0  # the nominal one is loose


@over("threshold", [0.5, 1.5, 50.0])
def test_tem_is_the_two_steps_of_the_paper(threshold):
    space = space_of([*np.random.default_rng(3).normal(size=(12, 2)), [0.3, 0.3], [0.3, 0.3]])
    mechanism = dp.TruncatedExponential(epsilon=3.0, threshold=threshold)
    for x in range(14):
        distances = space.distances([x])[0]
        near = distances < threshold
        scores = [-d for d in distances[near]]
        if (~near).any():  # the element "outside"
            scores.append(-threshold + 2 / 3.0 * math.log((~near).sum()))
        weights = np.exp(1.5 * np.array(scores))
        weights /= weights.sum()
        law = np.zeros(14)
        law[near] = weights[: near.sum()]
        law[~near] = 0 if near.all() else weights[-1] / (~near).sum()
        assert law_of(mechanism, space, x) == pytest.approx(law, rel=1e-12)


@over("threshold", [None, 0.7, 2.0])
@over("epsilon", [0.5, 3.0, 20.0])
def test_tem_is_metric_private_pair_by_pair(threshold, epsilon):
    space = random_space(tokens=15, seed=8)
    mechanism = dp.TruncatedExponential(epsilon=epsilon, threshold=threshold)
    rows = mechanism.log_probs(np.arange(15), space)
    loss = np.abs(rows[:, None, :] - rows[None, :, :]).max(axis=2)
    truncated = np.minimum(space.distances(np.arange(15)), mechanism.cut(15))
    assert (loss <= epsilon * truncated + 1e-9).all()
    certificate = dp.certify(mechanism, space)
    assert certificate.metric.epsilon == epsilon
    assert certificate.epsilon <= epsilon * mechanism.cut(15) + 1e-9
    assert dp.audit(mechanism, space, failure_probability=1e-9) <= certificate.epsilon


def test_a_release_beyond_the_default_threshold_has_probability_beta_at_most():
    near, far = random_space(tokens=30, seed=6), space_of(100 * np.eye(30))
    mechanism = dp.TruncatedExponential(epsilon=4.0, beta=0.05)
    for space in (near, far):
        beyond = space.distances(np.arange(30)) >= mechanism.cut(30)
        failures = (laws_of(mechanism, space) * beyond).sum(axis=1)
        assert (failures <= 0.05 + 1e-12).all()
    assert failures == pytest.approx(0.05)  # attained where all others are beyond


EVERY = [  # beside those of test_laws.py
    dp.DynText(epsilon=2.0, candidates=50),
    dp.DynText(epsilon=2.0, candidates=1),
    dp.DynText(epsilon=2.0, candidates=3, reading="fresh"),
    dp.DynTextStrict(epsilon=1e6, candidates=50),
    dp.TruncatedExponential(epsilon=2.0),
]


@over("mechanism", EVERY)
@over(
    "vectors",
    [
        [[1.0, 2.0]],
        [[0.0]],
        [[3.0], [3.0], [3.0], [3.0]],
        [[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [5.0, 0.0]],
        [[0.0], [1.0], [2.0], [4.0]],
        [[0.0], [1e5]],
    ],
)
def test_degenerate_spaces_have_proper_rows(mechanism, vectors):
    space = space_of(vectors)
    rows = mechanism.log_probs(np.arange(len(space)), space)
    assert not np.isnan(rows).any()
    assert np.exp(rows).sum(axis=1) == pytest.approx(1.0, abs=1e-12)
    assert dp.certify(mechanism, space).epsilon >= 0
    assert mechanism.log_probs([], space).shape == (0, len(space))
    assert type(mechanism).with_defaults(2.0, space).nominal == 2.0


def test_custext_reveals_the_class_and_is_private_within():
    space = random_space(tokens=20, seed=2)
    mechanism = dp.CusText(epsilon=3.0, candidates=5)
    across = dp.certify(mechanism, space)
    assert math.isinf(across.epsilon)
    assert isinstance(across.guarantee, dp.NoGuarantee)
    within = dp.certify(mechanism, space, adjacency=dp.Adjacency.within(mechanism.classes(space)))
    assert 0 < within.epsilon <= 3.0
    assert within.method == "exact"
