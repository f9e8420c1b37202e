"""RANTEXT's closed form against a slow exact sum and against the literal two-step draw."""

import math
from functools import partial

import mpmath
import numpy as np
import pytest
import torch
from support.cases import over, refuses
from support.laws import law_of, p_value
from support.spaces import random_space

import dp_middleware as dp
from dp_middleware.mechanisms.kernels.marginal import Histogram
from dp_middleware.mechanisms.kernels.radius import SMALL, radius_law
from dp_middleware.mechanisms.rantext import JUMP, _law, noise_epsilon

STATED = 1e-4  # log error that docs/mechanisms.md states, for up to 128 tokens
EPSILONS = (1.0, 2.01, 8.0)


def test_the_noise_rule_jumps_once():
    assert noise_epsilon(1.0) == 1.0
    assert noise_epsilon(JUMP - 1e-9) == pytest.approx(JUMP)
    assert pytest.approx(2.0, abs=1e-4) == JUMP
    assert noise_epsilon(JUMP + 1e-9) > 8.9
    assert noise_epsilon(3.0) == pytest.approx(0.0165 * math.log(19.065) + 9.3111, abs=1e-4)
    assert noise_epsilon(1e6) < 10.0


def mpmath_log_density(scales, r):
    """ln f(r), from the Laplace transform of the squared radius, a product over components."""
    with mpmath.workdps(40):

        def transform(s):
            product = mpmath.mpf(1)
            for scale in scales:
                z = 1 / (2 * mpmath.mpf(scale) * mpmath.sqrt(s))
                product *= mpmath.sqrt(mpmath.pi) * z * mpmath.exp(z * z) * mpmath.erfc(z)
            return product

        square = mpmath.mpf(r) ** 2
        density = mpmath.invertlaplace(transform, square, method="talbot", degree=60)
        return float(mpmath.log(2 * r * density))


RANDOM = [np.random.default_rng(d).uniform(0.3, 1.0, d).tolist() for d in (1, 2, 3, 8)]


@over("scales", [*RANDOM, [1.0, 1.0], [0.05, 2.0], [1e-3, 1.0]])
def test_the_density_of_the_radius_is_that_in_high_precision(scales):
    law = radius_law(np.array(scales), 20.0)
    for r in (0.3, 2.0, 9.0):
        exact = mpmath_log_density(scales, r)
        assert law.log_pdf(np.array([r]))[0] == pytest.approx(exact, abs=1e-5)


def piecewise_row(mechanism, space, token):
    """ln P by Gauss-Legendre between all distances and 250 radii in equal ratios."""
    distances, inverse, counts = np.unique(
        space.distances([token])[0], return_inverse=True, return_counts=True
    )
    scale, half = noise_epsilon(mechanism.epsilon), 0.5 * mechanism.epsilon
    law = _law(mechanism, space)
    end = law.grid[-1] / scale
    cuts = np.unique([*distances[distances < end], *np.geomspace(1e-9 * end, end, 250)])
    points, weights = np.polynomial.legendre.leggauss(6)
    radii = (cuts[1:, None] + cuts[:-1, None] + np.diff(cuts)[:, None] * points) / 2
    mass = (np.exp(law.log_pdf(radii * scale)) * np.diff(cuts)[:, None] * weights).ravel()
    kernel = np.exp(-half * np.minimum(distances[:, None] / radii.ravel(), 1.0))
    if mechanism.literal:
        kernel[distances[:, None] >= radii.ravel()] = 0.0
    row = (kernel @ (mass / (counts @ kernel)))[inverse]
    return np.log(row / row.sum())


def largest_error(mechanism, space):
    """Of ln P in the rows of a central token and the farthest one, where P is above e^-20."""
    far = int(np.linalg.norm(space.points, axis=1).argmax())
    exact = np.array([piecewise_row(mechanism, space, token) for token in (0, far)])
    error = np.abs(mechanism.log_probs([0, far], space) - exact)
    return error[exact > -20].max()


SMALL_ONES = [(tokens, dimensions, tokens) for tokens in (12, SMALL) for dimensions in (1, 2, 3, 8)]


@over("tokens, dimensions, seed", [*SMALL_ONES, (600, 2, 2), (600, 3, 3), (600, 8, 8)])
@over("kind, stated", [(dp.RanText, 1e-2), (dp.RanTextStrict, 2e-4)])
def test_rows_are_the_integral_or_near_it(kind, stated, tokens, dimensions, seed):
    space = random_space(tokens=tokens, dimensions=dimensions, seed=seed)
    for epsilon in EPSILONS:
        error = largest_error(kind(epsilon=epsilon), space)
        assert error < (STATED if tokens <= SMALL else stated), epsilon


@over("size", [1, 2**14 - 1, 2**14, 2**17])
def test_all_tokens_in_one_cell_do_not_overflow(size):
    histogram = Histogram(torch.linspace(0.0, 2.0, 33, dtype=torch.float64), 16.0, size)
    for distance in (0.0, 1.0, 1.99):
        places, sums = torch.full((1, size), distance, dtype=torch.float64), histogram.empty(1)
        histogram.add(places, sums)
        at_zero, counts, _ = histogram.read(sums)
        assert float(at_zero.sum() + counts.sum()) == size


