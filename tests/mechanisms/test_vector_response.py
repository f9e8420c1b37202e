"""VectorResponse: its law, its proof in numbers, what it refuses, and what an audit catches."""

from dataclasses import dataclass, replace
from functools import cached_property
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from scipy import stats
from support.cases import over, refuses

import dp_middleware as dp
from dp_middleware.mechanisms import vector_response as components
from dp_middleware.mechanisms.kernels import cap
from dp_middleware.mechanisms.vector_response import Components
from dp_middleware.sampling.sampler import insecure_entropy

FALSE_ALARM = 1e-9
PUBLIC = np.random.default_rng(0).normal(size=(400, 24)) * np.linspace(2, 0.5, 24)
SIZES = [(2, 0.5), (3, 2.0), (16, 10.0), (48, 20.0), (128, 100.0), (256, 500.0)]


def isotropic(width):
    """Components whose estimate is the direction that was drawn."""
    share = np.full(width, 1 / width)
    return Components(np.zeros(width), np.eye(width), np.sqrt(np.cumsum(share)), share)


def cosines(dimensions, epsilon, count, seed):
    x = np.tile(np.eye(1, dimensions), (count, 1))
    cells = cap.draw(x, cap.best_cap(dimensions, epsilon), insecure_entropy(seed))
    return cells[:, 0] / np.linalg.norm(cells, axis=1)


def distribution(drawn):
    """P(cosine <= t): a uniform direction, or one of the cap."""
    k, part, low = drawn.dimensions, drawn.coin / 2**64, drawn.threshold
    law = stats.beta((k - 1) / 2, (k - 1) / 2)
    inside = law.sf((1 + low) / 2)

    def cdf(t):
        upper = law.sf((1 + np.asarray(t)) / 2)
        return (1 - part) * (1 - upper) + part * np.clip(1 - upper / inside, 0, 1)

    return cdf


@over("dimensions, epsilon", [(2, 1.0), (8, 3.0), (16, 10.0), (48, 20.0)])
def test_the_cosine_follows_its_law_and_not_that_of_twice_epsilon(dimensions, epsilon):
    values = cosines(dimensions, epsilon, 3000, 1)
    right, wrong = (cap.best_cap(dimensions, e) for e in (epsilon, 2 * epsilon))
    assert stats.kstest(values, distribution(right)).pvalue > FALSE_ALARM
    assert stats.kstest(values, distribution(wrong)).pvalue < FALSE_ALARM


def test_draws_are_symmetric_about_the_vector_and_normal_in_length():
    x = np.tile(np.full(9, 1 / 3), (4000, 1))
    cells = cap.draw(x, cap.best_cap(9, 4.0), insecure_entropy(2))
    assert (cells / cap.STEP == np.rint(cells / cap.STEP)).all()
    across = cells - (cells @ x[0])[:, None] * x[0]
    signs = across @ np.linalg.svd(x[:1])[2][1:].T > 0
    for hits in signs.sum(axis=0):
        assert stats.binomtest(int(hits), len(x)).pvalue > FALSE_ALARM
    lengths, (low, high) = np.linalg.norm(cells, axis=1), (1.5, 9.0)
    law = stats.chi(9)
    within = (law.cdf(lengths) - law.cdf(low)) / (law.cdf(high) - law.cdf(low))
    assert stats.kstest(within, "uniform").pvalue > FALSE_ALARM


@over("dimensions, epsilon", [*SIZES, (8, 48.0), (8, 50.0)])
def test_the_loss_is_that_of_the_integers_in_high_precision(dimensions, epsilon):
    drawn = cap.best_cap(dimensions, epsilon)
    with mpmath.workdps(60):
        squares = 1 - mpmath.mpf(drawn.threshold) ** 2
        half = mpmath.mpf(dimensions - 1) / 2
        mass = mpmath.betainc(half, mpmath.mpf(1) / 2, 0, squares, regularized=True) / 2
        ratio = mpmath.mpf(drawn.coin) / (2**64 - drawn.coin) / mass
        ideal = mpmath.log(1 + ratio)
        rounded = mpmath.log(1 + ratio * mpmath.e ** cap.rounding(dimensions))
    assert ideal < drawn.loss <= epsilon
    assert float(rounded) == pytest.approx(drawn.loss, rel=1e-9)
    assert epsilon - drawn.loss < 1e-6
    assert float(ideal) == pytest.approx(epsilon, rel=2e-3)


