"""RANTEXT's closed form against a slow exact sum and against the literal two-step draw."""

import itertools
import math

import mpmath
import numpy as np
import pytest
import torch
from support.cases import over
from support.laws import law_of, p_value
from support.spaces import random_space, space_of

import dp_middleware as dp
from dp_middleware.mechanisms.kernels import exact as _exact, radius
from dp_middleware.mechanisms.kernels.marginal import _harmonic
from dp_middleware.mechanisms.kernels.radius import SMALL, radius_law
from dp_middleware.mechanisms.rantext import JUMP, _law, noise_epsilon

STATED = 1e-4
"""Log error that RanText's docstring states for vocabularies of up to 128 tokens."""

EPSILONS = (1.0, 2.01, 8.0)


def test_the_noise_rule_jumps_once():
    assert noise_epsilon(1.0) == 1.0
    assert noise_epsilon(JUMP - 1e-9) == pytest.approx(JUMP)
    assert pytest.approx(2.0, abs=1e-4) == JUMP
    assert noise_epsilon(JUMP + 1e-9) > 8.9
    assert noise_epsilon(3.0) == pytest.approx(0.0165 * math.log(19.065) + 9.3111, abs=1e-4)
    assert noise_epsilon(1e6) < 10.0


def test_the_radius_of_many_components_has_the_right_moments():
    scales = np.random.default_rng(0).uniform(0.2, 0.6, 128)
    scales[5] = 0.0  # a dead dimension
    law = radius_law(scales, 0.0)
    log_mass, radii = law.log_masses(law.grid)
    mass = np.exp(log_mass)
    second = 2 * np.sum(scales**2)
    assert mass.sum() == pytest.approx(1.0, abs=1e-6)
    assert (mass * radii**2).sum() == pytest.approx(second, rel=1e-4)
    variance = (mass * radii**4).sum() - (mass * radii**2).sum() ** 2
    assert variance == pytest.approx(20 * np.sum(scales**4), rel=1e-2)


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


@pytest.mark.parametrize("scales", [*RANDOM, [1.0, 1.0], [0.05, 2.0], [1e-3, 1.0]])
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


@over("kind", [dp.RanText, dp.RanTextStrict])
@over("dimensions", [1, 2, 3, 8])
@over("tokens", [12, SMALL])
def test_rows_of_small_vocabularies_are_the_integral(kind, dimensions, tokens):
    space = random_space(tokens=tokens, dimensions=dimensions, seed=tokens)
    for epsilon in EPSILONS:
        assert largest_error(kind(epsilon=epsilon), space) < STATED, epsilon


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "stated"), [(dp.RanText, 1e-2), (dp.RanTextStrict, 2e-4)])
@pytest.mark.parametrize("dimensions", [2, 3, 8])
def test_rows_of_larger_vocabularies_are_near_the_integral(kind, stated, dimensions):
    space = random_space(tokens=600, dimensions=dimensions, seed=dimensions)
    for epsilon in EPSILONS:
        assert largest_error(kind(epsilon=epsilon), space) < stated, epsilon


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1e6])
def test_rows_do_not_depend_on_the_scale_of_the_vectors(scale):
    space = random_space(tokens=40, dimensions=3, seed=1)
    scaled = space_of(space.vectors * scale)
    for kind, epsilon in itertools.product([dp.RanText, dp.RanTextStrict], [1.0, 3.0]):
        rows = [kind(epsilon=epsilon).log_probs(np.arange(40), s) for s in (space, scaled)]
        assert np.abs(rows[0] - rows[1]).max() < 2 * STATED


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
    """200,000 literal draws fit the closed form and reject the one at twice epsilon.

    The generator is seeded, so the test is deterministic; p below 1e-6 would be a false alarm
    once in a million seeds.
    """
    space = random_space(tokens=12, dimensions=dimensions, seed=dimensions)
    generator = np.random.default_rng(1)
    drawn = two_step(kind(epsilon=epsilon), space, 0, 200_000, generator)
    counts = np.bincount(drawn, minlength=len(space))

    fits = [p_value(counts, law_of(kind(epsilon=e), space, 0)) for e in (epsilon, 2 * epsilon)]
    assert fits[0] > 1e-6 > fits[1]