def two_step(mechanism, space, token, count, generator):
    """The paper's sampler: a radius, then the exponential mechanism on the list."""
    distances = space.distances([token])[0]
    scales = np.ptp(space.vectors, axis=0) / noise_epsilon(mechanism.epsilon)
    radii = np.linalg.norm(generator.laplace(size=(count, len(scales))) * scales, axis=1)[:, None]
    scores = mechanism.epsilon / 2 * np.maximum(0.0, 1.0 - distances / radii)
    if mechanism.literal:
        scores = np.where(distances < radii, scores, -np.inf)
    return (scores + generator.gumbel(size=scores.shape)).argmax(axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [dp.RanText, dp.RanTextStrict])
@pytest.mark.parametrize(("dimensions", "epsilon"), [(1, 1.0), (2, 3.0), (5, 10.0), (60, 1.5)])
def test_the_marginal_is_the_two_step_draw(kind, dimensions, epsilon):
    """200,000 draws of a seeded generator fit the closed form and reject that of twice epsilon."""
    space = random_space(tokens=12, dimensions=dimensions, seed=dimensions)
    generator = np.random.default_rng(1)
    drawn = two_step(kind(epsilon=epsilon), space, 0, 200_000, generator)
    counts = np.bincount(drawn, minlength=len(space))

    fits = [p_value(counts, law_of(kind(epsilon=e), space, 0)) for e in (epsilon, 2 * epsilon)]
    assert fits[0] > 1e-6 > fits[1]


@over("noise_range", [(1e-3,) * 3, (1e3,) * 3])
def test_extreme_noise_ranges_keep_every_output(noise_range):
    space = random_space()
    rows = dp.RanText(epsilon=3.0, noise_range=noise_range).log_probs(np.arange(12), space)
    assert np.isfinite(rows).all()
    np.testing.assert_allclose(np.exp(rows).sum(axis=1), 1.0, rtol=1e-12)


def drawn_sizes(mechanism, space, draws=20_000):
    """Sizes of the lists of all tokens for drawn radii, (V, draws)."""
    scales = np.array(mechanism.noise_range) / noise_epsilon(mechanism.epsilon)
    noise = np.random.default_rng(0).laplace(size=(draws, len(scales))) * scales
    radii = np.linalg.norm(noise, axis=1)
    distances = space.distances(np.arange(len(space)))
    return np.array([np.searchsorted(np.sort(row), radii) for row in distances])


@over("size", [3, 10])
def test_the_radius_can_be_set_by_list_size(size):
    space = random_space(tokens=60, dimensions=4, seed=9)
    mechanism = dp.RanText.with_list_size(space, epsilon=3.0, size=size)
    assert drawn_sizes(mechanism, space, 4000).mean() == pytest.approx(size, rel=0.1)
    assert dp.RanText.with_list_size(space, epsilon=3.0, size=size / 60) == mechanism
    assert dp.RanText.with_list_size(space, epsilon=3.0, size=1e-6).noise_range  # 2 at least


@over("epsilon, chance", [(2.0, 0.015), (6.0, 0.09), (8.0, 0.095), (14.0, 0.105), (20.0, 0.105)])
def test_lists_of_five_per_cent_are_as_likely_as_printed(epsilon, chance):
    """App. B: of two factors the one of the longer lists."""
    space = random_space(tokens=200, dimensions=1, seed=0)
    mechanism = dp.RanText.with_list_share(space, epsilon=epsilon)
    found, wider = mechanism.list_chances(space, factors=[1.0, 2.0])
    assert found == pytest.approx(chance, abs=1e-4)
    assert wider < 0.8 * chance


def test_lists_that_are_never_so_likely_are_at_their_likeliest():
    space = random_space(tokens=200, dimensions=4, seed=9)
    mechanism = dp.RanText.with_list_share(space, epsilon=6.0)
    chances = mechanism.list_chances(space, factors=[0.9, 1.0, 1.1])
    assert max(chances) == chances[1] < 0.09


@over("share", [0.05, 0.3, 0.95, 0.999])
def test_the_chance_of_a_list_is_that_of_drawn_ones(share):
    space = random_space(tokens=40, dimensions=3, seed=2)
    mechanism = dp.RanText(epsilon=3.0, noise_range=(9.0, 5.0, 3.0))
    sizes = drawn_sizes(mechanism, space) / len(space)
    expected = np.mean(abs(sizes - share) < 0.1 * share + 1e-9)  # by a tenth
    assert mechanism.list_chances(space, share)[0] == pytest.approx(expected, abs=0.02)
    assert expected > 0.02


def test_bad_parameters_are_refused():
    space = random_space(tokens=60)
    ranges = ((1.0,), (0.0, 0.0, 0.0), (1.0, -1.0, 1.0), (math.nan, 1.0, 1.0))
    made = partial(dp.RanText, epsilon=1.0)
    refuses("noise_range", lambda each: made(noise_range=each).log_probs([0], space), *ranges)
    tuned = partial(dp.RanText.with_list_share, space, epsilon=3.0)
    refuses("share < 1", lambda share: tuned(share=share), 0.0, 1.0)
    refuses("chance < 1", lambda chance: tuned(chance=chance), 0.0, 1.0)
    refuses("expected", lambda size: dp.RanText.with_list_size(space, epsilon=3.0, size=size), 60)


def test_a_nearer_token_is_likelier_which_promises_nothing():
    """Theorem 4 of InferDPT: rows fall with the distance; the loss exceeds the claim anyway."""
    space = random_space(tokens=25, seed=3)
    mechanism = dp.RanText(epsilon=3.0)
    rows = mechanism.log_probs(np.arange(25), space)
    order = np.argsort(space.distances(np.arange(25)), axis=1)
    assert (np.diff(np.take_along_axis(rows, order, axis=1), axis=1) <= 1e-9).all()
    assert (rows.max(axis=0) - rows.min(axis=0)).max() > 3.0
