"""Exact products and distances: duplicates, dead dimensions, hostile scales."""

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from scipy.spatial.distance import cdist
from support.spaces import random_space, space_of, spaces

import dp_middleware as dp
from dp_middleware.embedding import grid

EPS = np.finfo(float).eps


@given(space=spaces())
def test_distances_are_the_rounded_roots_of_exact_numbers(space):
    points = [[Fraction(x) for x in point] for point in space.points.tolist()]
    squares = [
        [sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) for other in points]
        for one in points
    ]
    exact = np.array([[float(number) for number in row] for row in squares])
    assert [[Fraction(number) for number in row] for row in exact.tolist()] == squares
    distances = space.distances(np.arange(len(space)))
    assert np.array_equal(distances, np.sqrt(exact))
    assert np.array_equal(distances, distances.T)
    assert space.diameter == distances.max() <= 2 * space.radius * (1 + 2 * EPS)  # two roots


@given(space=spaces())
def test_distances_are_euclidean_up_to_the_resolution(space):
    """But for the roundings of SciPy's sums, of a root and of taking off the centre."""
    exact, dimensions = cdist(space.vectors, space.vectors), space.vectors.shape[1]
    distances = space.distances(np.arange(len(space)))
    rounded = EPS * (dimensions + 3) * (exact + np.abs(space.vectors).sum())
    assert (np.abs(distances - exact) <= space.resolution + rounded).all()
    assert space.resolution <= 2**-23 * space.radius or space.radius == 0


def test_what_vectors_share_costs_no_digits():
    vectors = np.zeros((3, 400))
    vectors[:, 0] = 1.0
    vectors[1, 1], vectors[2, 1] = 1e-5, 1e-7
    distances = space_of(vectors).distances([0])[0]
    assert distances == pytest.approx([0.0, 1e-5, 1e-7], abs=1e-5 * 2**-25)


@pytest.mark.parametrize("power", [-400, -30, 0, 30, 400])
def test_distances_scale_with_the_vectors(power):
    """Down to the last bit: nothing is compared with a length of our own."""
    vectors = np.random.default_rng(0).normal(size=(40, 7)) + 2.0
    ids = np.arange(40)
    scaled = space_of(vectors * 2.0**power)
    assert np.array_equal(scaled.distances(ids), space_of(vectors).distances(ids) * 2.0**power)
    assert np.array_equal(scaled.cosines(ids), space_of(vectors).cosines(ids))


def test_vectors_that_one_grid_cannot_hold_are_refused():
    """One vector a million times as long as the others leaves nothing of their distances."""
    vectors = np.random.default_rng(0).normal(size=(50, 8))
    vectors[7] *= 1e7
    space = space_of(vectors)
    assert space.cosines([7])[0, 7] == pytest.approx(1.0)  # unit rows have a grid of their own
    with pytest.raises(dp.ParameterError, match="comparable lengths"):
        space.distances([0])
    vectors[7] /= 1e4  # a stated loss
    space = space_of(vectors)
    assert 0 < space.resolution < 1e-3


def test_points_too_short_for_a_float_are_refused():
    space = space_of(np.random.default_rng(0).normal(size=(5, 3)) * 1e-200)
    with pytest.raises(dp.ParameterError, match="comparable lengths"):
        space.distances([0])


def test_a_row_is_the_same_bits_whatever_the_batch():
    space = random_space(tokens=300, dimensions=100, seed=1)
    for rows in (space.distances, space.cosines, space.centred_cosines):
        whole = rows(np.arange(300))
        for ids in ([5], [5, 5, 299], list(range(298, 150, -1))):
            assert np.array_equal(rows(ids), whole[ids])


def test_unit_rows_do_not_depend_on_the_rows_before_them():
    rows = np.random.default_rng(0).normal(size=(600, 7)) * np.logspace(-200, 150, 600)[:, None]
    rows[[3, 300]] = -0.0
    unit = grid.unit_rows(rows)
    assert unit.tobytes() == b"".join(grid.unit_rows(row[None]).tobytes() for row in rows)
    assert not np.signbit(unit[[3, 300]]).any()
    assert not unit[[3, 300]].any()
    # three additions, a root and a quotient, squared: five roundings twice; then seven of ours
    np.testing.assert_allclose(np.delete(np.square(unit).sum(axis=1), [3, 300]), 1.0, rtol=9 * EPS)


@given(space=spaces())
def test_cosines_lie_between_minus_one_and_one(space):
    cosines = space.cosines(np.arange(len(space)))
    assert (np.abs(cosines) <= 1.0).all()
    lengths = np.linalg.norm(space.vectors, axis=1)
    dots = space.vectors @ space.vectors.T
    product = np.outer(lengths, lengths)
    expected = np.divide(dots, product, out=np.zeros_like(dots), where=product > 0)
    np.testing.assert_allclose(cosines, expected, atol=2**-25 * space.vectors.shape[1])
    assert np.array_equal(cosines, cosines.T)


@pytest.mark.parametrize("dimensions", [1, 3, 384, 1000])
def test_products_are_exact_in_any_order(dimensions):
    rng = np.random.default_rng(dimensions)
    rows = grid.unit_points(rng.normal(size=(40, dimensions)))
    expected = [
        [math.fsum((a * b for a, b in zip(one, other, strict=True))) for other in rows.tolist()]
        for one in rows.tolist()
    ]
    order = rng.permutation(dimensions)
    assert np.array_equal(rows @ rows.T, expected)
    assert np.array_equal(np.einsum("id,jd->ij", rows[:, order], rows[:, order]), expected)
    assert np.array_equal(torch.from_numpy(rows) @ torch.from_numpy(rows).T, expected)
    assert np.array_equal(sum(np.outer(column, column) for column in rows.T), expected)
    assert (rows * 2**26 == np.rint(rows * 2**26)).all()


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


@pytest.mark.gpu
def test_a_gpu_agrees_within_the_certified_bound():
    space = random_space(tokens=500, dimensions=384, seed=1)
    on_gpu = dp.EmbeddingSpace(space.vocabulary, space.vectors, device="cuda")
    for mechanism in (dp.TokenExponential(epsilon=20.0), dp.RanText(epsilon=10.0)):
        ids = np.arange(500)
        difference = mechanism.log_probs(ids, space) - mechanism.log_probs(ids, on_gpu)
        assert np.abs(difference).max() < 1e-11


def test_lengths_that_overflow_are_refused():
    with pytest.raises(dp.ParameterError, match="overflow"):
        space_of([[1e160], [0.0]])


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
