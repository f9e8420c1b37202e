"""Calibration hits its target from below, stops at jumps, and refuses what cannot be."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.cases import over, refuses
from support.spaces import CASES, random_space, space_of, spaces

import dp_middleware as dp
from dp_middleware.mechanisms.rantext import JUMP


@pytest.mark.slow
@pytest.mark.parametrize("target", [0.5, 3.0, 10.0])
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.finite])
def test_the_exact_loss_comes_close_from_below(name, target):
    space = random_space(tokens=60, dimensions=12, seed=1)
    mechanism = dp.calibrate(CASES[name](1.0), space, epsilon=target)
    certificate = dp.certify(mechanism, space)
    assert certificate.epsilon <= target
    at_jump = "jumps" in " ".join(certificate.assumptions)
    assert certificate.epsilon > 0.998 * target or at_jump
    assert type(mechanism) is type(CASES[name](1.0))


@settings(max_examples=25)
@given(space=spaces(), target=st.sampled_from([0.3, 3.0]))
def test_no_space_makes_it_overshoot(space, target):
    mechanism = dp.calibrate(dp.TokenExponential(epsilon=1.0), space, epsilon=target)
    assert dp.certify(mechanism, space).epsilon <= target


def test_the_nominal_epsilon_grows_with_what_the_proof_gives_away():
    space = random_space(tokens=100, dimensions=8, seed=2)
    assert dp.calibrate(dp.TokenExponential(epsilon=1.0), space, epsilon=3.0).epsilon > 3.0


def test_it_stops_below_the_jump_and_the_certificate_says_so():
    space = random_space(tokens=200, dimensions=64, seed=3)
    below, above = (
        dp.certify(dp.RanTextStrict(epsilon=JUMP + step), space).epsilon for step in (-1e-9, 1e-9)
    )
    assert above > 1.3 * below
    target = (below + above) / 2
    mechanism = dp.calibrate(dp.RanTextStrict(epsilon=1.0), space, epsilon=target)
    assert JUMP - 1e-6 < mechanism.epsilon <= JUMP
    certificate = dp.certify(mechanism, space)
    assert certificate.epsilon <= target
    assert any("just below" in line and "jumps" in line for line in certificate.assumptions)


def test_a_loss_ends_where_probabilities_do():
    """Of 128 bits the least is one unit."""
    space = random_space(tokens=30, seed=5)
    for target in (50.0, 180.0):
        found = dp.calibrate(dp.SanText(epsilon=1.0), space, epsilon=target)
        most = min(target, 128 * math.log(2) + 1e-9)
        assert 0.998 * most < dp.certify(found, space).epsilon <= most


def test_within_its_classes_custext_can():
    space = random_space(tokens=60, seed=5)
    mechanism = dp.CusText(epsilon=1.0, candidates=6)
    adjacency = dp.Adjacency.within(mechanism.classes(space))
    found = dp.calibrate(mechanism, space, epsilon=2.0, adjacency=adjacency)
    assert 1.99 < dp.certify(found, space, adjacency=adjacency).epsilon <= 2.0


def clustered(tokens, dimensions, scale):
    """Half of the tokens close together, two of them equal."""
    vectors = np.random.default_rng(tokens + dimensions).normal(size=(tokens, dimensions))
    vectors[: tokens // 2] *= 0.05
    vectors[1] = vectors[0]
    return space_of(scale * vectors)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize(("tokens", "dimensions"), [(60, 1), (60, 50), (400, 3), (400, 100)])
@pytest.mark.parametrize("kind", [dp.SanText, dp.TruncatedExponential])
def test_a_metric_channel_reaches_its_target(kind, tokens, dimensions, scale):
    """The parameter is per unit of distance, whatever the unit."""
    space = clustered(tokens, dimensions, scale)
    for target in (0.5, 3.0, 8.0):
        found = dp.calibrate(kind(epsilon=1.0), space, epsilon=target)
        certificate = dp.certify(found, space)
        assert 0.998 * target <= certificate.epsilon <= target
        assert target < found.epsilon * space.diameter  # the bound is not tight here


def test_beyond_what_tem_can_lose_it_stays_below_the_target():
    """Its loss rises, and falls again to ln((1 - beta)(V - 1)/beta), where no distance counts."""
    space = random_space(tokens=60, dimensions=2, seed=5)
    etas = np.geomspace(1.0, 300.0, 80) / space.diameter
    losses = [dp.certify(dp.TruncatedExponential(epsilon=eta), space).epsilon for eta in etas]
    assert max(losses) > losses[-1] + 0.5  # not monotone
    for target in (max(losses) - 0.5, 20.0):
        found = dp.calibrate(dp.TruncatedExponential(epsilon=1.0), space, epsilon=target)
        exact = dp.certify(found, space).epsilon
        assert 0.97 * min(target, max(losses)) <= exact <= target


@over("kind, epsilon", [(dp.SanText, 1.0), (dp.RanText, 3.0)])
def test_where_all_tokens_are_alike_there_is_nothing_to_lose(kind, epsilon):
    alike = space_of([[1.0]] * 3)
    found = dp.calibrate(kind(epsilon=epsilon), alike, epsilon=2.0)
    assert dp.certify(found, alike).epsilon == pytest.approx(0.0, abs=1e-6)


def test_what_cannot_be_is_refused():
    mechanism = dp.TokenExponential(epsilon=1.0, score="shifted_cosine")
    infinite = (CASES[name](1.0) for name in ("custext", "custext-aggressive"))
    for told, space, made in (
        ("infinite for every epsilon", random_space(), infinite),
        ("dropped", random_space(unknown="drop"), [mechanism]),
    ):
        refuses(told, lambda m, s=space: dp.calibrate(m, s, 3.0), *made, kind=dp.CannotCalibrate)
    targets = (0.0, -1.0, math.inf, math.nan)
    refuses("epsilon", lambda aim: dp.calibrate(mechanism, random_space(), aim), *targets)
    refuses("epsilon <= 1000", lambda epsilon: dp.RanText(epsilon=epsilon), 1500.0)
    assert dp.calibrate(mechanism, random_space(), epsilon=2.0).score == "shifted_cosine"
