"""CAPE: golden rows, the theorem that fails, and the loss of one position as a supremum."""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp
from support.cases import over
from support.spaces import crowded_space, space_of, spaces
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.contexts import Context
from dp_middleware.mechanisms.cape import equal_frequency
from dp_middleware.mechanisms.drawing import drawer
from dp_middleware.sampling import sampler

E = math.e
BOTH = over("kind", [dp.Cape, dp.CapeStrict])
EPSILONS = st.sampled_from([1e-3, 0.5, 2.0, 8.0, 60.0])
BUCKETS = st.integers(1, 12) | st.just(10**6)  # a table of all would have millions of cells
LOGITS = st.one_of(st.sampled_from([-3.0, 0.0, 1.0, 4.0, 9.0]), st.floats(-5, 12))


def probabilities(mechanism, space, token, logits):
    return np.exp(mechanism.log_probs([token], space, [logits])[0])


def flat_space(size):
    """All vectors equal: no distances, so the logits alone decide the utilities."""
    return space_of(np.ones((size, 2)))


def loss(rows):
    return (rows.max(axis=0) - rows.min(axis=0)).max()


def test_utilities_by_hand():
    """distances of token 0: 0, 1, 4, so D_norm 0, 1/4, 1; logits clipped to 4, 1, 0."""
    space = space_of([[0.0], [1.0], [4.0]])
    mechanism = dp.Cape(epsilon=3.0, buckets=2, logit_bound=4.0)
    # u = 2 * 1, 1 * e^(-1/4), 0 of at most 2: two buckets over [0, 2], split at 1
    found = probabilities(mechanism, space, 0, [7.0, 1.0, -2.0])
    middle = math.exp(-0.25)  # 0.78: in the lower bucket, beside 0
    upper, lower = math.exp(3.0 * 2 / 4), math.exp(3.0 * (middle / 2) / 4)
    expected = np.array([upper, lower / 2, lower / 2]) / (upper + lower)
    assert found == pytest.approx(expected, rel=1e-12)


def test_the_printed_utilities_by_hand():
    """distances 0, 1, 4; logits clipped to 4, -1, -4, their roots with the sign: 2, -1, -2."""
    space = space_of([[0.0], [1.0], [4.0]])
    u = [2.0, -math.exp(-0.25), -2 * math.exp(-1.0)]  # 2, -0.779, -0.736: Delta is 2.779
    upper, lower = math.exp(1.5), 1.0  # of two buckets the utilities are 1 and 0 over their range
    mechanism = dp.Cape(epsilon=3.0, buckets=2, logit_bound=4.0, sensitivity="printed")
    found = probabilities(mechanism, space, 0, [7.0, -1.0, -9.0])
    expected = np.array([upper, lower / 2, lower / 2]) / (upper + lower)
    assert found == pytest.approx(expected, rel=1e-12)
    strict = dp.CapeStrict(epsilon=3.0, buckets=3, logit_bound=4.0, sensitivity="printed")
    weights = np.exp([1.5, 0.0, 1.5 * (u[2] - u[1]) / (u[0] - u[1])])  # a token a bucket
    found = probabilities(strict, space, 0, [7.0, -1.0, -9.0])
    assert found == pytest.approx(weights / weights.sum(), rel=1e-12)


@BOTH
def test_the_printed_delta_is_the_range_of_the_buckets_utilities(kind):
    logits, bound = np.array([0.3, 2.0, 1.1, 5.0]), 3.0
    u = np.sqrt(np.minimum(logits, bound))
    # .55, 1.41, 1.05, 1.73: three buckets of equal width have one, one and two of them, or of equal
    # frequency two, one and one from the top: Delta is less than the tokens' range
    parts = {dp.Cape: [[0], [2], [1, 3]], dp.CapeStrict: [[1, 3], [2], [0]]}[kind]
    for buckets, groups in ((1000, [[k] for k in range(4)]), (3, parts)):
        means = np.array([u[group].mean() for group in groups])
        weights = np.exp(2.0 * means / (2 * np.ptp(means)))
        expected = np.empty(4)
        for group, weight in zip(groups, weights / weights.sum(), strict=True):
            expected[group] = weight / len(group)
        mechanism = kind(epsilon=2.0, buckets=buckets, logit_bound=bound, sensitivity="printed")
        found = probabilities(mechanism, flat_space(4), 0, logits)
        assert found == pytest.approx(expected, rel=1e-12)


