"""Directions drawn from a cap or from the whole sphere, and how exact the program's law is.

With probability p a direction of the cap {u : <u, x> >= gamma}, of the share q of the sphere, else
one of the whole sphere: e^epsilon = 1 + p / ((1 - p) q). That is PrivUnit with another name for its
coin. A direction times the norm of a normal vector is drawn and snapped to a public grid; its error
is part of epsilon: see :func:`rounding`, and docs/guarantees.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from dp_middleware.embedding.arrays import Floats, slices
from dp_middleware.embedding.grid import folded
from dp_middleware.errors import ParameterError, needs
from dp_middleware.sampling.entropy import Entropy, random_words

LARGEST = 256  # dimensions: coordinates of the shell are below 22, where quantiles are exact
STEP = 2.0**-18  # spacing of the grid; a coordinate has standard deviation 1
ERROR = 2.0**-44
"""Largest distance of the program's vector from the ideal one of the same bits, over its length.

Of 512 units 2^-53 about 240 are needed: 18 for a normal vector (as in ``noise.py``), 41 for its
part across x, half of it or more, so 164 after normalisation, 25 for the cosine, the rest for sums.
"""

_SPECIAL = 1e-9  # allowed relative error of a cap's share; SciPy's is below 1e-12 where tested
_WORDS = 8
_TOTAL = 1 << 64
_THRESHOLDS = np.arange(410, 4095) / 4096.0  # of 0.1 at least: half of the draws are accepted
_ROWS = 256  # vectors at a time


@dataclass(frozen=True, kw_only=True)
class Cap:
    """Holds the cap of cosines of ``threshold`` or more in k ``dimensions``, and a coin.

    ``coin`` of 2^64 draws are from the cap. ``loss`` is the program's largest ln of a ratio of
    probabilities, nats; ``alignment`` the expected cosine of a draw to x, ``noise`` its variance
    along a direction across x.
    """

    dimensions: int
    threshold: float
    coin: int
    loss: float
    alignment: float
    noise: float


def rounding(dimensions: int) -> float:
    """Bounds what the program's law adds to the loss: 1 + e^this p / ((1 - p) q); nats.

    A cell of side h grows and shrinks by eta on each side; see docs/guarantees.md. A draw is kept
    if its cell is in the shell, which the cells' size blurs.
    """
    root, longest = math.sqrt(dimensions), math.sqrt(dimensions) + 7.0
    eta = ERROR * longest
    cells = dimensions * 4.04 * eta / STEP + 2.0 * eta * root * longest
    return cells + 4.0 * (STEP * root / 2.0 + eta) + _SPECIAL


@lru_cache(maxsize=64)
def best_cap(dimensions: int, epsilon: float) -> Cap:
    """Finds the cap of largest expected cosine; ParameterError: rounding would use up epsilon."""
    with needs("models"):
        from scipy.special import betainc, betaln

    slack, half = rounding(dimensions), (dimensions - 1) / 2
    if epsilon < (least := 20 * slack):
        raise ParameterError(f"expected epsilon >= {least:.2g} for this width, got {epsilon!r}")
    inside = 0.5 * betainc(half, 0.5, 1.0 - np.square(_THRESHOLDS))  # of the sphere: q
    moment = half * np.log1p(-np.square(_THRESHOLDS)) - math.log(2 * half) - betaln(0.5, half)
    # log of the odds of the coin: ln(q (e^epsilon - 1)) less what rounding takes
    target = epsilon * (1.0 - 2.0**-42)  # so that the loss is not above epsilon by an error
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        odds = np.log(inside) + target + math.log(-math.expm1(-target)) - slack
        spheres = np.maximum(1.0 / (1.0 + np.exp(odds)), 2.0**-40)  # small, so exact enough
        values = (1.0 - spheres) * np.exp(moment) / inside
    values[inside <= 1e-280] = -1.0
    best = int(values.argmax())
    coin, mass = _TOTAL - math.ceil(spheres[best] * _TOTAL), float(inside[best])
    squares = float(betainc(half, 1.5, 1.0 - _THRESHOLDS[best] ** 2)) / (2 * dimensions * mass)
    part = coin / _TOTAL
    second = part * squares + (1.0 - part) / dimensions
    return Cap(
        dimensions=dimensions,
        threshold=float(_THRESHOLDS[best]),
        coin=coin,
        loss=math.log1p(math.exp(slack) * coin / (_TOTAL - coin) / mass) * (1.0 + 2.0**-45),
        alignment=float(values[best]),
        noise=(1.0 - second) / (dimensions - 1),
    )


def draw(directions: Floats, cap: Cap, entropy: Entropy) -> Floats:
    """Draws cells, multiples of STEP, float64 (n, k); the time does not tell how the coin fell."""
    cells = np.empty((len(directions), cap.dimensions))
    for part in slices(len(directions), _ROWS):
        rows = directions[part]
        heads = random_words(len(rows), entropy) < np.uint64(cap.coin)
        inside = _until(partial(_in_cap, cap, entropy), rows)
        outside = _until(lambda x: _snapped(_normals(len(x), cap.dimensions, entropy)), rows)
        cells[part] = np.where(heads[:, None], inside, outside)
    return cells


Drawn = tuple[Floats, NDArray[np.bool_]]


def _until(attempt: Callable[[Floats], Drawn], directions: Floats) -> Floats:
    """What an attempt gives for each row, tried anew until it is accepted."""
    kept, left = np.empty_like(directions), np.arange(len(directions))
    while left.size:
        values, accepted = attempt(directions[left])
        kept[left[accepted]] = values[accepted]
        left = left[~accepted]
    return kept


def _in_cap(cap: Cap, entropy: Entropy, x: Floats) -> Drawn:
    """Vectors z of the cap around each x, uniform in direction, normal in length.

    1 - cosine^2 is s_0 U^(2/(k - 1)), s_0 = 1 - gamma^2, accepted with probability gamma / cosine.
    """
    count, k = x.shape
    radii = np.sqrt(folded(np.square(_normals(count, k, entropy))))
    free = _normals(count, k, entropy)
    across = free - folded(free * x)[:, None] * x
    length, whole = (np.sqrt(folded(np.square(part))) for part in (across, free))
    high, low, coin = random_words(3 * count, entropy).reshape(3, count).astype(np.float64)
    uniform = (high + (low + 0.5) * 2.0**-64) / _TOTAL
    below = (1.0 - cap.threshold**2) * uniform ** (2.0 / (k - 1))
    cosine = np.sqrt(1.0 - below)
    accepted = (coin + 0.5) / _TOTAL * cosine <= cap.threshold
    accepted &= (uniform >= 2.0**-76) & (length >= whole / 2.0) & _in_shell(whole, k)
    with np.errstate(divide="ignore", invalid="ignore"):  # refused
        unit = across / length[:, None]
    z, in_shell = _snapped(radii[:, None] * (cosine[:, None] * x + np.sqrt(below)[:, None] * unit))
    return z, accepted & in_shell


def _normals(count: int, dimensions: int, entropy: Entropy) -> Floats:
    """Standard normal numbers, each of 512 bits; float64 (count, k)."""
    with needs("models"):
        from scipy.special import ndtri

    words = random_words(_WORDS * count * dimensions, entropy).reshape(count, _WORDS, dimensions)
    half = np.zeros((count, dimensions))
    for later in range(_WORDS - 1, 0, -1):
        half += words[:, later].astype(np.float64)
        half *= 2.0**-64
    half += (words[:, 0] >> np.uint64(1)).astype(np.float64)
    half *= 2.0**-64
    np.maximum(half, 2.0**-520, out=half)
    signs = np.where(words[:, 0] & np.uint64(1), 1.0, -1.0)
    return np.asarray(signs * ndtri(half))


def _snapped(z: Floats) -> Drawn:
    """The grid's nearest points, and which of them are in the shell."""
    cells = np.rint(z / STEP) * STEP
    return cells, _in_shell(np.sqrt(folded(np.square(cells))), z.shape[1])


def _in_shell(lengths: Floats, dimensions: int) -> NDArray[np.bool_]:
    root = math.sqrt(dimensions)
    return np.asarray((lengths >= root / 2.0) & (lengths <= root + 6.0))
