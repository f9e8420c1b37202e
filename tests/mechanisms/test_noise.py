"""Noise mechanisms: the law of the noise, its floating point, and the nearest token of a point."""

import math
import os
import sys
import warnings

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats
from support.cases import over, refuses
from support.noise_laws import FALSE_ALARM, fits, line_law, plane_law
from support.spaces import random_space, space_of, spaces

import dp_middleware as dp
from dp_middleware.embedding.grid import folded
from dp_middleware.mechanisms.kernels import noise as _noise
from dp_middleware.mechanisms.kernels.nearest import nearest
from dp_middleware.sampling.sampler import bulk_entropy, insecure_entropy, os_entropy

DRAWS = 40_000
MECHANISMS = [dp.MetricNoise(eta=3.0), dp.Stencil(), dp.DChiStencil(eta=3.0, window=4)]
LINE = np.array([-1.0, 0.0, 0.5, 2.0, 3.5])
PLANE = np.array([[0.0, 0.0], [1.0, 0.25], [-0.5, 1.0], [0.25, -1.5], [2.0, 2.0], [-3.0, -1.0]])


@over("tokens, exact", [(LINE, line_law), (PLANE, plane_law)])
def test_releases_follow_the_law_and_would_reject_twice_eta(tokens, exact):
    space = space_of(tokens.reshape(len(tokens), -1))
    token, eta = 1, 1.5
    assert exact(tokens, tokens[token], eta).sum() == pytest.approx(1)
    drawn = dp.MetricNoise(eta=eta).perturb(np.full(DRAWS, token), space, os_entropy)
    counts = np.bincount(drawn, minlength=len(space))
    assert fits(counts, exact(tokens, tokens[token], eta))
    assert not fits(counts, exact(tokens, tokens[token], 2 * eta))
    assert not fits(counts, exact(tokens, tokens[token], 1.2 * eta))


