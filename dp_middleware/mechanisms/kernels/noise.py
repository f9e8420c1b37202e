"""Random vectors of density proportional to exp(-eta ||z||), snapped to a grid, and how exact.

The grid is coarse beside the rounding errors and fine beside the noise, and everything later is a
function of the snapped vector; docs/guarantees.md, "How exact the noise is", has the proofs.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dp_middleware import _validate
from dp_middleware.embedding.arrays import Floats
from dp_middleware.embedding.grid import folded
from dp_middleware.embedding.space import EmbeddingSpace, once
from dp_middleware.errors import ParameterError, needs
from dp_middleware.sampling.sampler import Entropy

Words = NDArray[np.uint64]

_ONE = np.uint64(1)

UNIT = 2.0**-53  # largest relative error of one float64 operation
SNAP = 2.0**-8  # spacing of the grid over the standard deviation of the noise in a coordinate

# Relative errors in units of UNIT. Uniforms: two words rounded and added, with a unit to spare for
# bits beyond the 128th. SciPy's ndtri (Cephes) states 7.2e-16 = 6.5 units; NumPy's logarithms
# are within four units in the last place.
_UNIFORM, _QUANTILE, _LOGARITHM = 4.0, 8.0, 8.0
_MILLS = math.sqrt(math.pi / 2)  # the largest u / phi(ndtri(u)) for u <= 1/2
_RARE = 2.0**-53  # a norm below 2^-26, where errors of first order do not say all
_SMALLEST = 1e-6  # eta below which squared distances lose the digits that tell tokens apart


def _check_eta(eta: float) -> None:
    _validate.positive(eta=eta)
    if eta < _SMALLEST:
        raise ParameterError(f"expected eta >= {_SMALLEST}, got {eta=}; or scale the vectors down")


ETA: _validate.Rule = {"check": _check_eta, "kind": float}
"""What an eta must be: not so small that noise takes the digits of distances."""


def spacing(eta: float, dimensions: int) -> float:
    """Computes the grid's spacing, a power of two: at most SNAP of a standard deviation."""
    return 2.0 ** (math.frexp(SNAP * math.sqrt(dimensions + 1) / eta)[1] - 1)


def snapped(points: Floats, step: float) -> Floats:
    """Rounds each coordinate to a multiple of a power of two; exact."""
    return np.asarray(np.rint(points / step) * step)


def random_vectors(count: int, dimensions: int, eta: float, entropy: Entropy) -> Floats:
    """Draws vectors of density exp(-eta ||z||), (count, d), of 32 d bytes each, in a row."""
    shape = (count, 4, dimensions)
    words = np.frombuffer(entropy(32 * count * dimensions), dtype=np.uint64).reshape(shape)
    normals = _normals(words[:, 0], words[:, 1])
    radii = folded(_logarithms(words[:, 2], words[:, 3])) / -eta
    norms = np.sqrt(folded(normals * normals))
    normals *= (radii / norms)[:, None]
    return normals


def _halves(high: Words, low: Words) -> Floats:
    """Uniform on (0, 1/2) from 63 bits of one word and 64 of another; never 0 or 1/2."""
    half = (high >> _ONE).astype(np.float64)
    half *= 2.0**-64
    # from 2^-10 on the other word would be rounded away
    rows, columns = np.divmod(np.flatnonzero(half < 2.0**-10), half.shape[1])
    rest = low[rows, columns].astype(np.float64)
    rest += 0.5
    rest *= 2.0**-128
    half[rows, columns] += rest
    np.minimum(half, np.nextafter(0.5, 0.0), out=half)
    return half


def _normals(high: Words, low: Words) -> Floats:
    with needs("models"):
        from scipy.special import ndtri

    values: Floats = ndtri(_halves(high, low))
    return np.where(high & _ONE, -values, values)


def _logarithms(high: Words, low: Words) -> Floats:
    """ln U for U uniform on (0, 1): a half-uniform number, or 1 less it by the lowest bit."""
    half = _halves(high, low)
    return np.where(high & _ONE, np.log1p(-half), np.log(half))


def coordinate_errors(dimensions: int) -> tuple[float, float]:
    """Returns (a, c): a coordinate is off by at most a |z_j| + c (R + sqrt(d) |z_j|) / N."""
    depth = math.ceil(math.log2(dimensions))
    radius = 1.45 * _UNIFORM + _LOGARITHM + depth + 1
    norm = _QUANTILE + (depth + 1) / 2 + 1
    direct = radius + norm + _QUANTILE + 2 + 1
    return direct * UNIT, 0.0 if dimensions == 1 else _MILLS * _UNIFORM * UNIT


def near_boundary(a: float, b: float, eta: float, dimensions: int, step: float) -> float:
    """Bounds P(some cell boundary lies within a |z| + b of v + z), z a coordinate of the noise."""
    logs = math.lgamma(dimensions / 2) - math.lgamma((dimensions + 1) / 2)
    q = math.exp(logs) / math.sqrt(math.pi)
    edge = 2 * a * step + b
    return (2 / step) * (a * dimensions * q / eta + edge) + 6 * edge * eta * q / 2


def float_distance(dimensions: int, eta: float, reach: float, *, terms: int = 1) -> float:
    """Bounds the total variation between the program's snapped vector and the ideal one.

    ``reach`` is the largest absolute coordinate of a vector; ``terms`` vectors are averaged into
    one before noise is added.
    """
    with needs("models"):
        from scipy.special import gammainccinv

    a, c = coordinate_errors(dimensions)
    inverse = 0.0
    if dimensions > 1:
        logs = math.lgamma((dimensions - 1) / 2) - math.lgamma(dimensions / 2)
        inverse = math.exp(logs) / math.sqrt(2)
    radius = 1.01 * float(gammainccinv(dimensions, 2.0**-60)) / eta
    slope = a + c * math.sqrt(dimensions) * inverse
    offset = c * radius * inverse + (2 * terms + 3) * UNIT * reach
    each = near_boundary(slope, offset, eta, dimensions, spacing(eta, dimensions))
    rare = _RARE + 2.0**-60 + 2 * dimensions * 2.0**-75
    return min(1.0, 1.01 * dimensions * each + rare)


@once
def space_distance(space: EmbeddingSpace, eta: float, terms: int = 1) -> float:
    """Computes :func:`float_distance` for the points of a space."""
    reach = float(np.abs(space.points).max())
    return float_distance(space.vectors.shape[1], eta, reach, terms=terms)


def rounded_up(probability: float) -> str:
    """Writes a probability with one digit, rounded up."""
    if probability > 0.9:
        return "1"
    power = math.floor(math.log10(probability))
    digit = math.ceil(probability / 10.0**power)
    return f"{digit}e{power}" if digit < 10 else f"1e{power + 1}"


def floating_point(space: EmbeddingSpace, eta: float, terms: int = 1) -> str:
    """Says :func:`space_distance` in a sentence."""
    shown = rounded_up(space_distance(space, eta, terms))
    return (
        "noise is computed in float64: the law drawn from differs from the proved one by at most "
        f"{shown} in total variation per token of the text, not included in epsilon; logarithms "
        "and normal quantiles are taken to be as exact as their libraries state"
    )
