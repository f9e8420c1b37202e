"""Certificates of contextual mechanisms against the exact law of whole released texts."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.cases import over, refuses
from support.contexts import by_left
from support.spaces import random_space, space_of
from support.text_laws import worst_loss

import dp_middleware as dp
from dp_middleware.certification.proofs import certify_contextual
from dp_middleware.mechanisms.cape import Cape, CapeStrict
from dp_middleware.sampling import sampler

ANY = dp.Adjacency.substitution()
BOTH = over("kind", [Cape, CapeStrict])
SIZE = 4


def context_of(rows):
    """Logits from a public table, by the token on the left, raw or released."""
    table = np.asarray(rows, dtype=float)
    return by_left(rows, raw=lambda ids: table[np.append(-1, ids)[:-1]], window=2)


def all_texts(length):
    return list(itertools.product(range(-1, SIZE), repeat=length))


def steep_context(bound=4.0):
    """Each left token puts all weight elsewhere: the worst that a context can do."""
    return context_of(np.vstack([bound * np.eye(SIZE), np.full(SIZE, bound)]))


@BOTH
@over("length", [1, 2, 3])
def test_a_released_context_costs_one_position(kind, length):
    space = random_space(tokens=SIZE, seed=4)
    mechanism = kind(epsilon=2.0, buckets=3, logit_bound=4.0, context="released")
    certificate = certify_contextual(mechanism, space, ANY, None)
    assert certificate.method == "proof"
    loss = worst_loss(mechanism, space, steep_context(), all_texts(length))
    assert 0.3 * certificate.epsilon < loss <= certificate.epsilon


def test_a_raw_context_really_exceeds_one_position():
    """Its own row by the distances, its neighbour's by the logits: more than any one position."""
    space = space_of([[0.0], [0.0], [40.0], [40.0]])
    context = context_of([[4, 4, 0, 0], [4, 4, 0, 0], [0, 0, 4, 4], [0, 0, 4, 4], [4, 4, 4, 4]])
    settings_ = {"epsilon": 2.0, "buckets": 2, "logit_bound": 4.0, "distance_weight": 50.0}
    raw = CapeStrict(**settings_, context="raw")
    one = raw.position_loss(SIZE)
    for length in (2, 3):
        loss = worst_loss(raw, space, context, all_texts(length))
        assert loss > 1.2 * one
        assert loss <= certify_contextual(raw, space, ANY, length).epsilon
        released = CapeStrict(**settings_)
        assert worst_loss(released, space, context, all_texts(length)) <= one + 1e-9


@BOTH
def test_an_unknown_length_guarantees_nothing(kind):
    space = random_space(tokens=SIZE)
    mechanism = kind(epsilon=2.0, logit_bound=4.0, context="raw")
    certificate = certify_contextual(mechanism, space, ANY, None)
    assert certificate.epsilon == math.inf
    assert certificate.method == "none"
    assert isinstance(certificate.guarantee, dp.NoGuarantee)
    assert "length=" in certificate.guarantee.reason
    known = certify_contextual(mechanism, space, ANY, 7)
    assert known.guarantee == dp.PureDP(epsilon=known.epsilon)
    assert known.epsilon == pytest.approx(7 * mechanism.position_loss(SIZE), rel=1e-9)
    assert known.claimed == mechanism.claimed_on(space) >= 2.0
    refuses("length", lambda n: dp.certify(mechanism, space, length=n), 0, -1, 2.0, True)


@BOTH
def test_dropped_tokens_leak_unless_they_are_no_neighbours(kind):
    mechanism = kind(epsilon=2.0, logit_bound=4.0, context="released")
    space = random_space(tokens=SIZE, unknown="drop")
    leak = certify_contextual(mechanism, space, ANY, None)
    assert leak.epsilon == math.inf
    assert "dropped" in leak.guarantee.reason
    with pytest.raises(dp.CannotCalibrate, match="dropped"):
        dp.calibrate(mechanism, space, 3.0)
    alone = certify_contextual(mechanism, space, dp.Adjacency.within([0, 0, 1, 1]), None)
    assert alone.epsilon == pytest.approx(mechanism.position_loss(SIZE), rel=1e-9)
    beside = certify_contextual(mechanism, space, dp.Adjacency.within([0, 0, 1, 1, 1]), None)
    assert beside.epsilon == math.inf