def test_radius_and_direction_in_many_dimensions():
    dimensions, eta = 384, 40.0
    vectors = _noise.random_vectors(4000, dimensions, eta, os_entropy)
    radii = np.linalg.norm(vectors, axis=1)
    assert stats.kstest(radii, stats.gamma(dimensions, scale=1 / eta).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(radii, stats.gamma(dimensions, scale=0.5 / eta).cdf).pvalue < FALSE_ALARM
    # normal noise of the same size has a narrower radius: sd 1/sqrt(2) instead of sqrt(d)/eta
    normal = stats.chi(dimensions, scale=math.sqrt(dimensions) / eta)
    assert stats.kstest(radii, normal.cdf).pvalue < FALSE_ALARM
    for axis in (np.eye(dimensions)[7], np.ones(dimensions) / math.sqrt(dimensions)):
        cosines = vectors @ axis / radii  # (1 + cos)/2 of a uniform direction is Beta
        shape = (dimensions - 1) / 2
        assert stats.kstest((1 + cosines) / 2, stats.beta(shape, shape).cdf).pvalue > FALSE_ALARM
        assert abs(stats.spearmanr(cosines, radii).statistic) < 6.1 / math.sqrt(len(radii))
    between = np.einsum("nd,nd->n", vectors[::2], vectors[1::2]) / (radii[::2] * radii[1::2])
    assert abs(between.mean()) < 6.1 / math.sqrt(dimensions * len(between))


def ideal_vector(words, eta):
    """The vector of the same bits in 50 digits, its radius and the norm of its normals."""
    normals, radius = [], mpmath.mpf(0)
    for k in range(words.shape[1]):
        high, low, high_2, low_2 = (int(word) for word in words[:, k])
        half = mpmath.mpf((high >> 1) * 2**64 + low) / 2**128 + mpmath.mpf(2) ** -129
        guess = mpmath.mpf(stats.norm.ppf(float(half))) if half < 0.5 else mpmath.mpf(0)
        for _ in range(3):  # Newton's method doubles the digits
            guess -= (mpmath.ncdf(guess) - half) / mpmath.npdf(guess)
        normals.append(-guess if high & 1 else guess)
        half = mpmath.mpf((high_2 >> 1) * 2**64 + low_2) / 2**128 + mpmath.mpf(2) ** -129
        radius -= mpmath.log1p(-half) if high_2 & 1 else mpmath.log(half)
    norm = mpmath.sqrt(mpmath.fsum(g * g for g in normals))
    return [radius / eta * g / norm for g in normals], radius / eta, norm


@over("dimensions, count", [(1, 60), (2, 40), (7, 12), (384, 2)])
def test_a_coordinate_is_as_exact_as_stated(dimensions, count):
    eta = 3.0
    entropy = insecure_entropy(dimensions)
    words = np.frombuffer(entropy(32 * count * dimensions), dtype=np.uint64)
    words = words.reshape(count, 4, dimensions).copy()
    words[0, :, 0] = 2**64 - 1  # halves just below 1/2
    words[1, ::2, -1] >>= np.uint64(60)  # far tails: halves of about 2^-61
    z = _noise.random_vectors(count, dimensions, eta, lambda _: words.tobytes())
    a, c = _noise.coordinate_errors(dimensions)
    worst = 0.0
    with mpmath.workdps(50):
        for row, vector in zip(words, z, strict=True):
            exact, radius, norm = ideal_vector(row, eta)
            for ideal, real in zip(exact, vector, strict=True):
                size = abs(ideal)
                bound = a * size + c * (radius + mpmath.sqrt(dimensions) * size) / norm
                worst = max(worst, float(abs(ideal - mpmath.mpf(float(real))) / bound))
    assert 1e-3 < worst < 1


def test_the_boundary_bound_holds_and_is_not_idle():
    """Against the integral of the Laplace density over all points near a boundary."""
    eta, step, a, b = 1.3, 0.25, 0.004, 0.003
    z = np.linspace(-40, 40, 4_000_001)
    density = eta / 2 * np.exp(-eta * np.abs(z))
    bound = _noise.near_boundary(a, b, eta, 1, step)
    for v in (0.0, 0.1, 0.125, 0.3):
        cells = (v + z) / step - 0.5
        away = np.abs(cells - np.rint(cells)) * step
        exact = float((density * (away <= a * np.abs(z) + b)).sum() * (z[1] - z[0]))
        assert bound / 4 < exact < bound


def test_the_distance_in_total_variation_is_a_small_number():
    for dimensions in (1, 2, 3, 50, 384, 1024):
        for eta in (0.01, 1.0, 300.0):
            distance = _noise.float_distance(dimensions, eta, reach=1.0)
            assert 0 < distance < 1e-8
            step = _noise.spacing(eta, dimensions)
            assert math.log2(step).is_integer()
            deviation = math.sqrt(dimensions + 1) / eta
            assert _noise.SNAP / 2 < step / deviation <= _noise.SNAP
    assert _noise.float_distance(8, 1e3, reach=1e14) == 1.0  # no digits are left
    sentence = dp.MetricNoise(eta=100.0).assumptions(random_space(dimensions=384))[0]
    assert "e-9 in total variation" in sentence


@over("mechanism", MECHANISMS)
@settings(max_examples=20)
@given(space=spaces(), seed=st.integers(0, 9))
def test_every_space_has_releases(mechanism, space, seed):
    for count in (0, 30):
        ids = np.random.default_rng(seed).integers(len(space), size=count)
        released = mechanism.perturb(ids, space, os_entropy)
        assert (released.shape, released.dtype) == (ids.shape, np.int64)
        assert set(released.tolist()) <= set(range(len(space)))


@over("mechanism", MECHANISMS)
@over("ids", [[-1], [99], [0.5], [[0]]])
def test_bad_ids_are_refused(mechanism, ids):
    refuses("expected ids", lambda ids: mechanism.perturb(ids, random_space(), os_entropy), ids)


@over("mechanism", [MECHANISMS[0], MECHANISMS[2]])
def test_entropy_is_fresh_and_of_known_size(mechanism):
    space, ids, taken = random_space(tokens=60, dimensions=6), np.arange(60), []
    assert not np.array_equal(*(mechanism.perturb(ids, space, os_entropy) for _ in range(2)))
    mechanism.perturb(ids, space, lambda count: taken.append(count) or os_entropy(count))
    assert sum(taken) == 32 * 6 * 60  # whatever the tokens are


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_noise_is_made_of_a_generator_that_a_fork_seeds_anew():
    bulk_entropy(64)  # the parent has a state to inherit
    ends = [os.pipe() for _ in range(2)]
    for _, writing in ends:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
            child = os.fork()
        if child == 0:
            try:
                os.write(writing, bulk_entropy(64))
            finally:
                os._exit(0)
        os.waitpid(child, 0)
    seen = [os.read(reading, 64) for reading, _ in ends] + [bulk_entropy(64)]
    for end in (end for pair in ends for end in pair):
        os.close(end)
    assert [len(each) for each in seen] == [64] * 3
    assert len(set(seen)) == 3


@pytest.mark.parametrize("missing", [False, True])
def test_bytes_for_noise_are_uniform_with_and_without_openssl(missing, monkeypatch):
    if missing:
        monkeypatch.setitem(sys.modules, "ssl", None)
    counts = np.bincount(np.frombuffer(bulk_entropy(1 << 20), dtype=np.uint8), minlength=256)
    assert stats.chisquare(counts).pvalue > FALSE_ALARM
    assert len(bulk_entropy(0)) == 0


def test_a_sanitizer_draws_noise_with_the_generator_for_noise(monkeypatch):
    """Bytes of zeros would release the same token each time, and here they do."""
    space, zeros = random_space(tokens=60, dimensions=6), lambda count: bytes(count)
    sanitizer = dp.Sanitizer(dp.MetricNoise(eta=1.0), space)
    text = " ".join(f"w{i}" for i in range(20))
    monkeypatch.setattr(type(sanitizer._drawer), "entropy", staticmethod(zeros))
    assert len({sanitizer.release(text).text for _ in range(3)}) == 1
    monkeypatch.undo()
    assert len({sanitizer.release(text).text for _ in range(3)}) == 3


def test_a_release_does_not_depend_on_the_batch():
    space, ids = random_space(tokens=90, dimensions=7), np.arange(600) % 90
    together = dp.MetricNoise(eta=2.0).perturb(ids, space, insecure_entropy(3))
    part = dp.MetricNoise(eta=2.0).perturb(ids[:301], space, insecure_entropy(3))
    assert np.array_equal(part, together[:301])
    entropy = insecure_entropy(3)
    alone = [int(dp.MetricNoise(eta=2.0).perturb([i], space, entropy)[0]) for i in ids]
    assert alone == together.tolist()


def brute_force(space, points, excluded=None):
    """The float64 arg min over all tokens; ties to the smallest id."""
    answers = []
    for row, point in enumerate(points):
        squares = folded((point - space.points) ** 2)
        if excluded is not None:
            squares[excluded[row]] = np.inf
        answers.append(int(squares.argmin()))
    return answers


@settings(max_examples=60)
@given(space=spaces(), scale=st.sampled_from([1e-9, 0.1, 1.0, 1e4, 1e12]), seed=st.integers(0, 99))
def test_the_nearest_token_is_the_float64_one(space, scale, seed):
    rng = np.random.default_rng(seed)
    points = space.points[rng.integers(len(space), size=20)]
    points = points + scale * rng.normal(size=points.shape)
    points[:3] = space.points[0]  # ties with duplicates
    excluded = rng.integers(len(space), size=20)
    for left_out in (None, excluded):
        found = nearest(space, points, left_out)
        assert found.tolist() == brute_force(space, points, left_out)


@over("scale", [1e-140, 1e-40, 1e-12, 1e30, 1e150])
@over("eta", [1e-6, 1.0, 1e6])
def test_vectors_far_shorter_than_the_noise(scale, eta):
    space = space_of(scale * np.random.default_rng(0).normal(size=(30, 4)))
    ids = np.arange(300) % 30
    released = dp.MetricNoise(eta=eta).perturb(ids, space, insecure_entropy(1))
    step = _noise.spacing(eta, 4)
    noise = _noise.random_vectors(300, 4, eta, insecure_entropy(1))
    points = _noise.snapped(space.points[ids] + noise, step)
    assert released[:256].tolist() == brute_force(space, points)[:256]


@over("dimensions", [2, 16, 256])
@over("common", [0.0625, 0.125, 0.25])
def test_errors_that_all_point_to_another_token_do_not_decide(dimensions, common):
    """Every other coordinate is rounded up by all of 2^-8, the others down, the tokens exactly."""
    signs = np.where(np.arange(dimensions) % 2 == 0, 1.0, -1.0)
    size = 2.0 ** np.round(np.log2(dimensions) / -2)
    first = np.concatenate([-size * signs, [common, 2.0**-8]])
    second = np.concatenate([size * signs, [common, -(2.0**-8)]])
    space = space_of([first, second, -first, -second])  # about their centre
    point = np.concatenate([size * (1 + 2.0**-8 + signs * 2.0**-20), [common, 2.0**-8]])
    points = np.array([point, 4.0 * point])
    assert brute_force(space, points) == [0, 0]
    assert nearest(space, points).tolist() == [0, 0]


def test_points_about_which_a_coarse_filter_says_nothing():
    """At the centre no score is positive; of hundreds of near tokens too many are left."""
    rng = np.random.default_rng(0)
    angles = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    ring = space_of(np.column_stack([np.cos(angles), np.sin(angles)]))
    points = 1e-3 * rng.normal(size=(30, 2))
    assert nearest(ring, points).tolist() == brute_force(ring, points)
    vectors = np.concatenate([1e-4 * rng.normal(size=(300, 6)) + 1.0, rng.normal(size=(20, 6))])
    crowd = space_of(vectors)
    points = crowd.points[:60] + 3e-5 * rng.normal(size=(60, 6))
    found = nearest(crowd, points)
    assert found.tolist() == brute_force(crowd, points)
    assert len(set(found)) > 20
