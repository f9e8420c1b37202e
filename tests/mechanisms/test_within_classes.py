"""A channel kept inside public classes, and one for each: laws, losses, what is refused."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.cases import over, refuses
from support.spaces import CASES, host_rows, random_space, space_of, spaces

import dp_middleware as dp
from dp_middleware.certification.enumeration import classes_of

EPSILONS = st.sampled_from([0.5, 2.0, 8.0])


@st.composite
def cases(draw):
    """A space, and a label per token, sometimes one for the unknown symbol too."""
    space = draw(spaces())
    count = len(space) + draw(st.sampled_from([0, 1]))
    labels = draw(st.lists(st.sampled_from("abc"), min_size=count, max_size=count))
    return space, tuple(labels)


def within(inner, labels):
    return dp.WithinClasses(mechanism=inner, classes=labels)


def brute_force(mechanism, space, labels):
    """The largest loss between two inputs of one class."""
    ids = [*range(len(space)), *([-1] if space.vocabulary.has_unknown_symbol else [])]
    rows, worst = host_rows(mechanism, np.array(ids), space), 0.0
    for members in classes_of(space, dp.Adjacency.within(labels)):
        own = rows[members]
        for first in own:
            possible = np.isfinite(first)
            if (~np.isfinite(own[:, possible])).any():
                return math.inf
            worst = max(worst, float((first[possible] - own[:, possible]).max()))
    return worst


@over("name", CASES)
@settings(max_examples=5, deadline=None)
@given(case=cases(), epsilon=EPSILONS)
def test_the_law_is_the_inner_one_given_the_class(name, case, epsilon):
    space, labels = case
    inner = CASES[name](epsilon)
    rows = np.exp(within(inner, labels).log_probs(np.arange(len(space)), space))
    given_x = np.exp(inner.log_probs(np.arange(len(space)), space))
    same = np.equal.outer(labels[: len(space)], labels[: len(space)])
    restricted = np.where(same, given_x, 0.0)
    total = restricted.sum(axis=1, keepdims=True)
    reached = total[:, 0] > 0
    np.testing.assert_allclose(rows[reached], (restricted / total)[reached], rtol=1e-9)
    uniform = same / same.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(rows[~reached], uniform[~reached], rtol=1e-12)
    assert (rows[~same] == 0).all()


@over("name", [name for name in CASES if CASES[name].proved])
@settings(max_examples=5, deadline=None)
@given(case=cases(), epsilon=EPSILONS)
def test_at_most_twice_the_inner_loss(name, case, epsilon):
    space, labels = case
    mechanism = within(CASES[name](epsilon), labels)
    twice = 2 * dp.certify(mechanism.mechanism, space).epsilon
    certificate = dp.certify(mechanism, space, adjacency=mechanism.adjacency)
    assert certificate.epsilon <= min(twice, certificate.claimed) + 1e-6


@settings(max_examples=40, deadline=None)
@given(case=cases(), epsilon=EPSILONS)
def test_the_exponential_mechanism_keeps_its_epsilon(case, epsilon):
    space, labels = case
    mechanism = within(dp.TokenExponential(epsilon=epsilon), labels)
    found = dp.certify(mechanism, space, adjacency=mechanism.adjacency)
    assert found.epsilon <= epsilon + 1e-9


def test_across_classes_the_loss_is_infinite():
    space = random_space(tokens=6)
    mechanism = within(dp.TokenExponential(epsilon=1.0), "aaabbb")
    assert dp.certify(mechanism, space).epsilon == math.inf
    assert math.isfinite(dp.certify(mechanism, space, adjacency=mechanism.adjacency).epsilon)
    with pytest.raises(dp.InfiniteEpsilon):
        dp.Sanitizer(mechanism, space)
    with pytest.raises(dp.CannotCalibrate):
        dp.calibrate(mechanism, space, 1.0)


def test_an_unknown_symbol_is_released_as_its_class_or_uniformly():
    space = space_of([[0.0], [0.1], [5.0], [5.1]])
    inner = dp.NearestResponse(epsilon=1.0, candidates=1, codebook=(0, 1))
    own = {"a": dp.TokenExponential(epsilon=1.0), "b": inner}
    labelled, unlabelled = "aabbb", "aabb"
    for mechanism, row in (
        (within(own["a"], labelled), [0, 0, 0.5, 0.5]),
        (within(own["a"], unlabelled), [0.25] * 4),
        (within(inner, labelled), [0, 0, 0.5, 0.5]),  # the inner one reaches none of its class
        (dp.ByClass(own, labelled), [0.5, 0.5, 0, 0]),  # as its mechanism does
        (dp.ByClass(own, unlabelled), [0.25] * 4),
    ):
        found = np.exp(host_rows(mechanism, np.array([-1]), space)[0])
        assert found == pytest.approx(row)
        certificate = dp.certify(mechanism, space, adjacency=mechanism.adjacency)
        assert certificate.epsilon <= 2.0 + 1e-9


@over("scale", [1e-4, 1.0, 1e4])
def test_a_metric_channel_within_classes_is_calibrated_at_any_scale(scale):
    space = space_of(scale * random_space(tokens=60, seed=2).vectors)
    mechanism = within(dp.SanText(epsilon=1.0), [k % 3 for k in range(61)])
    found = dp.calibrate(mechanism, space, 3.0, adjacency=mechanism.adjacency)
    certificate = dp.certify(found, space, adjacency=mechanism.adjacency)
    assert 0.998 * 3.0 <= certificate.epsilon <= 3.0
    assert certificate.claimed == 2 * found.nominal  # per unit of distance
    assert certificate.metric is None  # of substitution only
    one_class = within(dp.SanText(epsilon=1.0), ["all"] * 61)
    plain = dp.certify(dp.SanText(epsilon=1.0), space)
    assert dp.certify(one_class, space).metric == plain.metric


LABELS = "aabbbaccab"


def by_class(*epsilons, kind=dp.TokenExponential, labels=LABELS):
    """A mechanism for each label, in alphabetical order."""
    own = zip(sorted(set(labels)), epsilons, strict=True)
    return dp.ByClass({label: kind(epsilon=epsilon) for label, epsilon in own}, labels)


@over("name", CASES)
@settings(max_examples=5, deadline=None)
@given(case=cases())
def test_each_class_has_the_rows_and_pays_the_loss_of_its_own_mechanism(name, case):
    space, labels = case
    inner = {label: CASES[name](1.0 + number) for number, label in enumerate(dict.fromkeys(labels))}
    mechanism = dp.ByClass(inner, labels)
    ids = np.arange(len(space))
    rows = mechanism.log_probs(ids, space)
    expected = [inner[labels[token]].log_probs([token], space)[0] for token in ids]
    assert np.array_equal(rows, expected)  # bit for bit
    found = dp.certify(mechanism, space, adjacency=mechanism.adjacency).epsilon
    assert found == pytest.approx(brute_force(mechanism, space, labels), abs=1e-6)
    for members in classes_of(space, mechanism.adjacency):
        alone = [k if k in members else -k - 1 for k in ids]  # other tokens have no neighbour
        relation = dp.Adjacency.within(
            [*alone, 0 if -1 in members else "unknown"] if len(labels) > len(space) else alone
        )
        whole = dp.certify(inner[labels[members[-1]]], space).epsilon
        assert dp.certify(mechanism, space, adjacency=relation).epsilon <= whole + 1e-9


def test_classes_pay_their_own_epsilon_and_pairs_across_at_most_the_mean():
    space, mechanism = random_space(tokens=10, seed=4), by_class(1.0, 2.0, 8.0)
    ids = np.arange(10)
    rows = mechanism.log_probs(ids, space)
    nominal = np.array([{"a": 1.0, "b": 2.0, "c": 8.0}[label] for label in LABELS])
    loss = (rows[:, None] - rows[None]).max(axis=2)
    assert (loss <= (nominal[:, None] + nominal[None]) / 2 + 1e-9).all()
    assert loss[np.ix_(nominal == 8, nominal == 1)].max() > 1.0  # more than the cheaper class pays
    everywhere = dp.certify(mechanism, space)
    with_unknown = max(loss.max(), abs(rows + math.log(10)).max())
    assert everywhere.epsilon == pytest.approx(with_unknown, abs=1e-6)
    within_one = dp.certify(mechanism, space, adjacency=mechanism.adjacency)
    assert within_one.epsilon == pytest.approx(loss[np.ix_([6, 7], [6, 7])].max(), abs=1e-6)
    assert within_one.claimed == 8.0
    assert any("between 1 and 8" in text for text in within_one.assumptions)


@over("kind", [dp.TokenExponential, dp.SanText, dp.RanTextStrict])
def test_calibration_scales_all_classes_by_one_factor(kind):
    space, mechanism = random_space(tokens=10, seed=4), by_class(1.0, 2.0, 4.0, kind=kind)
    found = dp.calibrate(mechanism, space, 3.0, adjacency=mechanism.adjacency)
    exact = dp.certify(found, space, adjacency=mechanism.adjacency).epsilon
    assert 0.998 * 3.0 <= exact <= 3.0
    nominal = [part.nominal for part in found.parts]
    assert nominal == pytest.approx([found.nominal / 4, found.nominal / 2, found.nominal])
    assert found.adjacency == mechanism.adjacency


def test_a_jump_of_a_part_is_a_jump_in_proportion():
    mechanism = by_class(1.0, 2.0, 4.0, kind=dp.RanText)
    for jump in mechanism.jumps:
        parts = mechanism.at(jump).parts
        assert min(abs(part.nominal - part.jumps[0]) for part in parts) < 1e-9
    assert len(mechanism.jumps) == 3
    assert mechanism.largest == dp.RanText.largest


def test_what_cannot_be_kept_in_classes_is_refused():
    part, noise = dp.TokenExponential(epsilon=1.0), dp.MetricNoise(eta=1.0)
    refuses("that is a channel", lambda inner: within(inner, "ab"), noise)
    refuses("hashed", lambda labels: within(part, labels), [[0], [1]])
    few = within(part, "aab")
    refuses("expected 5 class", lambda ids: few.log_probs(ids, random_space(tokens=5)), [0])
    refuses("2 labels, got 1, of which 1", lambda parts: dp.ByClass(parts, "ab"), {"a": part})
    three = dict.fromkeys("abc", part)
    refuses("2 labels, got 3, of which 2", lambda parts: dp.ByClass(parts, "ab"), three)
    mixed = {"a": part, "b": noise}
    refuses("that is a channel", lambda parts: dp.ByClass(parts, "ab"), mixed)


def test_by_class_is_known_by_its_partition_and_what_each_class_has():
    mechanism = by_class(1.0, 2.0, 8.0)
    renamed = dict(zip("xyz", [part for _, part in mechanism.mechanisms], strict=True))
    labels = LABELS.translate(str.maketrans("abc", "xyz"))
    assert dp.ByClass(renamed, labels).fingerprint == mechanism.fingerprint
    mixed = dp.ByClass({"a": dp.SanText(epsilon=1.0), "b": dp.RanText(epsilon=1.0)}, ("a", "b"))
    assert all(key in dp.citations(mixed) for key in ("yue2021", "inferdpt2023"))