@BOTH
def test_a_certificate_says_what_it_relies_on_and_can_be_stored(kind):
    for context, word in (("raw", "at 9 positions"), ("released", "released tokens")):
        mechanism = kind(epsilon=2.0, logit_bound=4.0, context=context)
        relation = dp.Adjacency.within([0, 0, 1, 1])
        certificate = certify_contextual(mechanism, random_space(tokens=SIZE), relation, 9)
        assert word in " ".join(certificate.assumptions)
        assert "logit bound is a public constant" in " ".join(certificate.assumptions)
        assert "class of a token is public" in " ".join(certificate.assumptions)
        assert dp.Certificate.from_dict(certificate.to_dict(), relation) == certificate


@BOTH
@settings(max_examples=40)
@given(
    size=st.sampled_from([2, 3, 7, 40]),
    epsilon=st.sampled_from([0.5, 8.0, 55.0, 70.0, 150.0, 400.0]),
    seed=st.integers(0, 1000),
)
def test_integers_stay_within_the_certificate(kind, size, epsilon, seed):
    space = space_of(np.ones((size, 1)))
    mechanism = kind(epsilon=epsilon, buckets=5, logit_bound=1.0, context="released")
    generator = np.random.default_rng(seed)
    logits = generator.random((6, size)) ** generator.choice([0.01, 1.0, 30.0], size=(6, 1))
    logits[0], logits[1] = 0.0, 1.0
    logits[0, 0], logits[1, 0] = 1.0, 0.0
    rows = mechanism.log_probs([0] * 6, space, logits)
    spread = loss_of_integers(np.vstack([rows, np.full(size, -math.log(size))]))
    certificate = certify_contextual(mechanism, space, ANY, None)
    assert spread <= certificate.epsilon
    assert certificate.epsilon - mechanism.position_loss(size) < 2 * math.log(2) + 1e-6
    if epsilon < 60:
        assert certificate.epsilon - mechanism.position_loss(size) < 1e-5


def loss_of_integers(rows):
    logs = []
    for table in sampler.tables(rows):
        bits = 64 if table.low is None else 128
        numbers = table.integers(rows.shape[1])
        assert sum(numbers) == 2**bits
        logs.append([math.log(number) - bits * math.log(2) for number in numbers])
    return np.ptp(logs, axis=0).max()


@BOTH
def test_rounding_adds_to_the_loss_of_a_position_and_is_included(kind):
    """Two tokens, where the bound is attained, and integers just above 2^64 e^-30."""
    space, excesses = space_of(np.ones((2, 1))), []
    for epsilon in np.linspace(50.0, 59.9, 40):
        mechanism = kind(epsilon=epsilon, buckets=2, logit_bound=1.0, context="released")
        rows = mechanism.log_probs([0, 0], space, [[1.0, 0.0], [0.0, 1.0]])
        drawn = loss_of_integers(rows)
        assert drawn <= certify_contextual(mechanism, space, ANY, None).epsilon
        excesses.append(drawn - mechanism.position_loss(2))
    assert max(excesses) > 1e-8


@over("size", [2, 51, 1000])
@over("epsilon", [1.0, 6.0, 300.0])
def test_calibration_meets_the_target(size, epsilon):
    one, space = space_of([[1.0]]), space_of(np.ones((size, 1)))
    for mechanism, length in (
        (CapeStrict(epsilon=1.0, logit_bound=3.0), None),
        (CapeStrict(epsilon=1.0, logit_bound=3.0, buckets=3, context="raw"), 4),
        (Cape(epsilon=1.0, logit_bound=3.0, buckets=2, context="released"), None),
    ):
        aim = epsilon + (12.0 if isinstance(mechanism, Cape) else 0.0)
        found = dp.calibrate(mechanism, space, aim, length=length)
        certified = certify_contextual(found, space, ANY, length).epsilon
        assert aim * (1 - 1e-6) <= certified <= aim
        assert found == mechanism.at(found.epsilon)
        twice = dp.calibrate(mechanism, space, 2 * aim, length=length)
        assert twice.epsilon > found.epsilon
        free = dp.calibrate(mechanism, one, aim, length=length)  # one token costs nothing
        assert free.epsilon == free.largest
        assert certify_contextual(free, one, ANY, length).epsilon < 1e-6


def test_sizes_alone_can_exceed_the_target():
    space = space_of(np.ones((29_523, 1)))
    with pytest.raises(dp.CannotCalibrate, match=r"below 13\.5.*epsilon=10"):
        dp.calibrate(Cape(epsilon=1.0, logit_bound=1.0, context="released"), space, 10.0)
    with pytest.raises(dp.CannotCalibrate, match="sizes"):
        dp.calibrate(CapeStrict(epsilon=1.0, logit_bound=1.0, buckets=50), space, 1e-3)
    with pytest.raises(dp.CannotCalibrate, match="length="):
        dp.calibrate(Cape(epsilon=1.0, logit_bound=1.0), space, 10.0)