@BOTH
def test_printed_rows_without_range_or_logits(kind):
    given = {"epsilon": 3.0, "buckets": 3, "logit_bound": 4.0, "sensitivity": "printed"}
    flat = probabilities(kind(**given), flat_space(6), 2, [-1.0] * 6)
    assert flat == pytest.approx(np.full(6, 1 / 6))
    space = space_of([[0.0], [1.0], [4.0]])
    u = np.exp([0.0, -0.25, -1.0])  # with a weight of 0 no sign of a logit matters
    weights = np.exp(1.5 * (u - u.min()) / (u.max() - u.min()))
    for logits in ([-1.0, 0.0, 4.0], [0.0] * 3):
        mechanism = kind(**given | {"buckets": 1000}, logit_weight=0.0)
        found = probabilities(mechanism, space, 0, logits)
        assert found == pytest.approx(weights / weights.sum(), rel=1e-12)


def test_the_claim_has_its_second_term_at_its_worst():
    """V - 1 tokens in one bucket and one in another, which the first input of the proof has."""
    mechanism = dp.Cape(epsilon=0.5, buckets=5, logit_bound=1.0, logit_weight=1.0)
    assert mechanism.claimed_on(flat_space(10)) == pytest.approx(0.5 + math.log(9))
    assert mechanism.claimed_on(flat_space(2)) == mechanism.claimed_on(flat_space(1)) == 0.5
    assert dataclasses.replace(mechanism, buckets=1).claimed_on(flat_space(10)) == 0.5


def test_the_default_is_as_it_was_in_ledgers_and_the_printed_form_another():
    made = dp.Cape(epsilon=3.0, logit_bound=20.0)
    assert made.fingerprint == "cape-5c0fe752c37a9490"
    assert made == dataclasses.replace(made, sensitivity="worst-case")
    assert dataclasses.replace(made, sensitivity="printed").fingerprint != made.fingerprint
    with pytest.raises(dp.ParameterError, match="sensitivity"):
        dataclasses.replace(made, sensitivity="range")


def test_equal_width_buckets_by_hand():
    """Utilities 0, 1/4, 1/2, 3/4, 1 and 4 buckets: the largest joins the last; one is empty."""
    mechanism = dp.Cape(epsilon=4.0, buckets=4, logit_bound=1.0, logit_weight=1.0)
    found = probabilities(mechanism, flat_space(4), 0, [0.0, 0.25, 0.75, 1.0])
    # buckets {0}, {1/4}, none, {3/4, 1}; means 0, 1/4, 7/8; exponents doubled
    weights = np.array([1.0, E**0.5, E**1.75])
    weights /= weights.sum()
    assert found == pytest.approx([weights[0], weights[1], weights[2] / 2, weights[2] / 2])
    strict = dp.CapeStrict(epsilon=4.0, buckets=3, logit_bound=1.0, logit_weight=1.0)
    found = probabilities(strict, flat_space(5), 0, [0.0, 1.0, 0.5, 0.0, 0.5])
    # by size 2, 2, 1 from the top, ties by index: {1, 2}, {4, 0}, {3}, means 3/4, 1/4, 0
    weights = np.array([E**0.5, E**1.5, E**1.5, 2.0, E**0.5]) / 2
    assert found == pytest.approx(weights / weights.sum())


def test_ties_of_many_tokens_go_by_index():
    """Enough equal utilities that an unstable sort would mix them."""
    high = (np.arange(400) % 4 == 3).astype(float)
    index = equal_frequency(torch.from_numpy(high)[None], 4)[0]
    assert index[high == 1].tolist() == [0] * 100
    assert index[high == 0].tolist() == [1] * 100 + [2] * 100 + [3] * 100


@BOTH
@settings(max_examples=40)
@given(space=spaces(), epsilon=EPSILONS, data=st.data())
def test_rows_are_laws_and_ignore_the_other_rows(kind, space, epsilon, data):
    mechanism = kind(epsilon=epsilon, buckets=data.draw(BUCKETS), logit_bound=5.0)
    count, size = data.draw(st.integers(1, 80)), len(space)
    seed = data.draw(st.integers(0, 99))
    ids = np.random.default_rng(seed).integers(0, size, count)
    logits = np.random.default_rng(seed).normal(2.0, 3.0, size=(count, size))
    rows = mechanism.log_probs(ids, space, logits)
    assert rows.shape == (count, size)
    assert np.isfinite(rows).all()
    np.testing.assert_allclose(np.exp(rows).sum(axis=1), 1.0, rtol=1e-12)
    one = data.draw(st.integers(0, count - 1))
    alone = mechanism.log_probs(ids[one : one + 1], space, logits[one : one + 1])
    assert np.array_equal(alone[0], rows[one])  # bit for bit


