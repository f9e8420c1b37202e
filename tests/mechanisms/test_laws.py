"""Every law of the design on every mechanism, on random spaces."""

import itertools
import math
import pickle
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.cases import over, refuses
from support.laws import law_of, p_value
from support.spaces import CASES, brute_force_loss, host_rows, random_space, spaces
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.mechanisms.base import rows_of
from dp_middleware.sampling import sampler as sampling

EVERY = over("name", CASES)
EPSILONS = st.sampled_from([1e-3, 0.5, 1.0, 1.9999, 2.0001, 3.0, 8.0, 20.0])
DRAWS = 40_000
FALSE_ALARM = 1e-9  # two-sided tests on fresh entropy: once in 10^9 runs


def all_rows(mechanism, space):
    return mechanism.log_probs(np.arange(len(space)), space)


@EVERY
@settings(max_examples=12)
@given(space=spaces(), epsilon=EPSILONS)
def test_rows_are_log_probabilities(name, space, epsilon):
    rows = all_rows(CASES[name](epsilon), space)
    assert rows.shape == (len(space), len(space))
    assert rows.dtype == np.float64
    assert not np.isnan(rows).any()
    np.testing.assert_allclose(np.exp(rows).sum(axis=1), 1.0, rtol=1e-12)


@EVERY
@settings(max_examples=12)
@given(space=spaces(), epsilon=EPSILONS, data=st.data())
def test_a_row_ignores_the_other_ids(name, space, epsilon, data):
    mechanism = CASES[name](epsilon)
    ids = data.draw(st.lists(st.integers(0, len(space) - 1), min_size=1, max_size=90))
    rows = all_rows(mechanism, space)
    assert np.array_equal(mechanism.log_probs(ids, space), rows[ids])  # bit for bit


@EVERY
@settings(max_examples=12)
@given(space=spaces(), epsilon=EPSILONS)
def test_the_exact_loss_is_the_brute_force_one(name, space, epsilon):
    mechanism = CASES[name](epsilon)
    certificate = dp.certify(mechanism, space)
    loss = brute_force_loss(mechanism, space)
    if 60 < loss < math.inf:  # the least that is drawn has probability 2^-128
        assert 60 < certificate.epsilon <= 128 * math.log(2) + 1e-9
    else:
        assert certificate.epsilon == pytest.approx(loss, abs=1e-6)
        assert certificate.epsilon >= loss - 1e-9
    if math.isfinite(loss):
        assert certificate.guarantee == dp.PureDP(epsilon=certificate.epsilon)
        assert certificate.method == "exact"
    else:
        assert isinstance(certificate.guarantee, dp.NoGuarantee)
        assert (certificate.method, certificate.metric) == ("none", None)


@EVERY
@settings(max_examples=12)
@given(space=spaces(), epsilon=EPSILONS)
def test_a_metric_proof_holds_beside_the_exact_loss(name, space, epsilon):
    """For all pairs of what is drawn from; the unknown symbol is one diameter away."""
    mechanism = CASES[name](epsilon)
    if mechanism.notion == "pure":
        pytest.skip("no metric proof")
    certificate = dp.certify(mechanism, space)
    assert certificate.metric == dp.MetricDP(epsilon=epsilon, slack=certificate.metric.slack)
    farthest = epsilon * space.diameter + certificate.metric.slack
    assert certificate.epsilon <= farthest
    ids = np.arange(len(space))
    drawn = sampling.integer_rows(rows_of(mechanism, ids, space))
    logs = (drawn.weights * drawn.units).log().numpy()
    losses = np.abs(logs[:, None, :] - logs[None, :, :]).max(axis=2)
    assert (losses <= epsilon * space.distances(ids) + certificate.metric.slack).all()
    if space.vocabulary.has_unknown_symbol:
        assert (np.abs(logs + math.log(len(space))) <= farthest).all()


@EVERY
@settings(max_examples=12)
@given(space=spaces(), epsilon=EPSILONS)
def test_a_proved_claim_holds(name, space, epsilon):
    if not CASES[name].proved:
        pytest.skip("the claim is false or of another kind; see test_channels.py")
    certificate = dp.certify(CASES[name](epsilon), space)
    assert certificate.epsilon <= certificate.claimed + 1e-9


