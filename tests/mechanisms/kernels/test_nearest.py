"""The nearest token of a point."""

import numpy as np
from hypothesis import given, settings, strategies as st
from support.cases import over
from support.pretend_device import pretend_cuda
from support.spaces import space_of, spaces

import dp_middleware as dp
from dp_middleware.embedding.grid import folded
from dp_middleware.mechanisms.kernels import nearest as _nearest, noise as _noise
from dp_middleware.sampling.sampler import insecure_entropy


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
        found = _nearest.nearest(space, points, left_out)
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
    assert _nearest.nearest(space, points).tolist() == [0, 0]


def test_points_about_which_a_coarse_filter_says_nothing():
    """At the centre no score is positive; of hundreds of near tokens too many are left."""
    rng = np.random.default_rng(0)
    angles = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    ring = space_of(np.column_stack([np.cos(angles), np.sin(angles)]))
    points = 1e-3 * rng.normal(size=(30, 2))
    assert _nearest.nearest(ring, points).tolist() == brute_force(ring, points)
    vectors = np.concatenate([1e-4 * rng.normal(size=(300, 6)) + 1.0, rng.normal(size=(20, 6))])
    crowd = space_of(vectors)
    points = crowd.points[:60] + 3e-5 * rng.normal(size=(60, 6))
    found = _nearest.nearest(crowd, points)
    assert found.tolist() == brute_force(crowd, points)
    assert len(set(found)) > 20


def test_the_search_on_a_pretended_device_decides_alike():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(300, 5))
    vectors[200:] = vectors[:100]
    vocabulary = dp.Vocabulary([f"w{i}" for i in range(300)])
    host = dp.EmbeddingSpace(vocabulary, vectors, device="cpu")
    points, excluded = rng.normal(size=(1100, 5)), rng.integers(300, size=1100)
    points[:100] = host.points[:100]
    with pretend_cuda():
        device = dp.EmbeddingSpace(vocabulary, vectors, device="cuda")
        found = [_nearest.nearest(device, points, left_out) for left_out in (None, excluded)]
        mechanisms = (dp.MetricNoise(eta=3.0), dp.DChiStencil(eta=3.0), dp.Stencil())
        released = [m.perturb(np.arange(300), device, insecure_entropy(1)) for m in mechanisms]
    for left_out, answers in zip((None, excluded), found, strict=True):
        assert np.array_equal(answers, _nearest.nearest(host, points, left_out))
    for mechanism, ids in zip(mechanisms, released, strict=True):
        assert np.array_equal(ids, mechanism.perturb(np.arange(300), host, insecure_entropy(1)))