@pytest.mark.parametrize(
    "noise_range", [(1.0,), (0.0, 0.0, 0.0), (1.0, -1.0, 1.0), (math.nan, 1.0, 1.0)]
)
def test_a_bad_noise_range_is_refused(noise_range):
    with pytest.raises(dp.ParameterError, match="noise_range"):
        dp.RanText(epsilon=1.0, noise_range=noise_range).log_probs([0], random_space())


@pytest.mark.parametrize("noise_range", [(1e-3,) * 3, (1e3,) * 3])
def test_extreme_noise_ranges_keep_every_output(noise_range):
    space = random_space()
    rows = dp.RanText(epsilon=3.0, noise_range=noise_range).log_probs(np.arange(12), space)
    assert np.isfinite(rows).all()
    np.testing.assert_allclose(np.exp(rows).sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("size", [3, 10])
def test_the_radius_can_be_set_by_list_size(size):
    space = random_space(tokens=60, dimensions=4, seed=9)
    mechanism = dp.RanText.with_list_size(space, epsilon=3.0, size=size)
    scales = np.array(mechanism.noise_range) / noise_epsilon(3.0)
    noise = np.random.default_rng(0).laplace(size=(4000, 4)) * scales
    radii = np.linalg.norm(noise, axis=1)
    distances = np.sort(space.distances(np.arange(60)), axis=None)
    assert np.searchsorted(distances, radii).mean() / 60 == pytest.approx(size, rel=0.1)
    with pytest.raises(dp.ParameterError):
        dp.RanText.with_list_size(space, epsilon=3.0, size=60)
    by_share = dp.RanText.with_list_size(space, epsilon=3.0, size=size / 60)
    assert by_share == mechanism
    assert dp.RanText.with_list_size(space, epsilon=3.0, size=1e-6).noise_range  # 2 at least


def drawn_chance(mechanism, space, share, draws=20_000):
    """The share of lists, of drawn radii, that have this share of the vocabulary, by a tenth."""
    scales = np.array(mechanism.noise_range) / noise_epsilon(mechanism.epsilon)
    noise = np.random.default_rng(0).laplace(size=(draws, len(scales))) * scales
    radii, size = np.linalg.norm(noise, axis=1), len(space)
    found = [np.searchsorted(np.sort(row), radii) for row in space.distances(np.arange(size))]
    return np.mean(abs(np.array(found) / size - share) < 0.1 * share + 1e-9)


@over("epsilon, chance", [(2.0, 0.015), (6.0, 0.09), (8.0, 0.095), (14.0, 0.105), (20.0, 0.105)])
def test_lists_of_five_per_cent_are_as_likely_as_printed(epsilon, chance):
    """App. B: of two factors the one of the longer lists."""
    space = random_space(tokens=200, dimensions=1, seed=0)
    mechanism = dp.RanText.with_list_share(space, epsilon=epsilon)
    assert mechanism.list_chances(space)[0] == pytest.approx(chance, abs=1e-4)
    assert drawn_chance(mechanism, space, 0.05) == pytest.approx(chance, abs=0.005)
    wider = dp.RanText(epsilon=epsilon, noise_range=(2 * mechanism.noise_range[0],))
    assert wider.list_chances(space)[0] < 0.8 * chance


def test_lists_that_are_never_so_likely_are_at_their_likeliest():
    space = random_space(tokens=200, dimensions=4, seed=9)
    ranges = np.array(dp.RanText.with_list_share(space, epsilon=6.0).noise_range)
    chances = [
        dp.RanText(epsilon=6.0, noise_range=tuple(factor * ranges)).list_chances(space)[0]
        for factor in (0.9, 1.0, 1.1)
    ]
    assert max(chances) == chances[1] < 0.09


@over("share", [0.05, 0.3, 0.95, 0.999])
def test_the_chance_of_a_list_is_that_of_drawn_ones(share):
    space = random_space(tokens=40, dimensions=3, seed=2)
    mechanism = dp.RanText(epsilon=3.0, noise_range=(9.0, 5.0, 3.0))
    expected = drawn_chance(mechanism, space, share)
    assert mechanism.list_chances(space, share)[0] == pytest.approx(expected, abs=0.02)
    assert expected > 0.02


@over("wrong", [{"share": 0.0}, {"share": 1.0}, {"chance": 0.0}, {"chance": 1.0}])
def test_a_share_and_its_chance_are_between_nothing_and_all(wrong):
    with pytest.raises(dp.ParameterError, match=f"{next(iter(wrong))} < 1"):
        dp.RanText.with_list_share(random_space(tokens=60), epsilon=3.0, **wrong)


@over("start", [1.0, 7.5, 199.0, 201.0, 1e6, 1e12])
@over("steps", [0, 1, 7, 8, 1000])
def test_harmonic_sums_keep_their_digits(start, steps):
    exact = math.fsum(1.0 / (start + j) for j in range(steps + 1))
    found = _harmonic(*torch.tensor([[start], [float(steps)]], dtype=torch.float64))
    assert float(found) == pytest.approx(exact, rel=2e-8)


def test_exponentials_and_logarithms_of_single_operations_are_right():
    x = -np.concatenate([[0.0], np.geomspace(1e-9, 500, 400)])
    error = np.abs(_exact.exp(x) * np.exp(-x) - 1)
    assert error.max() < 1e-9
    assert error[x >= -100].max() < 1e-12
    y = torch.from_numpy(np.geomspace(1.0, 1e300, 999))
    assert ((_exact.log(y) - y.log()) / y.log().clamp(min=1.0)).abs().max() < 1e-15


@pytest.mark.parametrize("rows", [1, 7])
def test_products_of_slices_are_exact(rows):
    """In integers, of what the slices hold."""
    generator = np.random.default_rng(rows)
    private, public = generator.uniform(size=(rows, 2000)), generator.uniform(size=(5, 2000))
    slices = _exact.slices(public)
    found = _exact.product(torch.from_numpy(private), tuple(map(torch.from_numpy, slices)))
    first = _exact.rounded(private, 19)
    for (i, j), value in np.ndenumerate(found.numpy()):
        exact = [
            math.fsum(map(math.prod, zip(a, b, strict=True)))
            for a, b in (
                (first[i], slices[0][j]),
                (first[i], slices[1][j]),
                (_exact.rounded(private[i] - first[i], 38), slices[0][j]),
            )
        ]
        assert value == exact[0] + (exact[1] + exact[2])
    assert np.abs(found.numpy() - private @ public.T).max() < 2000 * 2.0**-43


def test_a_law_of_many_components_is_kept_and_computed_again_if_its_file_is_damaged(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("DP_MIDDLEWARE_CACHE", str(tmp_path))
    original, computed = radius._add_components, []

    def counted(scales, grid):
        computed.append(len(scales))
        return original(scales, grid)

    monkeypatch.setattr(radius, "_add_components", counted)
    scales = np.linspace(0.5, 1.0, 17)
    first = radius_law(scales, 1.0)
    (file,) = (tmp_path / "radius-laws").iterdir()
    whole = file.read_bytes()
    assert np.array_equal(radius_law(scales, 1.0).log_h, first.log_h)
    assert computed == [17]
    for data in (b"", whole[:-30], whole.replace(b"1", b"2", 40), b'{"log_h": [1, "x"]}'):
        file.write_bytes(data)
        assert np.array_equal(radius_law(scales, 1.0).log_h, first.log_h)
        assert len(file.read_bytes()) == len(whole)
    radius_law(scales, 900.0)
    radius_law(scales[:16], 1.0)
    assert computed == [17] * 6 + [16]


def test_a_nearer_token_is_likelier_which_promises_nothing():
    """Theorem 4 of InferDPT: rows fall with the distance; the loss exceeds the claim anyway."""
    space = random_space(tokens=25, seed=3)
    mechanism = dp.RanText(epsilon=3.0)
    rows = mechanism.log_probs(np.arange(25), space)
    order = np.argsort(space.distances(np.arange(25)), axis=1)
    assert (np.diff(np.take_along_axis(rows, order, axis=1), axis=1) <= 1e-9).all()
    assert (rows.max(axis=0) - rows.min(axis=0)).max() > 3.0