@EVERY
@settings(max_examples=8)
@given(space=spaces())
def test_smaller_epsilon_tends_to_no_loss(name, space):
    if not CASES[name].finite:
        pytest.skip("supports differ at every epsilon")
    assert dp.certify(CASES[name](1e-6), space).epsilon < 1e-4


@EVERY
def test_draws_follow_the_law_and_would_reject_twice_epsilon(name):
    space = random_space(tokens=8, dimensions=3, seed=3)
    mechanism, other, token = CASES[name](3.0), CASES[name](6.0), 2
    sampler = sampling.Sampler(lambda ids: host_rows(mechanism, ids, space))
    drawn = sampler.draw(np.full(DRAWS, token))
    counts = np.bincount(drawn, minlength=len(space))
    assert p_value(counts, law_of(mechanism, space, token)) > FALSE_ALARM
    assert p_value(counts, law_of(other, space, token)) < FALSE_ALARM


@EVERY
def test_the_table_drawn_from_is_the_table_certified(name):
    space = random_space(tokens=150, dimensions=5, seed=7)
    mechanism = CASES[name](8.0)
    everyone = np.arange(len(space))
    certified = sampling.integer_rows(host_rows(mechanism, everyone, space))
    sampler = sampling.Sampler(lambda ids: host_rows(mechanism, ids, space))
    shuffled = np.random.default_rng(0).permutation(everyone)
    for token, table in zip(shuffled, sampler.tables(shuffled), strict=True):
        integers = table.integers(len(space))
        assert sum(integers) == 2 ** int(certified.bits[token])
        assert [float(k) for k in integers] == certified.weights[token].tolist()


@EVERY
def test_rows_recomputed_in_single_precision_agree(name):
    """The float32 law stays within a stated bound of the float64 one, so devices may differ."""
    space = random_space(tokens=40, dimensions=6, seed=5)
    rounded = dp.EmbeddingSpace(space.vocabulary, space.vectors.astype(np.float32))
    mechanism = CASES[name](3.0)
    exact, single = all_rows(mechanism, space), all_rows(mechanism, rounded)
    assert np.array_equal(np.isfinite(exact), np.isfinite(single))
    finite = np.isfinite(exact)
    assert np.abs(exact[finite] - single[finite]).max() < 1e-4


@EVERY
def test_bad_numbers_are_refused(name):
    refuses("epsilon", CASES[name], 0, -1.0, math.nan, math.inf, "3", None, True)
    read = partial(CASES[name](1.0).log_probs, space=random_space())
    refuses("expected ids", read, [-1], [99], [0.5], [[0]])
    assert read([]).shape == (0, 12)


@EVERY
def test_one_token_alone_has_no_loss(name):
    space = random_space(tokens=1, seed=1, unknown="raise")
    certificate = dp.certify(CASES[name](3.0), space)
    assert certificate.epsilon == pytest.approx(0.0, abs=1e-6)
    assert certificate.witness is None


@EVERY
def test_retention_stays_below_the_bound_of_the_certificate(name):
    for seed, epsilon in itertools.product(range(3), (0.5, 3.0, 6.0)):
        space = random_space(tokens=20, seed=seed)
        certificate = dp.certify(CASES[name](epsilon), space)
        if not certificate.finite:
            continue
        factor = math.exp(min(certificate.epsilon, 500.0))
        assert certificate.retention <= factor / (factor + len(space) - 1) + 1e-9
        assert certificate.retention <= certificate.recovery + 1e-12


@EVERY
def test_nothing_of_a_text_shows_in_values_errors_or_logs(name, caplog):
    caplog.set_level(0)
    space = random_space()
    sanitizer = dp.Sanitizer(CASES[name](3.0), space, accept_infinite=True)
    release = sanitizer.release(f"w1 {CANARY} w2")
    shown = [release.text, repr(release), repr(sanitizer), repr(sanitizer.explain(CANARY))]
    shown += [repr(pickle.dumps(release)), repr(pickle.dumps(sanitizer)), caplog.text]
    strict = dp.Sanitizer(CASES[name](3.0), random_space(unknown="raise"), accept_infinite=True)
    with pytest.raises(dp.UnknownTokenError) as caught:
        strict.release(CANARY)
    assert CANARY not in "".join([*shown, str(caught.value)])
