"""Windows by hand, what one token weighs in them, and the claims for them."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
from support.cases import over
from support.known_bad import LeavesOutTheOriginal
from support.noise_laws import fits, line_law, plane_law
from support.spaces import space_of

import dp_middleware as dp
from dp_middleware.mechanisms.kernels import nearest as _nearest
from dp_middleware.mechanisms.stencil import influences, window_means
from dp_middleware.sampling.sampler import insecure_entropy, os_entropy

HALF = 1 / math.sqrt(2 * math.log(2))  # the sigma of weight 1/2 at offset 1


def test_stencil_by_hand():
    """Means 2, 6, 10 of 0, 6, 12; duplicates stand for each other, ties go to the first."""
    space = space_of([[0.0], [6.0], [12.0], [2.0], [10.0]])
    mechanism = dp.Stencil(window=3, sigma=HALF)
    assert mechanism.perturb([0, 1, 2], space, os_entropy).tolist() == [3, 3, 4]
    space = space_of([[0.0], [5.0], [0.0]])
    assert dp.Stencil(window=1).perturb([0, 2, 1], space, os_entropy).tolist() == [2, 0, 0]
    with pytest.raises(dp.ParameterError, match="two tokens"):
        dp.Stencil().perturb([0], space_of([[1.0]]), os_entropy)


def weight_matrix(length, window, sigma):
    first, last, c = (
        (-(window - 1) // 2, (window - 1) // 2, 0.0)
        if window % 2
        else (-window // 2 + 1, window // 2, 0.5)
    )
    f = np.zeros((length, length))
    for i, j in itertools.product(range(length), repeat=2):
        if first <= j - i <= last:
            f[i, j] = math.exp(-((j - i - c) ** 2) / (2 * sigma**2))
    return f / f.sum(axis=1, keepdims=True)


@over("window", range(1, 10))
@over("sigma", [0.4, 1.25, 50.0])
def test_influences_are_the_columns_of_the_weights(window, sigma):
    worst = 0.0
    for length in range(1, 3 * window + 3):
        f = weight_matrix(length, window, sigma)
        vectors = np.random.default_rng(length).normal(size=(length, 2))
        assert window_means(vectors, window, sigma) == pytest.approx(f @ vectors)
        assert influences(length, window, sigma) == pytest.approx(f.sum(axis=0))
        mechanism = dp.DChiStencil(eta=2.0, window=window, sigma=sigma)
        assert mechanism.lipschitz(length) == pytest.approx(2 * f.sum(axis=0).max())
        worst = max(worst, f.sum(axis=0).max())
    assert mechanism.lipschitz(None) == pytest.approx(2 * worst)
    assert worst < (1.4 if window % 2 else 1.5 + 1e-9)


NOISY = [  # a mechanism with noise, and its fingerprint in ledgers
    (partial(dp.MetricNoise, eta=2.0), "metric-noise-e7165dd07e901a36"),
    (partial(dp.DChiStencil, eta=3.0), "dchi-stencil-2dcc4e1ae2603b18"),
]


@over("make, known", NOISY)
def test_a_cosine_is_another_mechanism_at_the_same_price(make, known):
    space = space_of([[1.0, 0.0], [0.0, 1.0], [5.0, 5.0], [0.6, 0.3], [0.0, 0.0]])
    first, second = (dp.certify(m, space, length=2) for m in (make(), make(nearness="cosine")))
    assert (first.guarantee, first.epsilon) == (second.guarantee, second.epsilon)
    assert first.mechanism == known != second.mechanism
    with pytest.raises(dp.ParameterError, match="nearness"):
        make(nearness="centred_cosine")


@over("make", [*(make for make, _ in NOISY), partial(dp.Stencil, window=3)])
def test_a_cosine_reads_the_same_noisy_means(make):
    """By the definition, from the same bytes; of equal tokens Stencil leaves out the original."""
    vectors = np.random.default_rng(3).normal(size=(40, 3)) + 1.0
    vectors[7], vectors[9] = vectors[5], 0.0
    space, ids, mechanism = space_of(vectors), np.arange(40), make(nearness="cosine")
    released, plain = (m.perturb(ids, space, insecure_entropy(1)) for m in (mechanism, make()))
    points = space.points
    if hasattr(mechanism, "window"):
        points = window_means(points, mechanism.window, mechanism.sigma)
    if hasattr(mechanism, "eta"):
        points = _nearest.noisy(points, mechanism.eta, insecure_entropy(1))
    points = points + (vectors[0] - space.points[0])
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300)
    cosines = points @ unit.T
    if isinstance(mechanism, dp.Stencil):
        np.fill_diagonal(cosines, -np.inf)
        alone = dp.Stencil(window=1, nearness="cosine").perturb([5, 7], space, os_entropy)
        assert alone.tolist() == [7, 5]
    else:
        assert 7 not in released  # equal to an earlier one
    assert released.tolist() == cosines.argmax(axis=1).tolist()
    assert len(set(released.tolist())) > 10
    assert (released != plain).any()


def line_loss(mechanism, tokens, ids, position, other):
    """The exact loss of a whole text over a replaced token: positions are independent."""
    texts = np.array(ids), np.array(ids)
    texts[1][position] = other
    means = [window_means(tokens[t][:, None], mechanism.window, mechanism.sigma)[:, 0]
             for t in texts]  # fmt: skip
    laws = [[np.log(line_law(tokens, m, mechanism.eta)) for m in row] for row in means]
    return max(
        sum(float((p - q).max()) for p, q in zip(*pair, strict=True)) for pair in (laws, laws[::-1])
    )


@over("window", [1, 2, 3, 4, 5])
def test_the_loss_of_a_text_is_eta_times_influence_times_distance(window):
    tokens, ids = np.array([-10.0, 0.0, 1.0, 10.0]), [1, 2, 1, 1, 2, 1]
    mechanism = dp.DChiStencil(eta=1.2, window=window)
    f = weight_matrix(len(ids), window, mechanism.sigma)
    for position in range(len(ids)):
        other = 3 - ids[position]
        loss = line_loss(mechanism, tokens, ids, position, other)
        assert loss == pytest.approx(1.2 * f[:, position].sum(), rel=1e-9)
        assert loss <= mechanism.lipschitz(len(ids)) * 1.0 + 1e-9
        assert loss < mechanism.claimed_epsilon * 0.8


def test_the_cosine_half_of_theorem_1_is_false():
    """Unit vectors a small angle apart: the loss is above 2 eta (1 - cos), below eta chord."""
    eta, angle = 4.0, 0.2
    angles = np.array([0.0, angle, angle + 1.2, -1.2, 3.0])
    tokens = np.column_stack([np.cos(angles), np.sin(angles)])
    first, second = (np.log(plane_law(tokens, tokens[k], eta)) for k in (0, 1))
    loss = float(np.abs(first - second).max())
    chord = float(np.linalg.norm(tokens[0] - tokens[1]))
    cosine_distance = 1 - math.cos(angle)
    assert cosine_distance == pytest.approx(chord**2 / 2)
    assert loss > 2 * 2 * eta * cosine_distance  # twice the claim
    assert loss <= eta * chord + 1e-3
    assert eta * chord <= dp.DChiStencil(eta=eta, window=1).lipschitz(1) * chord


def test_leaving_out_the_original_makes_the_loss_infinite():
    space = space_of([[-1.0], [0.0], [0.5], [2.0], [3.5]])
    kept = {}
    for kind in (LeavesOutTheOriginal, dp.DChiStencil):
        mechanism = kind(eta=1.0, window=1)
        kept[kind] = [
            int((mechanism.perturb(np.full(2000, token), space, os_entropy) == 0).sum())
            for token in (0, 1)
        ]
    assert kept[LeavesOutTheOriginal][0] == 0
    assert min(kept[LeavesOutTheOriginal][1], *kept[dp.DChiStencil]) > 50


@pytest.mark.slow
def test_window_noise_follows_the_law_at_every_position_independently():
    tokens, ids = np.array([0.0, 1.0, 2.5]), np.array([0, 2, 1])
    mechanism = dp.DChiStencil(eta=1.5, window=3, sigma=HALF)
    space = space_of(tokens[:, None])
    # means by hand: (0 + 2.5/2)/1.5, (0/2 + 2.5 + 1/2)/2, (2.5/2 + 1)/1.5
    means = [1.25 / 1.5, 3.0 / 2, 2.25 / 1.5]
    counts = np.zeros((3, 3, 3), dtype=int)
    for _ in range(8000):
        counts[tuple(mechanism.perturb(ids, space, os_entropy))] += 1
    for eta, expected in ((1.5, True), (3.0, False)):
        laws = [line_law(tokens, mean, eta) for mean in means]
        assert fits(counts.ravel(), np.einsum("a,b,c->abc", *laws).ravel()) == expected
