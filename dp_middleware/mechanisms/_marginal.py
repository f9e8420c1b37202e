"""An exponential mechanism on a list of random radius, averaged over the radius."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dp_middleware._parts import parts
from dp_middleware.mechanisms._radius import FEW, RadiusLaw
from dp_middleware.mechanisms._tally import Tally

if TYPE_CHECKING:
    import torch

    from dp_middleware.embedding.space import EmbeddingSpace

Floats = NDArray[np.float64]

_CELLS = 1024  # of distance
_REFINED = 256  # of radius beyond the largest distance
_RESOLVED = 150  # cells that the law of the radius must span to be resolved by equal cells
_UNDERFLOW = 1e-250
_LARGE = 200.0  # digamma keeps 13 digits of its steps below, its expansion above


class RadiusMarginal:
    """Rows of an exponential mechanism on a list of random radius, averaged over the radius.

    With k(d, r) = exp(epsilon/2 max(0, 1 - d/r)), and 0 for d >= r if ``literal``, the row is
    P(y | x) = g(d(x, y)), g(d) = E_r[k(d, r) / Z(r)], Z(r) the sum of k over all tokens. A row
    depends on its distances only: they are spread linearly over a common grid, one matrix product
    gives Z for every radius cell, a second gives g at every grid distance, and ln g is
    interpolated. Where tokens enter the list inside a radius cell, 1/Z is averaged over it.

    Radii below their e^-37 quantile are left out: k grows with r, and Z lies between e^(epsilon/2)
    and V times that, so no probability loses more than its share V e^-37.

    Args:
        law: Radius for noise epsilon 1.
        noise_scale: Noise epsilon e; the radius is 1/e of the law's.
        reach: An upper bound on the distances.
        epsilon: Of the exponential mechanism, nats.
        literal: Whether tokens beyond the radius have probability 0.
        space: V tokens with vectors.
    """

    def __init__(
        self,
        law: RadiusLaw,
        *,
        noise_scale: float,
        reach: float,
        epsilon: float,
        literal: bool,
        space: EmbeddingSpace,
    ) -> None:
        edges, per_unit = _edges(law, noise_scale, reach)
        log_mass, radii = law.log_masses(edges * noise_scale)
        grid, low = edges[edges <= reach], law.quantiles()[0] / noise_scale
        first = min(int(np.searchsorted(edges, low, side="right")) - 1, len(grid) - 1)
        if law.dimensions <= FEW:
            first = 0  # small radii are likely
        radii = radii[first:] / noise_scale
        kernel = np.exp(0.5 * epsilon * np.maximum(0.0, 1.0 - grid[:, None] / radii))
        cell, b = np.arange(first, first + len(radii)), np.arange(len(grid))[:, None]
        beyond = np.logaddexp.accumulate(log_mass[::-1])[::-1]
        self._literal, self._first, self._block = literal, first, space.block
        self._tally = Tally(space.on_device(grid), per_unit, len(space))
        self._mass = space.on_device(np.exp(log_mass[first:]))
        self._log_beyond = space.on_device(beyond[first : len(grid)].copy())
        self._at_zero = space.on_device(kernel[0].copy())
        self._entered = space.on_device(np.where(b < cell, kernel, 0.0) if literal else kernel)
        reached = np.where(b <= cell, kernel, 0.0) if literal else kernel
        self._reached = space.on_device(np.ascontiguousarray(reached.T))
        self._on_edge = space.on_device(np.diagonal(kernel[first:]).copy())

    def to_log_probs(self, rows: torch.Tensor) -> None:
        """Replace a block of rows of distances, or fewer, by their log-probabilities.

        Args:
            rows: float64 (n, V) on the space's device.
        """
        import torch

        sums = self._tally.empty(self._block)
        for part, into in parts(rows, sums[: len(rows)]):
            self._tally.add(part, into)
        values = self._log_g(*self._tally.read(sums))[: len(rows)].flip(1)
        rises = torch.nn.functional.pad(values.diff(dim=1), (0, 1))
        for part, *of_grid in parts(rows, values, rises):
            self._tally.interpolate(part, *of_grid)
            part.copy_(torch.log_softmax(part, dim=1))

    def _log_g(
        self, at_zero: torch.Tensor, counts: torch.Tensor, places: torch.Tensor
    ) -> torch.Tensor:
        """ln g at the grid distances, (block, grid)."""
        import torch

        first, cells = self._first, counts.shape[1]
        spread = torch.nn.functional.pad(counts - places, (0, 1))
        spread[:, 1:] += places
        normaliser = spread @ self._entered + at_zero * self._at_zero
        inside = normaliser[:, : cells + 1 - first]
        if self._literal:
            after = max(first, 1)
            inside[:, after - first :] += places[:, after - 1 :] * self._on_edge[after - first :]
        inverse = 1.0 / normaliser
        if self._literal:
            entering = counts[:, first:], places[:, first:]
            inverse[:, : cells - first] = _mean_inverse(inside[:, :-1], *entering)
        g = (inverse * self._mass) @ self._reached
        log_g, last = g.log(), self._log_beyond - inside.log()
        log_g[:, first:] = torch.where(g[:, first:] > _UNDERFLOW, log_g[:, first:], last)
        return log_g


def _mean_inverse(before: torch.Tensor, counts: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Mean of 1/Z over a cell in which Z grows from ``before`` by 1 at each of n entries.

    For entries at random places every step is equally long, and the mean of 1/(Z + j) over
    j = 0 .. n is a difference of digammas. Entries that lie later on average than the middle
    leave more of the cell to the smaller Z; exact for n = 0 and n = 1.
    """
    import torch

    after = 1.0 / (before + counts)
    mean = _harmonic(before, counts).div_(counts + 1.0)
    later = places / counts.clamp(min=1.0) - 0.5
    shift = torch.where(counts > 0, later, 0.0) * (1.0 / before - after)
    return torch.minimum(torch.maximum(mean + shift, after), 1.0 / before)


def _harmonic(start: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
    """The sum of 1/(Z + j) over j = 0 .. n, digamma(Z + n + 1) - digamma(Z), by relative error.

    Where Z is large the difference has few digits, and the expansion of digamma(x + 1/2) about
    ln x, which ends here after x^-4, has all.
    """
    import torch

    low, high = start - 0.5, start + steps + 0.5
    below, above = low.pow(-2), high.pow(-2)
    tail = (above - below).mul_(1 / 24).sub_((above.square() - below.square()).mul_(7 / 960))
    series = torch.log1p((steps + 1.0) / low).add_(tail)
    digammas = torch.digamma(start + steps + 1.0).sub_(torch.digamma(start))
    return torch.where(start > _LARGE, series, digammas)


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