def test_the_cap_is_the_best_one_and_its_moments_are_those_of_the_draws():
    drawn = cap.best_cap(16, 10.0)
    values = cosines(16, 10.0, 4000, 3)
    assert values.mean() == pytest.approx(drawn.alignment, abs=6 * values.std() / 4000**0.5)
    assert drawn.alignment == pytest.approx(drawn.threshold, abs=1e-3)  # as at the optimum
    assert (1 - np.square(values).mean()) / 15 == pytest.approx(drawn.noise, rel=0.05)


def test_a_program_vector_is_as_near_to_the_ideal_one_as_the_proof_takes_it_to_be():
    """In 60 digits from the same bits: normal numbers, also those far out."""
    words = np.random.default_rng(4).integers(0, 2**64, (1, 8, 24), dtype=np.uint64)
    words[0, 0, :8] = np.uint64(1)  # a uniform number below 2^-63
    words[0, 1, :4] = np.uint64(0)
    values = cap._normals(1, 24, lambda count: words.tobytes())[0]
    with mpmath.workdps(60):
        for column, value in enumerate(values):
            bits = [int(w) for w in words[0, :, column]]
            half = mpmath.mpf(bits[0] >> 1)
            half = (
                half + sum(mpmath.mpf(w) / 2 ** (64 * n) for n, w in enumerate(bits) if n)
            ) / 2**64
            tail = mpmath.erfc(abs(mpmath.mpf(float(value))) / mpmath.sqrt(2)) / 2
            density = mpmath.npdf(float(value))
            error = abs(tail - half) / density  # to first order
            assert float(error) < 18 * 2.0**-53 * max(1.0, abs(float(value)))


def test_the_certificate_is_per_text_and_at_most_what_was_asked_for():
    mechanism = dp.VectorResponse.fitted(PUBLIC, epsilon=20)
    certificate = dp.certify(mechanism)
    assert certificate.method == "proof"
    assert certificate.unit == "text"
    assert certificate.adjacency == dp.Adjacency.texts()
    assert certificate.epsilon == certificate.guarantee.epsilon == mechanism.cap.loss <= 20
    assert certificate.epsilon == pytest.approx(20)
    with pytest.raises(dp.ParameterError, match=r"Adjacency\.texts"):
        dp.certify(mechanism, adjacency=dp.Adjacency.substitution())
    refuses("expected space=", dp.certify, dp.TokenExponential(epsilon=1.0))


def test_what_is_released_has_unit_length_and_is_nearer_with_more_epsilon():
    private = np.random.default_rng(1).normal(size=(300, 24)) * np.linspace(2, 0.5, 24)
    unit = private / np.linalg.norm(private, axis=1, keepdims=True)
    means = []
    for epsilon in (1, 10, 50):
        mechanism = dp.VectorResponse.fitted(PUBLIC, epsilon=epsilon)
        out = mechanism.perturb(private, insecure_entropy(6))
        assert np.linalg.norm(out, axis=1) == pytest.approx(1)
        means.append((out * unit).sum(axis=1).mean())
    assert means[0] < means[1] < means[2] > 0.9
    assert mechanism.perturb(np.empty((0, 24)), insecure_entropy(6)).shape == (0, 24)
    zero = mechanism.directions(np.zeros((1, 24)))  # a public one
    assert zero.tolist() == np.eye(1, mechanism.cap.dimensions).tolist()


