"""Exact products and distances: duplicates, dead dimensions, hostile scales."""

import math
import pickle
import re
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from scipy.spatial.distance import cdist
from support.cases import over, refuses
from support.spaces import space_of, spaces

import dp_middleware as dp
from dp_middleware._torch import WARMED
from dp_middleware.embedding import grid
from dp_middleware.embedding.arrays import product

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


@over("power", [-400, -30, 0, 30, 400])
def test_distances_scale_with_the_vectors(power):
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
    refuses("comparable lengths", space.distances, [0])
    vectors[7] /= 1e4  # a stated loss
    space = space_of(vectors)
    assert 0 < space.resolution < 1e-3
    refuses("comparable lengths", space_of(vectors * 1e-200).distances, [0])


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


@over("dimensions", [1, 3, 384, 1000])
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


@over(
    "vectors",
    [
        np.random.default_rng(0).normal(size=(300, 100)) + 3.0,
        np.random.default_rng(1).normal(size=(130, 3)) * 1e6,
        np.eye(150),  # all pairs are equally far apart
        np.arange(200.0)[:, None],
        np.zeros((70, 2)),
    ],
)
def test_the_diameter_is_the_largest_of_all_rows_to_the_last_bit(vectors):
    """A law that ends at the diameter would otherwise leave a pair out in one direction."""
    space = space_of(vectors)
    assert space.diameter == space.distances(np.arange(len(space))).max()


def test_a_space_is_a_protected_value():
    space = space_of([[3.0, 4.0], [0.0, 0.0]])
    assert space.vectors.tolist() == [[3.0, 4.0], [0.0, 0.0]]
    with pytest.raises(ValueError, match="read-only"):
        space.vectors[0, 0] = 1.0
    assert pickle.loads(pickle.dumps(space)) == space == space_of([[3.0, 4.0], [0.0, 0.0]])
    assert space != space_of([[3.0, 4.0000001], [0.0, 0.0]])
    assert space != space_of([[3.0, 4.0], [0.0, 0.0]], unknown="drop")


def test_vectors_that_are_none_are_refused():
    told = "1 of 3 rows, the first at row 1"
    refuses(told, space_of, *([[0.0], [bad], [1.0]] for bad in (np.nan, np.inf, -np.inf)))
    make = partial(dp.EmbeddingSpace, dp.Vocabulary(["a", "b"]))
    refuses("expected vectors", make, [[1.0]], [1.0, 2.0], np.empty((2, 0)))
    refuses("overflow", space_of, [[1e160], [0.0]])


OF_MKL = "exp|log|expm1|log1p|log10|log2|sqrt|rsqrt|sin|cos|tan|asin|acos|atan|tanh|erf|erfc|erfinv"
CALL = re.compile(rf"(\w+|\)|\])\.({OF_MKL})_?\(")
ELSEWHERE = {"math", "np", "cmath", "special", "context", "mpmath"}


def test_every_function_of_mkl_that_is_called_was_called_before():
    calls = {
        (path.name, name)
        for path in Path(dp.__file__).parent.rglob("*.py")
        for owner, name in CALL.findall(path.read_text(encoding="utf-8"))
        if owner not in ELSEWHERE
    }
    accelerators_only = {("arrays.py", "sqrt")}  # on the CPU the root is NumPy's
    assert {name for _, name in calls - accelerators_only} == set(WARMED)


@over("rows", [0, 1, 5, 8, 9, 31, 32, 70])
def test_products_of_any_number_of_rows_are_those_of_integers(rows):
    drawn = np.random.default_rng(rows).integers(-(1 << 20), 1 << 20, (rows + 1501, 150))
    first, second = drawn[:rows], drawn[rows:]
    points = (torch.from_numpy(part * 2.0**-26) for part in (first, second))
    assert np.array_equal(product(*points).numpy() * 2.0**52, first @ second.T)
