"""Certificates of noise mechanisms, held against exactly integrated losses."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.cases import over
from support.noise_laws import line_law
from support.spaces import random_space, space_of, spaces

import dp_middleware as dp
from dp_middleware.certification.proofs import certify_noise
from dp_middleware.mechanisms.metric_noise import MetricNoise
from dp_middleware.mechanisms.stencil import DChiStencil, Stencil
from dp_middleware.privacy import Certificate

ANY = dp.Adjacency.substitution()
LINE = np.array([-1.0, 0.0, 0.5, 2.0, 3.5])


def losses(tokens, eta):
    """Exact |ln P(y|x) - ln P(y|x')| maximised over y, for all pairs; the uniform mixture last."""
    laws = np.array([line_law(tokens, centre, eta) for centre in tokens])
    rows = np.log(np.vstack([laws, laws.mean(axis=0)]))
    return np.abs(rows[:, None] - rows[None]).max(axis=2)


@over("eta", [0.3, 1.0, 4.0])
def test_metric_noise_on_a_line(eta):
    space = space_of(LINE[:, None])
    certificate = certify_noise(MetricNoise(eta=eta), space, ANY, None)
    assert certificate.guarantee == dp.MetricDP(epsilon=eta)
    assert certificate.method == "proof"
    assert certificate.claimed == eta
    assert certificate.epsilon == pytest.approx(4.5 * eta, rel=1e-7)
    assert certificate.metric == certificate.guarantee
    assert certificate.recovery is certificate.retention is None
    assert certificate.witness is None
    exact = losses(LINE, eta)
    distances = np.abs(LINE[:, None] - LINE)
    assert (exact[:-1, :-1] <= eta * distances + 1e-9).all()  # pair by pair
    assert exact.max() <= certificate.epsilon  # the unknown symbol too
    assert exact.max() > 0.6 * certificate.epsilon


def test_a_text_may_be_of_any_length_or_of_one():
    space, mechanism = space_of(LINE[:, None]), DChiStencil(eta=1.0, window=4, sigma=1.25)
    worst = certify_noise(mechanism, space, ANY, None)
    known = {n: certify_noise(mechanism, space, ANY, n) for n in (*range(1, 8), 50)}
    assert known[1].epsilon == pytest.approx(4.5)
    assert worst.epsilon == pytest.approx(max(c.epsilon for c in known.values()))
    assert worst.epsilon > 1.2 * known[1].epsilon
    assert worst.claimed == 2.0
    assert worst.epsilon < 2.0 * 4.5
    assert any("all numbers of tokens" in sentence for sentence in worst.assumptions)
    assert any("a text of 50 tokens" in sentence for sentence in known[50].assumptions)


def test_no_noise_is_no_guarantee():
    for adjacency in (ANY, dp.Adjacency.within([0] * 5)):
        certificate = certify_noise(Stencil(), space_of(LINE[:, None]), adjacency, 3)
        assert isinstance(certificate.guarantee, dp.NoGuarantee)
        assert "no noise" in certificate.guarantee.reason
        assert certificate.method == "none"
        assert certificate.epsilon == certificate.claimed == math.inf


def test_the_unknown_symbol_may_become_any_token():
    """With neighbours it is a diameter away; alone it does not count; dropped it is seen."""
    labels = ["a", "a", "b", "b", "c"]
    expected = {
        ("uniform", "a"): 4.5,
        ("uniform", "z"): 1.5,
        ("raise", "a"): 1.5,
        ("drop", "a"): math.inf,
        ("drop", "z"): 1.5,
    }
    for (unknown, label), distance in expected.items():
        space = space_of(LINE[:, None], unknown=unknown)
        adjacency = dp.Adjacency.within([*labels, label])
        certificate = certify_noise(MetricNoise(eta=1.0), space, adjacency, None)
        assert certificate.epsilon == pytest.approx(distance), (unknown, label)
        assert certificate.finite == (certificate.method == "proof")
        if certificate.finite:
            assert "the class of a token is public" in certificate.assumptions
    dropped = certify_noise(MetricNoise(eta=1.0), space_of(LINE[:, None], unknown="drop"), ANY, 1)
    assert isinstance(dropped.guarantee, dp.NoGuarantee)
    exact = losses(LINE, 1.0)
    assert exact[0, 5] > 1.5  # the mixture is farther from token 0 than its class is wide
    assert exact[0, 5] <= 4.5


@settings(max_examples=30)
@given(space=spaces(max_dimensions=1), eta=st.sampled_from([0.2, 1.0, 3.0]))
def test_no_pair_of_a_random_line_loses_more(space, eta):
    tokens = np.unique(space.points[:, 0])  # duplicates release the first of them
    certificate = certify_noise(MetricNoise(eta=eta), space, ANY, None)
    exact = losses(tokens, eta)
    # a cell's mass is a difference of tails, each off by some roundings of the larger
    narrowest = eta * min(1.0, np.diff(tokens).min(initial=1.0) / 2)
    rounded = 16 * np.finfo(float).eps / -math.expm1(-narrowest)
    assert exact.max() <= certificate.epsilon + rounded
    labels = np.arange(len(space)) % 2
    within = certify_noise(MetricNoise(eta=eta), space, dp.Adjacency.within(labels), None)
    places = np.searchsorted(tokens, space.points[:, 0])
    for i, j in itertools.combinations(range(len(space)), 2):
        if labels[i] == labels[j]:
            assert exact[places[i], places[j]] <= within.epsilon + rounded


def test_small_distances_count_and_the_certificate_says_what_it_relies_on():
    close, mechanism = space_of([[0.0, 0.0], [3e-7, 4e-7]]), DChiStencil(eta=10.0, window=1)
    for adjacency in (ANY, dp.Adjacency.within([1, 1])):
        certificate = certify_noise(mechanism, close, adjacency, None)
        assert certificate.epsilon == pytest.approx(5e-6)
    for space in (space_of(np.ones((3, 2))), random_space(tokens=1)):
        assert certify_noise(mechanism, space, ANY, None).epsilon == 0.0
    certificate = certify_noise(DChiStencil(eta=5.0), close, ANY, None)
    said = " / ".join(certificate.assumptions)
    for part in ("chord", "total variation", "uniformly drawn token before", "entropy"):
        assert part in said
    assert certificate.mechanism == DChiStencil(eta=5.0).fingerprint
    assert certificate.space == close.fingerprint
    assert Certificate.from_dict(certificate.to_dict(), ANY) == certificate


def test_what_floating_point_costs_is_said_as_a_delta():
    """(1 + e^epsilon) t at the certified epsilon; of no meaning once it is 1."""
    for mechanism in (MetricNoise(eta=1.0), DChiStencil(eta=1.0)):
        certificate = certify_noise(mechanism, space_of(LINE[:, None]), ANY, None)
        t = mechanism.float_distance(space_of(LINE[:, None]), None)
        delta = (1 + math.exp(certificate.epsilon)) * t
        (said,) = (part for part in certificate.assumptions if "a delta of" in part)
        stated = float(said.split("a delta of ")[1].split()[0])
        assert delta <= stated <= 2 * delta
    vacuous = certify_noise(MetricNoise(eta=300.0), space_of(LINE[:, None]), ANY, None)
    assert any("a delta of 1 (vacuous)" in part for part in vacuous.assumptions)
    one, many = (DChiStencil(eta=1.0).float_distance(space_of(LINE[:, None]), n) for n in (1, 9))
    assert many == pytest.approx(5 * one)  # the window of five positions
    none = certify_noise(Stencil(), space_of(LINE[:, None]), ANY, 3)
    assert not any("a delta of" in part for part in none.assumptions)


def test_vectors_too_long_for_float64_are_not_certified():
    space = space_of([[0.0], [1.0], [1e12]])  # centring is of no help
    certificate = certify_noise(MetricNoise(eta=100.0), space, ANY, None)
    assert isinstance(certificate.guarantee, dp.NoGuarantee)
    assert "scale the vectors" in certificate.guarantee.reason
    assert certificate.epsilon == math.inf
    assert certificate.method == "none"
    moved = space_of([[1e12], [1e12 + 1], [1e12 + 2]])  # it is
    assert certify_noise(MetricNoise(eta=100.0), moved, ANY, None).finite