BAD = [np.full((1, 24), np.nan), np.full((1, 24), np.inf), np.ones((2, 23)), np.ones(24), [["zxq"]]]


def test_bad_vectors_are_refused_without_a_word_of_them():
    mechanism = dp.VectorResponse.fitted(PUBLIC, epsilon=4)
    for vectors in BAD:
        with pytest.raises(dp.ParameterError, match="expected") as caught:
            mechanism.perturb(vectors, insecure_entropy(8))
        assert "zxq" not in str(caught.value)
        assert caught.value.__cause__ is None
    few = (PUBLIC[:2], PUBLIC[:, :1], np.ones((9, 4)), np.full((9, 4), np.nan))
    refuses("public vectors", lambda public: dp.VectorResponse.fitted(public, epsilon=1), *few)
    fitted = dp.VectorResponse.fitted(PUBLIC, epsilon=1e-6)
    refuses("expected epsilon >=", lambda mechanism: mechanism.cap, fitted)


@dataclass(frozen=True, kw_only=True)
class NotCalibrated(dp.VectorResponse):
    """The cap of twice the epsilon that it claims."""

    @cached_property
    def cap(self):
        return cap.best_cap(len(self.basis.lengths), 2 * self.epsilon)


@dataclass(frozen=True, kw_only=True)
class OnlyTheCap(dp.VectorResponse):
    """Never draws from the whole sphere."""

    @cached_property
    def cap(self):
        return replace(cap.best_cap(len(self.basis.lengths), self.epsilon), coin=2**64 - 1)


TWO = (np.eye(8)[0], -np.eye(8)[0])


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_an_audit_of_two_vectors_stays_under_the_certificate_and_comes_near(epsilon):
    mechanism = dp.VectorResponse(epsilon=epsilon, components=isotropic(8))
    bound = dp.audit(mechanism, vectors=TWO, failure_probability=1e-6, entropy=insecure_entropy(9))
    assert 0.5 * epsilon < bound <= dp.certify(mechanism).epsilon
    assert bound.claim == epsilon


@over("kind", [NotCalibrated, OnlyTheCap])
def test_an_audit_catches_what_is_not_calibrated(kind):
    mechanism = kind(epsilon=2.0, components=isotropic(8))
    assert dp.audit(mechanism, vectors=TWO, entropy=insecure_entropy(10)) > 2.0


def test_default_components_are_kept_on_disk_and_a_damaged_file_is_made_anew(monkeypatch, tmp_path):
    monkeypatch.setenv("DP_MIDDLEWARE_CACHE", str(tmp_path))
    asked = []

    class Service:
        def __init__(self, name):
            asked.append(name)

        def encode(self, texts):
            return PUBLIC

    monkeypatch.setattr(components, "EmbeddingService", Service)
    monkeypatch.setattr(components, "default_space", lambda: SimpleNamespace(fingerprint="toy"))
    monkeypatch.setattr(components, "_random_texts", list)
    make = components.default_components.__wrapped__
    first, second = make(), make()
    assert first == second == Components.of(PUBLIC)
    assert first.directions @ first.directions.T == pytest.approx(np.eye(24), abs=1e-12)
    assert (np.diff(first.variances) <= 0).all()
    assert len(asked) == 1
    (file,) = (tmp_path / "components").glob("*.npz")
    for damaged in (b"{}", file.read_bytes()[:-30]):
        file.write_bytes(damaged)
        assert make() == first
    assert len(asked) == 3


def test_eigenvectors_are_those_of_lapack():
    rows = np.random.default_rng(2).normal(size=(60, 17))
    values, vectors = components.eigen(rows.T @ rows)
    expected, theirs = np.linalg.eigh(rows.T @ rows)
    assert values == pytest.approx(expected[::-1], rel=1e-12)
    assert np.abs((vectors * theirs.T[::-1]).sum(axis=1)) == pytest.approx(1.0, abs=1e-10)
