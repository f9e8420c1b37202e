"""An exponential mechanism on a list of random radius, averaged over the radius."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dp_middleware.embedding.space import BLOCK
from dp_middleware.mechanisms._radius import FEW, RadiusLaw

if TYPE_CHECKING:
    import torch

Floats = NDArray[np.float64]

_CELLS = 1024  # of distance
_REFINED = 256  # of radius beyond the largest distance
_RESOLVED = 150  # cells that the law of the radius must span to be resolved by equal cells
_UNDERFLOW = 1e-250


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
        at_zero = torch.zeros(BLOCK, 1, dtype=torch.float64)
        at_zero[: len(rows), 0] = (rows == 0.0).sum(dim=1)
        cell = self._to_places(rows)
        cells, row = len(self._widths), torch.arange(len(rows))[:, None]
        place, flat, size = rows, cell.add_(cells * row), cells * len(rows)
        counts, places = torch.zeros(2, BLOCK, cells, dtype=torch.float64)
        counts[: len(rows)] = torch.bincount(flat.ravel(), minlength=size).view(-1, cells)
        places[: len(rows)] = torch.bincount(flat.ravel(), place.ravel(), minlength=size).view(
            -1, cells
        )
        counts[:, :1] -= at_zero
        log_g = self._log_g(at_zero, counts, places).contiguous()
        left = torch.take(log_g, flat.add_(row))  # the table has one column more than cells
        right = torch.take(log_g, flat.add_(1))
        torch.lerp(left, right, place, out=rows)
        rows.copy_(torch.log_softmax(rows, dim=1))

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
        cells = counts.shape[1]
        if self._literal:
            normaliser[:, 1 : cells + 1] += places * self._on_edge[1 : cells + 1]
        inverse = 1.0 / normaliser
        if self._literal:
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
    if law.dimensions > FEW and high - low > _RESOLVED * reach / _CELLS:
        beyond = np.linspace(max(low, reach), end, _REFINED + 1)
        return np.union1d(np.linspace(0.0, reach, _CELLS + 1), beyond), _CELLS / reach
    half = _CELLS // 2
    parts = [np.linspace(0.0, reach, half + 1), np.linspace(low, end, half + 1)]
    if law.dimensions <= FEW:  # small radii are likely: equal ratios resolve them
        parts.append(np.geomspace(1e-4 * reach, reach, half + 1)[:-1])
    edges = np.unique(np.concatenate(parts))
    return edges[np.concatenate(([True], np.diff(edges) > 1e-9 * edges[1:]))], None
