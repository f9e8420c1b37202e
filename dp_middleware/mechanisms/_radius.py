"""The law of the length of a Laplace vector, and mechanisms averaged over it.

Adding one component at a time in polar coordinates, the density f_k of the radius of k components
with scales b_1 .. b_k obeys, for f_k(r) = r^(k-1) exp(h_k(r)),

    exp(h_{k+1}(r)) = int_0^{pi/2} exp(h_k(r cos t)) cos(t)^(k-1) exp(-r sin(t)/b) / b dt .

h is smooth, the integrand is positive and everything stays in logarithms, so the *relative* error
is small in both tails, where a Fourier inversion has an absolute floor near e^-36.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

Floats = NDArray[np.float64]

TAIL = 37.0
"""Nats: a tail of probability e^-37 is below the resolution of float64."""

_DEAD = 1e-6  # scales below this share of the largest do not move the radius
_NODES = 6
_CELLS = 1024  # of distance
_REFINED = 256  # of radius beyond the largest distance
_RESOLVED = 150  # cells that the law of the radius must span to be resolved by equal cells
_FEW = 16  # dimensions up to which small radii are likely
_UNDERFLOW = 1e-250
_ROWS = 64  # of one matrix product, fixed: its last bits depend on its shape
_PANEL = np.pi / 64


@dataclass(frozen=True)
class RadiusLaw:
    """Tabulated density of the radius, f(r) = r^(dimensions - 1) exp(h(r)).

    Attributes:
        grid: float64 (G,), equally spaced radii from 0.
        log_h: float64 (G,), h on the grid.
        dimensions: Number of components with a positive scale.
    """

    grid: Floats
    log_h: Floats
    dimensions: int

    def log_pdf(self, radii: Floats) -> Floats:
        """ln f at positive radii up to the end of the grid."""
        from scipy.interpolate import CubicSpline

        h = CubicSpline(self.grid, self.log_h)(radii)
        return np.asarray(h + (self.dimensions - 1) * np.log(radii), dtype=np.float64)

    def log_masses(self, edges: Floats) -> tuple[Floats, Floats]:
        """ln P(edge_i < r < edge_i+1) and the mean radius of each cell, both (len(edges) - 1,)."""
        points, weights = np.polynomial.legendre.leggauss(_NODES)
        half = np.diff(edges)[:, None] / 2
        radii = (edges[:-1] + edges[1:])[:, None] / 2 + half * points
        parts = self.log_pdf(radii) + np.log(half * weights)
        log_mass = np.logaddexp.reduce(parts, axis=1)
        return log_mass, np.sum(np.exp(parts - log_mass[:, None]) * radii, axis=1)

    def quantiles(self) -> tuple[float, float]:
        """Radii with probability about e^-37 below and above."""
        log_mass, _ = self.log_masses(self.grid)
        below = np.logaddexp.accumulate(log_mass)
        above = np.logaddexp.accumulate(log_mass[::-1])[::-1]
        return (
            float(self.grid[np.argmax(below > -TAIL)]),
            float(self.grid[len(above) - np.argmax(above[::-1] > -TAIL)]),
        )


def radius_law(scales: Floats, reach: float) -> RadiusLaw:
    """The law of ||Y||, Y_i Laplace with scale ``scales[i]``.

    Relative error of the density below 1e-5, 1e-4 where scales differ forty-fold (tested against
    closed forms and moments).

    Args:
        scales: float64 (d,), not negative, at least one positive; dead dimensions (0) count not.
        reach: Radius up to which the law is needed.
    """
    live = np.sort(scales[scales > _DEAD * scales.max()])[::-1]
    typical = np.sqrt(2.0 * np.sum(live**2))
    end = max(1.02 * reach, typical + 1.1 * TAIL * live[0])
    points = int(np.clip(16 * end / np.sqrt(np.mean(live**2)), 1024, 8192))
    grid = np.linspace(0.0, end, points)
    return RadiusLaw(grid, _add_components(live, grid), len(live))


def _angles() -> tuple[Floats, Floats]:
    """Gauss-Legendre angles and weights on (0, pi/2), panels shrinking towards 0."""
    edges = np.concatenate(
        ([0.0], _PANEL * 2.0 ** np.arange(-14.0, 0.0), np.arange(1, 33) * _PANEL)
    )
    points, weights = np.polynomial.legendre.leggauss(_NODES)
    half = np.diff(edges)[:, None] / 2
    middle = (edges[:-1] + edges[1:])[:, None] / 2
    return (middle + half * points).ravel(), (half * weights).ravel()


def _add_components(scales: Floats, grid: Floats) -> Floats:
    """h_d on the grid, starting from h_1(r) = -r/b - ln b, one component at a time."""
    import torch

    angles, weights = _angles()
    radii = torch.from_numpy(grid)[:, None]
    sines = torch.from_numpy(np.sin(angles))
    log_cosines = torch.from_numpy(np.log(np.cos(angles)))
    log_weights = torch.from_numpy(np.log(weights))
    interpolate = _Interpolation(grid, np.cos(angles))
    h = torch.from_numpy(-grid / scales[0] - np.log(scales[0]))
    for count, scale in enumerate(scales[1:], start=1):
        exponents = interpolate(h)
        exponents += (count - 1) * log_cosines + log_weights - np.log(scale)
        exponents -= radii * (sines / scale)
        h = torch.logsumexp(exponents, dim=1)
    return h.numpy()


class _Interpolation:
    """Cubic (four-point Lagrange) interpolation of a function on the grid at grid x cosines."""

    def __init__(self, grid: Floats, cosines: Floats) -> None:
        import torch

        places = np.arange(len(grid))[:, None] * cosines
        first = np.clip(np.floor(places).astype(np.int64) - 1, 0, len(grid) - 4)
        x = places - first
        basis = [
            -(x - 1) * (x - 2) * (x - 3) / 6,
            x * (x - 2) * (x - 3) / 2,
            -x * (x - 1) * (x - 3) / 2,
            x * (x - 1) * (x - 2) / 6,
        ]
        self._first = torch.from_numpy(first)
        self._basis = [torch.from_numpy(part) for part in basis]

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        result = self._basis[0] * values[self._first]
        for offset in (1, 2, 3):
            result.addcmul_(self._basis[offset], values[offset:][self._first])
        return result


class RadiusMarginal:
    """Rows of an exponential mechanism on a list of random radius, averaged over the radius.

    With k(d, r) = exp(epsilon/2 max(0, 1 - d/r)), and 0 for d >= r if ``literal``, the row is
    P(y | x) = g(d(x, y)), g(d) = E_r[k(d, r) / Z(r)], Z(r) the sum of k over all tokens. A row
    depends on its distances only: they are spread linearly over a common grid, one matrix product
    gives Z for every radius cell, a second gives g at every grid distance, and ln g is
    interpolated. Where tokens enter the list inside a radius cell, 1/Z is averaged over it.

    Args:
        law: Radius for noise epsilon 1.
        noise_scale: Noise epsilon e; the radius is 1/e of the law's.
        reach: An upper bound on the distances.
        epsilon: Of the exponential mechanism, nats.
        literal: Whether tokens beyond the radius have probability 0.
    """

    def __init__(
        self, law: RadiusLaw, *, noise_scale: float, reach: float, epsilon: float, literal: bool
    ) -> None:
        import torch

        edges, self._per_unit = _edges(law, noise_scale, reach)
        log_mass, radii = law.log_masses(edges * noise_scale)
        grid, radii = edges[edges <= reach], radii / noise_scale
        kernel = np.exp(0.5 * epsilon * np.maximum(0.0, 1.0 - grid[:, None] / radii))
        cell = np.arange(len(radii))
        b = np.arange(len(grid))[:, None]
        self._literal = literal
        self._grid = torch.from_numpy(grid)
        self._widths = torch.from_numpy(np.diff(grid))
        self._mass = torch.from_numpy(np.exp(log_mass))
        beyond = np.logaddexp.accumulate(log_mass[::-1])[::-1]
        self._log_beyond = torch.from_numpy(np.ascontiguousarray(beyond[: len(grid)]))
        self._at_zero = torch.from_numpy(kernel[0])
        entered = np.where(b < cell, kernel, 0.0) if literal else kernel
        self._entered = torch.from_numpy(entered)
        reached = np.where(b <= cell, kernel, 0.0) if literal else kernel
        self._reached = torch.from_numpy(np.ascontiguousarray(reached.T))
        self._on_edge = torch.from_numpy(np.diagonal(kernel).copy())

    def to_log_probs(self, distances: Floats) -> None:
        """Replace up to 64 rows of distances, float64 (n, V), by their log-probabilities."""
        import torch

        rows = torch.from_numpy(distances)
        at_zero = torch.zeros(_ROWS, 1, dtype=torch.float64)
        at_zero[: len(rows), 0] = (rows == 0.0).sum(dim=1)
        cell = self._to_places(rows)
        cells, row = len(self._widths), torch.arange(len(rows))[:, None]
        place, flat, size = rows, cell.add_(cells * row), cells * len(rows)
        counts, places = torch.zeros(2, _ROWS, cells, dtype=torch.float64)
        counts[: len(rows)] = torch.bincount(flat.ravel(), minlength=size).view(-1, cells)
        places[: len(rows)] = torch.bincount(flat.ravel(), place.ravel(), minlength=size).view(
            -1, cells
        )
        counts[:, :1] -= at_zero
        log_g = self._log_g(at_zero, counts, places).contiguous()
        left = torch.take(log_g, flat.add_(row))  # the table has one column more than cells
        right = torch.take(log_g, flat.add_(1))
        torch.lerp(left, right, place, out=rows)
        rows.sub_(torch.logsumexp(rows, dim=1, keepdim=True))

    def _to_places(self, rows: torch.Tensor) -> torch.Tensor:
        """The cell of each distance; the distances become places in their cells, in [0, 1]."""
        import torch

        if self._per_unit is None:
            cell = torch.bucketize(rows, self._grid[1:-1])
            rows.sub_(self._grid[cell]).div_(self._widths[cell])
        else:
            rows.mul_(self._per_unit)
            cell = rows.to(torch.int64).clamp_(max=len(self._widths) - 1)
            rows.sub_(cell)
        rows.clamp_(0.0, 1.0)
        return cell

    def _log_g(
        self, at_zero: torch.Tensor, counts: torch.Tensor, places: torch.Tensor
    ) -> torch.Tensor:
        """ln g at the grid distances, (64, grid)."""
        import torch

        spread = torch.nn.functional.pad(counts - places, (0, 1))
        spread[:, 1:] += places
        normaliser = spread @ self._entered + at_zero * self._at_zero
        inverse = 1.0 / normaliser
        if self._literal:
            cells = counts.shape[1]
            normaliser[:, 1 : cells + 1] += places * self._on_edge[1 : cells + 1]
            inverse = 1.0 / normaliser
            inverse[:, :cells] = _mean_inverse(normaliser[:, :cells], counts, places)
        g = (inverse * self._mass) @ self._reached
        last = self._log_beyond - torch.log(normaliser[:, : g.shape[1]])
        return torch.where(g > _UNDERFLOW, torch.log(g), last)


def _mean_inverse(before: torch.Tensor, counts: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Mean of 1/Z over a cell in which Z grows from ``before`` by 1 at each of n entries.

    For entries at random places every step is equally long, and the mean of 1/(Z + j) over
    j = 0 .. n is a difference of digammas. Entries that lie later on average than the middle
    leave more of the cell to the smaller Z; exact for n = 0 and n = 1.
    """
    import torch

    after = 1.0 / (before + counts)
    mean = torch.digamma(before + counts + 1.0).sub_(torch.digamma(before)).div_(counts + 1.0)
    later = places / counts.clamp(min=1.0) - 0.5
    shift = torch.where(counts > 0, later, 0.0) * (1.0 / before - after)
    return torch.minimum(torch.maximum(mean + shift, after), 1.0 / before)


def _edges(law: RadiusLaw, noise_scale: float, reach: float) -> tuple[Floats, float | None]:
    """Edges of the radius cells, and cells per unit where those up to ``reach`` are equal."""
    low, high = (q / noise_scale for q in law.quantiles())
    end = max(high, 1.01 * reach)
    if law.dimensions > _FEW and high - low > _RESOLVED * reach / _CELLS:
        beyond = np.linspace(max(low, reach), end, _REFINED + 1)
        return np.union1d(np.linspace(0.0, reach, _CELLS + 1), beyond), _CELLS / reach
    half = _CELLS // 2
    parts = [np.linspace(0.0, reach, half + 1), np.linspace(low, end, half + 1)]
    if law.dimensions <= _FEW:  # small radii are likely: equal ratios resolve them
        parts.append(np.geomspace(1e-4 * reach, reach, half + 1)[:-1])
    edges = np.unique(np.concatenate(parts))
    return edges[np.concatenate(([True], np.diff(edges) > 1e-9 * reach))], None
