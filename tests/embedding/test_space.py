"""Distances that survive duplicates, dead dimensions and hostile scales."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from scipy.spatial.distance import cdist
from spaces import random_space, space_of, spaces

import dp_middleware as dp
from dp_middleware.certification.enumeration import RECOMPUTED


@given(space=spaces())
def test_distances_are_euclidean(space):
    exact = cdist(space.vectors, space.vectors)
    exact[exact < 1e-6] = 0.0
    distances = space.distances(np.arange(len(space)))
    np.testing.assert_allclose(distances, exact, atol=1e-10)
    assert (distances == distances.T).all() or np.allclose(distances, distances.T, atol=1e-12)
    assert space.diameter == pytest.approx(exact.max(), abs=1e-10)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_duplicates_are_at_distance_zero(scale, offset):
    vectors = np.random.default_rng(0).normal(size=(30, 50)) * scale + offset
    vectors[7] = vectors[3]
    distances = space_of(vectors).distances(np.arange(30))
    assert distances[3, 7] == 0.0
    assert (np.diagonal(distances) == 0.0).all()


def test_near_duplicates_keep_their_digits():
    vectors = np.zeros((3, 400))
    vectors[:, 0] = 1.0
    vectors[1, 1], vectors[2, 1] = 1e-5, 1e-7  # the Gram form would lose 1e-5 entirely
    distances = space_of(vectors).distances([0])[0]
    assert distances[1] == pytest.approx(1e-5, rel=1e-9)
    assert distances[2] == 0.0  # below 1e-6


def test_a_row_is_the_same_bits_whatever_the_batch():
    space = random_space(tokens=300, dimensions=100, seed=1)
    for rows in (space.distances, space.cosines):
        whole = rows(np.arange(300))
        for ids in ([5], [5, 5, 299], list(range(298, 150, -1))):
            assert np.array_equal(rows(ids), whole[ids])


@given(space=spaces())
def test_cosines_lie_between_minus_one_and_one(space):
    cosines = space.cosines(np.arange(len(space)))
    assert (np.abs(cosines) <= 1.0).all()
    lengths = np.linalg.norm(space.vectors, axis=1)
    dots = space.vectors @ space.vectors.T
    product = np.outer(lengths, lengths)
    expected = np.divide(dots, product, out=np.zeros_like(dots), where=product > 0)
    np.testing.assert_allclose(cosines, expected, atol=1e-12)


def test_vectors_are_kept_and_protected():
    given_vectors = [[3.0, 4.0], [0.0, 0.0]]
    space = space_of(given_vectors)
    assert space.vectors.tolist() == given_vectors
    with pytest.raises(ValueError, match="read-only"):
        space.vectors[0, 0] = 1.0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_refused(bad):
    with pytest.raises(dp.ParameterError, match="1 of 3 rows, the first at row 1"):
        space_of([[0.0], [bad], [1.0]])


@pytest.mark.parametrize("vectors", [[[1.0]], [1.0, 2.0], np.empty((2, 0))])
def test_bad_shapes_are_refused(vectors):
    with pytest.raises(dp.ParameterError, match="expected vectors"):
        dp.EmbeddingSpace(dp.Vocabulary(["a", "b"]), vectors)


def test_the_fingerprint_tells_spaces_apart():
    space = space_of([[1.0], [2.0]])
    assert space == space_of([[1.0], [2.0]])
    assert space != space_of([[1.0], [2.0000001]])
    assert space != space_of([[1.0], [2.0]], unknown="drop")
    assert pickle.loads(pickle.dumps(space)) == space


def test_derived_quantities_are_computed_once():
    space = random_space()
    calls = []
    for _ in range(2):
        assert space.derived("key", lambda: calls.append(1) or 7) == 7
    assert calls == [1]


@pytest.mark.gpu
def test_a_gpu_agrees_within_the_certified_bound():
    space = random_space(tokens=500, dimensions=384, seed=1)
    on_gpu = dp.EmbeddingSpace(space.vocabulary, space.vectors, device="cuda")
    for mechanism in (dp.TokenExponential(epsilon=20.0), dp.RanText(epsilon=10.0)):
        ids = np.arange(500)
        difference = mechanism.log_probs(ids, space) - mechanism.log_probs(ids, on_gpu)
        assert np.abs(difference).max() < 1e-11


def test_an_unknown_device_is_refused():
    with pytest.raises((RuntimeError, dp.ParameterError)):
        dp.EmbeddingSpace(dp.Vocabulary(["a"]), [[1.0]], device="nonsense")


@pytest.mark.parametrize("scale", [1e-7, 1e-150])
def test_distances_below_the_threshold_are_zero_at_every_scale(scale):
    space = space_of(np.random.default_rng(0).normal(size=(5, 3)) * scale)
    assert not space.distances(np.arange(5)).any()


def test_lengths_that_overflow_are_refused():
    with pytest.raises(dp.ParameterError, match="overflow"):
        space_of([[1e160], [0.0]])


def test_rows_by_another_product_stay_within_the_certified_bound(monkeypatch):
    """A common offset, as raw encoder inputs have, must not cost digits."""
    vectors = np.random.default_rng(0).normal(size=(400, 128))
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True) + 3.0
    space, other = space_of(vectors), space_of(vectors)

    def products(matrix, numbers, name):
        return torch.from_numpy(np.dot(matrix[numbers], matrix.T))

    monkeypatch.setattr(other, "_products", products)
    for mechanism in (dp.SanText(epsilon=10.0), dp.RanText(epsilon=3.0)):
        ids = np.arange(400)
        rows = mechanism.log_probs(ids, space)
        moved = np.abs(rows - mechanism.log_probs(ids, other)).max()
        assert moved < RECOMPUTED * max(1.0, 0.1 * np.abs(rows).max())


@pytest.mark.parametrize(
    "vectors",
    [
        np.random.default_rng(0).normal(size=(300, 100)) + 3.0,
        np.random.default_rng(1).normal(size=(130, 3)) * 1e6,
        np.eye(150),  # all pairs are equally far apart
        np.arange(200.0)[:, None],
        np.zeros((70, 2)),
    ],
    ids=["several blocks", "large", "a simplex", "a line", "one point"],
)
def test_the_diameter_is_the_largest_of_all_rows_to_the_last_bit(vectors):
    """A law that ends at the diameter would otherwise leave a pair out in one direction."""
    space = space_of(vectors)
    assert space.diameter == space.distances(np.arange(len(space))).max()
