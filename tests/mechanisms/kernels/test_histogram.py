"""Distances on a grid: what is added up is exact, in any order, and read back."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from dp_middleware.mechanisms.kernels.marginal import PLACE, Histogram

GRIDS = {
    "equal": (np.linspace(0.0, 2.0, 33), 16.0),
    "unequal": (np.unique(np.concatenate(([0.0], np.geomspace(1e-4, 2.0, 40)))), None),
}


def histogram_of(kind, distances):
    """The histogram of some rows, their sums and what became of the distances."""
    grid, per_unit = GRIDS[kind]
    histogram = Histogram(torch.from_numpy(grid), per_unit, distances.shape[1])
    places, sums = torch.from_numpy(distances.copy()), histogram.empty(len(distances))
    histogram.add(places, sums)
    return histogram, sums, places


def some_distances(seed, size):
    generator = np.random.default_rng(seed)
    distances = 2.0 * generator.random((3, size)) ** generator.choice([1, 3])
    distances[:, generator.random(size) < 0.2] = 0.0
    distances[distances < 1e-6] = 0.0  # as those of a space
    return distances


@pytest.mark.parametrize("kind", GRIDS)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), size=st.sampled_from([1, 2, 63, 64, 5000]))
def test_counts_are_exact_and_places_nearly(kind, seed, size):
    grid, distances = GRIDS[kind][0], some_distances(seed, size)
    histogram, sums, _ = histogram_of(kind, distances)
    at_zero, counts, places = (found.numpy() for found in histogram.read(sums))
    assert np.array_equal(at_zero[:, 0], (distances == 0).sum(axis=1))
    for row, count, place in zip(distances, counts, places, strict=True):
        positive = row[row > 0]
        cell = np.searchsorted(grid, positive, side="left") - 1
        assert np.array_equal(count, np.bincount(cell, minlength=len(grid) - 1))
        exact = np.bincount(
            cell, (positive - grid[cell]) / np.diff(grid)[cell], minlength=len(grid) - 1
        )
        cut_off = place - exact
        assert (cut_off >= -1e-9).all()
        assert (cut_off <= count * 2.0**-PLACE + 1e-9).all()


@pytest.mark.parametrize("kind", GRIDS)
@given(seed=st.integers(0, 2**32))
def test_sums_do_not_depend_on_the_order(kind, seed):
    distances = some_distances(seed, 700)
    shuffled = distances[:, np.random.default_rng(seed).permutation(700)]
    assert torch.equal(histogram_of(kind, distances)[1], histogram_of(kind, shuffled)[1])


@pytest.mark.parametrize("size", [1, 2**14 - 1, 2**14, 2**17])
def test_all_tokens_in_one_cell_do_not_overflow(size):
    for distance in (0.0, 1.0, 1.99):
        histogram, sums, places = histogram_of("equal", np.full((1, size), distance))
        assert Fraction(int(sums.sum()), 2**PLACE) == size * Fraction(
            int(places[0, 0] * 2**PLACE), 2**PLACE
        )
        at_zero, counts, _ = histogram.read(sums)
        assert float(at_zero.sum() + counts.sum()) == size


@pytest.mark.parametrize("kind", GRIDS)
@given(seed=st.integers(0, 2**32))
def test_functions_are_linear_between_the_points(kind, seed):
    grid, distances = GRIDS[kind][0], some_distances(seed, 200)
    histogram, _, places = histogram_of(kind, distances)
    values = np.random.default_rng(seed).normal(size=(3, len(grid)))
    ends = torch.from_numpy(values[:, ::-1].copy())
    histogram.interpolate(places, ends, torch.nn.functional.pad(ends.diff(dim=1), (0, 1)))
    expected = [np.interp(d, grid, v) for d, v in zip(distances, values, strict=True)]
    np.testing.assert_allclose(places.numpy(), expected, atol=1e-11)
