"""The nearest token of a point: exactly, and by the approximate index."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spaces import random_space, space_of, spaces

import dp_middleware as dp
from dp_middleware.mechanisms import _nearest, _noise
from dp_middleware.mechanisms.metric_noise import MetricNoise
from dp_middleware.sampling import insecure_entropy, os_entropy


def brute_force(space, points, excluded=None):
    """The float64 arg min over all tokens; ties to the smallest id."""
    answers = []
    for row, point in enumerate(points):
        squares = _noise.folded((point - space.vectors) ** 2)
        if excluded is not None:
            squares[excluded[row]] = np.inf
        answers.append(int(squares.argmin()))
    return answers


@settings(max_examples=60)
@given(space=spaces(), scale=st.sampled_from([1e-9, 0.1, 1.0, 1e4, 1e12]), seed=st.integers(0, 99))
def test_the_nearest_token_is_the_float64_one(space, scale, seed):
    rng = np.random.default_rng(seed)
    points = space.vectors[rng.integers(len(space), size=20)]
    points = points + scale * rng.normal(size=points.shape)
    points[:3] = space.vectors[0]  # ties with duplicates
    excluded = rng.integers(len(space), size=20)
    assert _nearest.nearest(space, points).tolist() == brute_force(space, points)
    assert _nearest.nearest(space, points, excluded).tolist() == brute_force(
        space, points, excluded
    )


@pytest.mark.parametrize("dimensions", [1, 2, 3, 30, 384])
def test_the_nearest_token_among_many(dimensions):
    rng = np.random.default_rng(dimensions)
    vectors = rng.normal(size=(700, dimensions))
    vectors[300:350] = vectors[100:150]  # duplicates
    vectors[350:400] = vectors[100:150] + 1e-9  # nearly
    space = space_of(vectors + 5.0)
    for eta in (0.5, 20.0, 1e6):
        z = _noise.random_vectors(300, dimensions, eta, os_entropy)
        points = space.vectors[rng.integers(700, size=300)] + z
        answers = _nearest.nearest(space, points)
        assert answers.tolist() == brute_force(space, points)
        alone = [int(_nearest.nearest(space, point[None])[0]) for point in points[:40]]
        assert answers[:40].tolist() == alone


def test_the_nearest_token_is_the_true_one():
    """In exact arithmetic, where float32 alone would be wrong."""
    rng = np.random.default_rng(1)
    space = space_of(1000.0 + rng.integers(-50, 50, size=(60, 4)) * 2.0**-20)
    points = 1000.0 + rng.integers(-50, 50, size=(40, 4)) * 2.0**-20
    for point, answer in zip(points, _nearest.nearest(space, points), strict=True):
        squares = [
            sum((Fraction(p) - Fraction(v)) ** 2 for p, v in zip(point, vector, strict=True))
            for vector in space.vectors.tolist()
        ]
        assert squares.index(min(squares)) == answer


def test_huge_and_tiny_vectors():
    for scale in (1e-150, 1e-30, 1e30, 1e150):
        space = space_of(scale * np.array([[0.0, 1.0], [1.0, 0.0], [-1.0, 0.5]]))
        assert _nearest.nearest(space, space.vectors).tolist() == [0, 1, 2]


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e-150, 1e-40, 1e-12])
@pytest.mark.parametrize("eta", [1e-6, 1.0, 1e6])
def test_vectors_far_shorter_than_the_noise(scale, eta):
    space = space_of(scale * np.random.default_rng(0).normal(size=(30, 4)))
    ids = np.arange(300) % 30
    released = MetricNoise(eta=eta).perturb(ids, space, insecure_entropy(1))
    step = _noise.spacing(eta, 4)
    noise = _noise.random_vectors(300, 4, eta, insecure_entropy(1))
    points = _noise.snapped(space.vectors[ids] - _noise.centre(space) + noise, step)
    points += _noise.centre(space)
    assert released[:256].tolist() == brute_force(space, points)[:256]


def test_every_point_has_a_candidate_even_if_the_filter_fails():
    import torch

    space = space_of([[0.0, 1.0], [1.0, 0.0], [-1.0, 0.5]])
    usual = _nearest._filter(space)
    broken = torch.from_numpy(np.full((3, 3), np.nan))
    space.derived("nearest-filter", lambda: dataclasses.replace(usual, table=broken))
    assert _nearest.nearest(space, space.vectors).tolist() == [0, 1, 2]
    without = np.array([0, 1, 2])
    assert _nearest.nearest(space, space.vectors, without).tolist() == brute_force(
        space, space.vectors, without
    )


def test_vectors_all_equal_release_the_first():
    space = space_of(np.ones((5, 3)))
    assert set(MetricNoise(eta=1.0).perturb([1, 4], space, os_entropy)) == {0}


def test_the_filter_of_other_devices_decides_alike():
    """Its float64 table, here on the host."""
    import torch

    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(300, 5))
    vectors[200:] = vectors[:100]
    space, other = space_of(vectors), space_of(vectors)
    single = _nearest._filter(other)
    rows = single.scaled(vectors)
    table = torch.from_numpy(np.vstack([rows.T, -0.5 * (rows**2).sum(axis=1)]))
    other.derived(
        "nearest-filter", lambda: dataclasses.replace(single, table=table, unit=_noise.UNIT)
    )
    points, excluded = rng.normal(size=(400, 5)), rng.integers(300, size=400)
    points[:100] = vectors[:100]
    for left_out in (None, excluded):
        found = _nearest.nearest(other, points, left_out)
        assert np.array_equal(found, _nearest.nearest(space, points, left_out))


@pytest.mark.gpu
def test_another_device_finds_the_same_tokens():
    vectors = np.random.default_rng(0).normal(size=(3000, 64))
    vocabulary = dp.Vocabulary([f"w{i}" for i in range(3000)])
    host, device = (dp.EmbeddingSpace(vocabulary, vectors, device=d) for d in ("cpu", "cuda"))
    for eta in (1.0, 50.0):
        first, second = (
            MetricNoise(eta=eta).perturb(np.arange(3000), space, insecure_entropy(1))
            for space in (host, device)
        )
        assert np.array_equal(first, second)


def test_the_approximate_index_is_a_function_of_the_noisy_vector():
    pytest.importorskip("faiss")
    space = random_space(tokens=1500, dimensions=24, seed=4)
    points = space.vectors[:200] + 0.3 * np.random.default_rng(0).normal(size=(200, 24))
    together = _nearest.nearly_nearest(space, points)
    alone = [int(_nearest.nearly_nearest(space, point[None])[0]) for point in points]
    assert together.tolist() == alone
    assert _nearest.nearly_nearest(space, points[::-1]).tolist() == alone[::-1]
    assert (together == _nearest.nearest(space, points)).mean() > 0.9


def test_the_recall_of_the_index_is_an_assumption():
    pytest.importorskip("faiss")
    space = random_space(tokens=1500, dimensions=24, seed=4)
    mechanism = MetricNoise(eta=60.0, index="approximate")
    share = _nearest.recall(space, 60.0)
    assert 0.5 < share <= 1
    assert f"{share:.1%}" in mechanism.assumptions(space)[1]
    released = mechanism.perturb(np.arange(1500), space, insecure_entropy(0))
    exact = MetricNoise(eta=60.0).perturb(np.arange(1500), space, insecure_entropy(0))
    assert (released == exact).mean() == pytest.approx(share, abs=0.1)


def test_the_index_gives_duplicates_the_first_id():
    pytest.importorskip("faiss")
    space = space_of([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [-0.0, 1.0]])
    assert _nearest.nearly_nearest(space, space.vectors).tolist() == [0, 1, 0, 1]
    assert _nearest.nearly_nearest(space, space.vectors[:0]).shape == (0,)


def test_a_missing_index_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(dp.MissingExtra, match=r"faiss-cpu.*dp-middleware\[faiss\]"):
        MetricNoise(eta=1.0, index="approximate").perturb([0], random_space(), os_entropy)


@pytest.mark.parametrize("order", ["import faiss, torch", "import torch, faiss"])
def test_both_libraries_run_in_one_process(order):
    """Each brings a runtime for threads of its own."""
    pytest.importorskip("faiss")
    code = f"""
{order}
import numpy as np
rows = np.random.default_rng(0).normal(size=(3000, 32)).astype(np.float32)
index = faiss.IndexHNSWFlat(32, 16)
index.add(rows)
total = (torch.from_numpy(rows) @ torch.from_numpy(rows).T).sum()
assert (index.search(rows, 1)[1][:, 0] == np.arange(3000)).mean() > 0.9
assert torch.isfinite((torch.from_numpy(rows) @ torch.from_numpy(rows).T).sum() + total)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
