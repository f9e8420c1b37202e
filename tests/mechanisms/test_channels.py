"""Token channels: golden vectors, literal laws, claims that hold or fail."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from scipy import integrate, stats
from support.cases import over
from support.laws import law_of, laws_of, p_value
from support.spaces import host_rows, random_space, space_of

import dp_middleware as dp
from dp_middleware.mechanisms.dyntext import _log_normal, density, table_noise

E = math.e
DRAWS = 40_000


def hockey_stick(first, second, epsilon):
    """The smallest delta for which one direction of (epsilon, delta)-DP holds."""
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


def test_santext_plus_by_hand():
    space = space_of([[0.0], [1.0], [3.0]])
    mechanism = dp.SanTextPlus(epsilon=2.0, non_sensitive={" W1"}, keep=0.25)
    # V_S = {w0, w2}; from w0 distances 0 and 3, from w1 distances 1 and 2
    first = np.array([1, 0, E**-3]) / (1 + E**-3)
    assert law_of(mechanism, space, 0) == pytest.approx(first)
    drawn = 0.75 / (E**-1 + E**-2)
    second = np.array([drawn * E**-1, 0.25, drawn * E**-2])
    assert law_of(mechanism, space, 1) == pytest.approx(second)


@pytest.mark.parametrize("keep", [0.0, 0.5, 0.9])
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


@pytest.mark.parametrize("epsilon", [0.5, 3.0, 50.0])
def test_santext_plus_has_delta_of_at_least_keep(epsilon):
    space = random_space(tokens=10, seed=1)
    rows = laws_of(dp.SanTextPlus(epsilon=0.1, non_sensitive=["w2"], keep=0.4), space)
    for other in (0, 1, 3):
        assert rows[2, 2] == pytest.approx(0.4)
        assert rows[other, 2] == 0
        assert hockey_stick(rows[2], rows[other], epsilon) >= 0.4 - 1e-12


def test_an_unknown_token_is_drawn_from_the_sensitive_set():
    mechanism = dp.SanTextPlus(epsilon=1.0, non_sensitive=["w0"])
    unknown = np.exp(host_rows(mechanism, np.array([-1]), random_space(tokens=5))[0])
    assert unknown == pytest.approx([0, 0.25, 0.25, 0.25, 0.25])


def test_without_sensitive_tokens_there_is_nothing_to_draw():
    mechanism = dp.SanTextPlus(epsilon=1.0, non_sensitive=["w0", "w1"])
    with pytest.raises(dp.ParameterError, match="all non-sensitive"):
        mechanism.log_probs([0], random_space(tokens=2))


def test_custext_plus_by_hand():
    space = space_of([[0.0], [10.0], [1.0], [11.0], [3.0]])
    mechanism = dp.CusTextPlus(epsilon=2.0, candidates=2, kept=["W2 "])
    # classes {0, 2}, {1, 3}, {4} as in CUSTEXT; token 2 can be drawn but is never replaced
    assert law_of(mechanism, space, 2) == pytest.approx([0, 0, 1, 0, 0])
    assert law_of(mechanism, space, 0) == pytest.approx([E / (E + 1), 0, 1 / (E + 1), 0, 0])
    assert mechanism.classes(space) == (0, 1, 3, 1, 2)
    plain = dp.CusText(epsilon=2.0, candidates=2)
    others = [0, 1, 3, 4]
    assert np.array_equal(laws_of(mechanism, space)[others], laws_of(plain, space)[others])


def test_custext_plus_is_infinite_with_a_kept_token_and_private_without():
    space = random_space(tokens=20, seed=2)
    mechanism = dp.CusTextPlus(epsilon=3.0, candidates=20, kept=["w7"])  # one class
    assert math.isinf(dp.certify(mechanism, space).epsilon)
    unlisted = dp.CusTextPlus(epsilon=3.0, candidates=20, kept=["elsewhere"])
    assert dp.certify(unlisted, random_space(tokens=20, seed=2, unknown="raise")).epsilon <= 3.0
    several = dp.CusTextPlus(epsilon=3.0, candidates=5, kept=["w7", "w8"])
    adjacency = dp.Adjacency.within(several.classes(space))
    assert 0 < dp.certify(several, space, adjacency=adjacency).epsilon <= 3.0


@pytest.mark.parametrize("words", ["the", 3, None, [3], [None]])
def test_a_list_of_words_is_a_collection_of_str(words):
    with pytest.raises(dp.ParameterError, match="kept"):
        dp.CusTextPlus(epsilon=1.0, kept=words)
    with pytest.raises(dp.ParameterError, match="non_sensitive"):
        dp.SanTextPlus(epsilon=1.0, non_sensitive=words)


def test_the_default_lists_are_stop_words():
    space = dp.EmbeddingSpace(dp.Vocabulary(["The", "cat", "on", "mats"]), np.eye(4))
    custext = dp.CusTextPlus.with_defaults(2.0, space)
    assert np.diagonal(laws_of(custext, space)) == pytest.approx([1, 0.25, 1, 0.25], abs=0.3)
    assert (np.diagonal(laws_of(custext, space)) == 1).tolist() == [True, False, True, False]
    santext = dp.SanTextPlus.with_defaults(2.0, space)
    assert santext.outputs(space).tolist() == [1, 3]
    assert santext.epsilon == custext.epsilon == 2.0


def test_the_least_frequent_share_of_the_words_is_sensitive():
    """Of the words the, of, knee and qqq, in this order of frequency, half are sensitive."""
    tokens = ["qqq", "the", "knee", "The", "of"]
    space = dp.EmbeddingSpace(dp.Vocabulary(tokens), np.arange(10.0).reshape(5, 2))
    mechanism = dp.SanTextPlus.by_frequency(space, epsilon=1.0, sensitive=0.5)
    assert mechanism.non_sensitive == {"the", "of"}
    assert mechanism.outputs(space).tolist() == [0, 2]
    assert mechanism.keep == 0.7
    few = dp.SanTextPlus.by_frequency(space, epsilon=1.0, sensitive=0.51, keep=0.2)
    assert (few.non_sensitive, few.keep) == ({"the"}, 0.2)
    assert not dp.SanTextPlus.by_frequency(space, epsilon=1.0, sensitive=1.0).non_sensitive
    with pytest.raises(dp.ParameterError, match="sensitive"):
        dp.SanTextPlus.by_frequency(space, epsilon=1.0, sensitive=0.0)


LINE = [[0.0], [1.0], [2.0], [10.0]]


def test_dyntext_by_hand():
    space = space_of(LINE)
    # second-nearest at 1, 1, 1, 8: gamma 2.75, f = 3, 3, 3, 1; only w3 has neighbours unlike it,
    # sigma = 2 sqrt(2 ln 1.25e5) / 0.5 = 19.4; its draw of seed 0 is -2.131, of seed 1 1.632:
    # noisy f = 3, 3, 3 and -40.3 or 32.6
    for seed, noise in ((0, -2.131411), (1, 1.631897)):
        assert table_noise(seed, 4)[3] == pytest.approx(noise, abs=1e-6)
    # F = 1, 1, 1, 0: lists of 1, 1, 1 and 2; from w3 scores 1 and 0
    rows = laws_of(dp.DynText(epsilon=2.0, candidates=2), space)
    assert np.array_equal(rows[:3], np.eye(4)[:3])
    assert rows[3] == pytest.approx([0, 0, 1 / (E + 1), E / (E + 1)])
    rows = laws_of(dp.DynText(epsilon=2.0, candidates=2, table_seed=1), space)
    assert np.array_equal(rows[3], np.eye(4)[3])  # F = 0, 0, 0, 1: the sparse one is crowded
    own, other = E / (E + 1), 1 / (E + 1)
    assert rows[:3] == pytest.approx(
        np.array([[own, other, 0, 0], [other, own, 0, 0], [0, other, own, 0]])
    )
    rows = laws_of(dp.DynTextStrict(epsilon=2.0, candidates=2, table_seed=1), space)
    assert rows == pytest.approx((1 + (E - 1) * np.eye(4)) / (E + 3))  # only the own score is 1


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
    return d, lists, f, sigma


@pytest.mark.parametrize(
    ("seed", "size", "epsilon_density"), [(0, 4, 0.5), (1, 7, 9.0), (2, 3, 40)]
)
def test_the_law_of_the_length_is_the_literal_one(seed, size, epsilon_density):
    space = random_space(tokens=30, dimensions=2, seed=seed)
    _, lists, f, sigma = literally(space, size, epsilon_density, 1e-2)
    public = density(space, size, epsilon_density, 1e-2)
    assert public.listed.tolist() == lists
    law = np.exp(public.log_lengths())
    low, high = min(f), max(f)
    noisy = 0
    for t in range(30):
        if sigma[t] == 0:
            certain = min(max((high - f[t]) * size // (high - low), 1), size)
            assert law[t, certain - 1] == 1.0
            continue
        noisy += 1
        cdf = NormalDist(f[t], sigma[t]).cdf
        at_least = [1.0, *(cdf(high - k * (high - low) / size) for k in range(2, size + 1)), 0.0]
        assert law[t] == pytest.approx(-np.diff(at_least), abs=1e-12)
    assert noisy > 10


@over("seed, size", [(0, 4), (1, 7), (2, 3)])
@over("kind", [dp.DynText, dp.DynTextStrict])
def test_dyntext_is_the_table_made_literally(kind, seed, size):
    """A row is that of the k_t-list by Eq. 6; with the clean extremes most would be another."""
    space = random_space(tokens=30, dimensions=2, seed=seed)
    d, lists, f, sigma = literally(space, size, 0.5, 1e-5)
    noise = table_noise(seed, 30)
    noisy = [f[t] + sigma[t] * noise[t] for t in range(30)]

    def row(t, low, high):
        k = min(max(math.floor((1 - (noisy[t] - low) / (high - low)) * size), 1), size)
        farthest = d[t][lists[t][k - 1]] or 1.0
        weights = np.full(30, float(kind.full_support))
        for s in lists[t][:k]:
            weights[s] = math.exp(1.5 * (1 - d[t][s] / farthest))
        return weights / weights.sum()

    mechanism = kind(epsilon=3.0, candidates=size, table_seed=seed)
    rows = laws_of(mechanism, space)
    assert rows == pytest.approx(np.array([row(t, min(noisy), max(noisy)) for t in range(30)]))
    clean = np.array([row(t, min(f), max(f)) for t in range(30)])
    assert (np.abs(rows - clean).max(axis=1) > 1e-3).sum() > 5
    again = kind(epsilon=3.0, candidates=size, table_seed=seed + 1)
    assert again.fingerprint != mechanism.fingerprint
    assert not np.array_equal(laws_of(again, space), rows)


def test_the_noise_of_a_table_is_standard_normal_and_public():
    noise = table_noise(7, 20_000)
    assert stats.kstest(noise, "norm").pvalue > 1e-3
    assert np.array_equal(table_noise(7, 10), noise[:10])
    assert not np.isin(table_noise(8, 10), noise).any()


def test_fresh_dyntext_is_the_two_steps_drawn_literally():
    """Chi-squared with power: the laws at another epsilon_density or list length are rejected."""
    space, token, size = random_space(tokens=30, dimensions=2, seed=1), 3, 7
    given = {"epsilon": 3.0, "epsilon_density": 9.0, "delta": 1e-2, "candidates": size}
    given["reading"] = "fresh"
    d, lists, f, sigma = literally(space, size, 9.0, 1e-2)
    generator = np.random.default_rng(0)
    noisy = f[token] + sigma[token] * generator.normal(size=DRAWS)
    shares = (noisy - min(f)) / (max(f) - min(f))
    lengths = np.clip(np.floor((1 - shares) * size), 1, size).astype(int)
    counts = np.zeros(30)
    for k in range(1, size + 1):
        listed = lists[token][:k]
        farthest = max(d[token][s] for s in listed) or 1.0
        weights = np.array([math.exp(1.5 * (1 - d[token][s] / farthest)) for s in listed])
        drawn = generator.multinomial(int((lengths == k).sum()), weights / weights.sum())
        counts[listed] += drawn
    assert p_value(counts, law_of(dp.DynText(**given), space, token)) > 1e-3
    for change in ({"epsilon_density": 3.0}, {"candidates": 6}, {"delta": 1e-5}, {"epsilon": 2.0}):
        assert p_value(counts, law_of(dp.DynText(**{**given, **change}), space, token)) < 1e-9, (
            change
        )


@pytest.mark.parametrize("reading", ["table", "fresh"])
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
    """Thirty tokens close together and thirty far apart."""
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
    bound = dp.audit(mechanism, clustered(), failure_probability=1e-9)
    assert bound <= dp.certify(mechanism, clustered()).epsilon


@pytest.mark.parametrize(
    ("total", "epsilon", "density"), [(3.0, 2.5, 0.5), (1.0, 0.5, 0.5), (0.2, 0.1, 0.1)]
)
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


def test_what_is_possible_stays_possible_far_in_the_tail():
    """With almost no noise the other lengths are never seen, but they are not impossible."""
    space = space_of(LINE)
    mechanism = dp.DynText(epsilon=2.0, epsilon_density=1e6, candidates=3, reading="fresh")
    row = mechanism.log_probs([3], space)[0]
    assert np.isneginf(row).tolist() == [True, False, False, False]
    near = density(random_space(tokens=30, dimensions=2), 5, 1e6, 1e-5)
    law = near.log_lengths()
    noisy = near.log_sigma > -np.inf
    assert np.isfinite(law[noisy]).all()
    assert law[noisy].min() < -1e6
    assert (np.isfinite(law[~noisy]).sum(axis=1) == 1).all()


def test_the_normal_mass_of_an_interval_is_accurate_in_the_tails():
    found = _log_normal(np.array([30.0, -31.0, 1e-12, -0.5]), np.array([31.0, -30.0, 3e-12, 0.5]))
    tail, _ = integrate.quad(lambda x: math.exp((900 - x * x) / 2), 30, 31)
    tail = math.log(tail / math.sqrt(2 * math.pi)) - 450
    flat = math.log(2e-12 / math.sqrt(2 * math.pi))
    middle = math.log(NormalDist().cdf(0.5) - NormalDist().cdf(-0.5))
    assert found == pytest.approx([tail, tail, flat, middle], rel=1e-12)


def test_tem_by_hand():
    space = space_of([[0.0], [1.0], [3.0]])
    weights = np.array([1, E**-1, E**-2])  # distance 3 counts as 2
    mechanism = dp.TruncatedExponential(epsilon=2.0, threshold=2.0)
    assert law_of(mechanism, space, 0) == pytest.approx(weights / weights.sum())
    assert dp.TruncatedExponential(epsilon=0.5).cut(3) == pytest.approx(4 * math.log(999 * 2))
    assert dp.TruncatedExponential(epsilon=0.5, beta=0.2).cut(3) == pytest.approx(4 * math.log(8))


@pytest.mark.parametrize("threshold", [0.5, 1.5, 50.0])
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


def test_equal_vectors_are_equally_likely():
    space = space_of(np.ones((4, 2)))
    # no token is denser than another: full lists, ties by index, the token itself first
    literal = dp.DynText(epsilon=2.0, candidates=2)
    assert law_of(literal, space, 3) == pytest.approx([0.5, 0, 0, 0.5])
    strict = dp.DynTextStrict(epsilon=2.0, candidates=2)
    expected = np.array([E, 1, 1, E]) / (2 * E + 2)
    assert law_of(strict, space, 3) == pytest.approx(expected)
    assert law_of(dp.TruncatedExponential(epsilon=2.0), space, 3) == pytest.approx(0.25)


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