def test_theorem_4_1_is_false():
    """The second of two tokens has more non-empty buckets, which the claim knows nothing of."""
    space, logits = crowded_space(), [[0.0] * 10] * 2
    options = {"epsilon": 0.5, "buckets": 5, "logit_bound": 1.0, "logit_weight": 0.0}
    mechanism = dp.Cape(**options)
    found = loss(mechanism.log_probs([0, 1], space, logits))
    claimed = mechanism.claimed_epsilon + math.log(9 / 1)
    assert claimed == pytest.approx(2.697, abs=1e-3)
    assert found == pytest.approx(2.873, abs=1e-3)
    assert found <= mechanism.position_loss(10)
    rows = dp.CapeStrict(**options).log_probs([0, 1], space, logits)
    assert loss(rows) <= 0.5  # the repair, on the same inputs


@pytest.mark.slow
@BOTH
@settings(max_examples=150)
@given(data=st.data(), epsilon=EPSILONS, buckets=st.integers(1, 9))
def test_the_loss_of_a_position_bounds_all_logits(kind, data, epsilon, buckets):
    space = data.draw(spaces())
    size = len(space)
    logits = data.draw(hnp.arrays(np.float64, (2, size), elements=LOGITS))
    ids = data.draw(st.lists(st.integers(0, size - 1), min_size=2, max_size=2))
    sensitivity = data.draw(st.sampled_from(["worst-case", "printed"]))
    mechanism = kind(epsilon=epsilon, buckets=buckets, logit_bound=4.0, sensitivity=sensitivity)
    rows = mechanism.log_probs(ids, space, logits)
    rows = np.vstack([rows, np.full(size, -math.log(size))])
    assert loss(rows) <= mechanism.position_loss(size) + 1e-9


@over("size, buckets", [(6, 3), (8, 2), (4, 9), (50, 10), (7, 1)])
@over("epsilon", [0.3, 2.0, 12.0, 400.0])
def test_the_strict_loss_is_attained_with_equal_sizes(size, buckets, epsilon):
    """Alone at the top with all others at the bottom, and the other way round."""
    mechanism = dp.CapeStrict(epsilon=epsilon, buckets=buckets, logit_bound=1.0)
    each = size // min(size, buckets)
    up, down = np.zeros(size), np.ones(size)
    up[:each], down[:each] = 1.0, 0.0
    rows = mechanism.log_probs([0, 0], flat_space(size), [up, down])
    assert rows[0, 0] - rows[1, 0] == pytest.approx(mechanism.position_loss(size), abs=1e-9)
    assert mechanism.position_loss(size) <= epsilon + 1e-12


@over("size, buckets", [(5, 3), (5, 4), (7, 3), (11, 4), (9, 8)])
@over("epsilon", [0.01, 0.3, 2.0, 12.0])
def test_the_strict_loss_is_attained_with_unequal_sizes(size, buckets, epsilon):
    """Every place of one token among two levels of utility, kept apart by 1e-13."""
    mechanism = dp.CapeStrict(epsilon=epsilon, buckets=buckets, logit_bound=1.0, logit_weight=1.0)
    tilt = np.linspace(0.0, 1e-13, size)
    ranks = [np.roll(np.arange(size), shift) for shift in range(size)]
    levels = [np.where(np.arange(size) < top, 1.0 - tilt, tilt[::-1]) for top in range(size + 1)]
    logits = [level[rank] for level in levels for rank in ranks]
    rows = mechanism.log_probs([0] * len(logits), flat_space(size), logits)
    bound = mechanism.position_loss(size)
    assert rows[:, 0].max() - rows[:, 0].min() == pytest.approx(bound, abs=1e-9)
    common = size // buckets
    assert bound <= epsilon + math.log((common + 1) / common)


@over("size, buckets", [(2, 2), (5, 3), (10, 5), (30, 7)])
@over("epsilon", [0.01, 0.5, 3.0])
@over("sensitivity, above", [("worst-case", 0.0), ("printed", 1.0)])
def test_the_loss_of_cape_is_a_supremum(size, buckets, epsilon, sensitivity, above):
    """Approached by tokens a hair below the upper ends; as printed it is a/(N - 1) less at most."""
    mechanism = dp.Cape(
        epsilon=epsilon, buckets=buckets, logit_bound=1.0, logit_weight=1.0, sensitivity=sensitivity
    )
    rows = [[1.0] + [0.0] * (size - 1), [0.5] * size]
    for others in range(1, min(buckets, size)):
        tops = [1.0, *(1 - np.arange(1, others) / buckets - 1e-9)]
        rows.append([0.0] * (size - others) + tops)
    laws = mechanism.log_probs([0] * len(rows), flat_space(size), rows)
    reached = laws[0, 0] - laws[:, 0].min()
    bound = mechanism.position_loss(size)
    assert bound - above * epsilon / 2 / (buckets - 1) - 1e-7 <= reached <= bound + 1e-9


@BOTH
@over("size", [1, 2, 49, 50, 51, 1000, 29_523])
def test_more_epsilon_is_more_loss_also_where_exponentials_overflow(kind, size):
    epsilons = [1e-9, 0.1, 1.0, 3.0, 30.0, 1e3, 1e5, 1e6]
    losses = [kind(epsilon=e, logit_bound=1.0).position_loss(size) for e in epsilons]
    assert np.isfinite(losses).all()
    assert (np.diff(losses) > 0).all() if size > 1 else losses == [0.0] * 8
    if size > 1 and kind is dp.CapeStrict:
        common = size // min(size, 50)
        bounds = np.array(epsilons) + math.log((common + 1) / common)
        assert (losses <= bounds).all()


class Failing(Context):
    """Fails at one of its methods, and quotes what it was asked."""

    window = 3

    def __init__(self, where, error=ValueError):
        self.where, self.error = where, error

    def said(self, where):
        if where == self.where:
            raise self.error(CANARY)
        return np.zeros((1, 4))

    def logits(self, ids, space):
        return np.repeat(self.said("raw"), len(ids), axis=0)

    def start(self, space):
        self.said("start")
        said = self.said
        return SimpleNamespace(logits=lambda: said("stream"), append=lambda _: said("append"))


@over("where", ["raw", "start", "stream", "append"])
def test_what_a_failing_context_says_is_not_passed_on(where):
    mechanism = dp.CapeStrict(
        epsilon=1.0, logit_bound=1.0, context="raw" if where == "raw" else "released"
    )
    ids = [np.array([1, 2, 3])]
    with pytest.raises(dp.ParameterError, match="the context failed with ValueError") as caught:
        drawer(mechanism, flat_space(4), Failing(where)).draw(ids, sampler.os_entropy)
    assert CANARY not in str(caught.value)
    assert caught.value.__context__ is caught.value.__cause__ is None
    missing = Failing(where, lambda text: dp.MissingExtra("thing", "extra"))
    with pytest.raises(dp.MissingExtra):  # the library's own errors are passed on
        drawer(mechanism, flat_space(4), missing).draw(ids, sampler.os_entropy)
    assert len(drawer(mechanism, flat_space(4), Failing("")).draw(ids, sampler.os_entropy)[0]) == 3


class InParts(Failing):
    def __init__(self, *sizes):
        super().__init__("")
        self.sizes = sizes

    def logits(self, ids, space):
        raise AssertionError("the logits of the whole text are not asked for")

    def blocks(self, ids, space, size):
        rows, start = np.where(np.eye(4)[ids] > 0, 1.0, 0.0), 0
        for count in self.sizes:
            assert count <= size
            yield rows[start : start + count]
            start += count


def test_a_raw_context_is_read_in_blocks():
    """At an epsilon that draws the likeliest, surely."""
    mechanism = dp.CapeStrict(epsilon=400.0, logit_bound=1.0, context="raw")
    ids = np.arange(200) % 4
    drawn = drawer(mechanism, flat_space(4), InParts(1, 150, 49)).draw([ids], sampler.os_entropy)
    assert np.array_equal(drawn[0], ids)
    with pytest.raises(dp.ParameterError, match="a row of logits for each token"):
        drawer(mechanism, flat_space(4), InParts(150)).draw([ids], sampler.os_entropy)
