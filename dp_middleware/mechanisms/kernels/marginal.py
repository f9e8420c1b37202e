"""RANTEXT's rows on a grid of distances, for vocabularies of any size.

With k(d, r) = exp(-epsilon/2 min(1, d/r)), and 0 for d >= r if the mechanism is literal, the row is
P(y | x) in proportion to g(d(x, y)), g(d) = E_r[k(d, r) / Z(r)], Z(r) the sum of k over all tokens.
A row depends on its distances only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dp_middleware._torch import torch
from dp_middleware.embedding import arrays
from dp_middleware.embedding.arrays import Floats, parts
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.mechanisms.kernels import exact
from dp_middleware.mechanisms.kernels.radius import FEW, RadiusLaw
from dp_middleware.sampling.integers import normalize

PLACE = 10  # bits of a place in its cell, as it counts in a sum
_CELL_BITS = 11  # a grid has fewer than 2^11 points


class Histogram:
    """Counts rows of distances on a grid, float64 (g,), ascending from 0 to beyond all of them.

    A place is counted from the far end of the grid, in cells, so that distance 0 (and what is
    nearer than 10^-10 of a cell) is a cell of its own, the last one. Places carry an offset, a
    power of two that is more than twice the number of tokens: the fractions in a cell add up to
    less than half of one more. ``per_unit`` is the number of cells per unit of distance, if they
    are equally wide.
    """

    def __init__(self, grid: torch.Tensor, per_unit: float | None, size: int) -> None:
        self._offset = 1 << max(size.bit_length() + 1, _CELL_BITS)
        self._grid, self._per_unit = grid, per_unit
        self._end = grid.new_tensor(float(self._offset + len(grid) - 1))

    def empty(self, count: int) -> torch.Tensor:
        """Makes sums of rows without distances, int64 (count, g), to add to."""
        return torch.zeros(count, len(self._grid), dtype=torch.int64, device=self._grid.device)

    def add(self, rows: torch.Tensor, sums: torch.Tensor) -> None:
        """Adds rows of distances to their sums; the distances become places."""
        if self._per_unit is None:
            cell = torch.bucketize(rows, self._grid[1:-1])
            rows.sub_(self._grid[cell]).div_(self._grid.diff()[cell]).clamp_(0.0, 1.0).add_(cell)
        else:
            rows.mul_(self._per_unit)
        torch.sub(self._end, rows, out=rows)
        fixed = torch.mul(rows, 2.0**PLACE).to(torch.int64)
        sums.scatter_add_(1, (fixed >> PLACE).sub_(self._offset), fixed)

    def read(self, sums: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Reads how many are 0, (n, 1), or in each other cell, and sums of places in [0, 1]."""
        places = torch.arange(sums.shape[1], device=sums.device).add_(self._offset)
        ones = places << PLACE
        counts = (sums.double() / ones).round_()  # less than half too much
        from_far = (sums - counts.to(torch.int64) * ones).double() * 2.0**-PLACE
        counts, from_far = counts.flip(1), from_far.flip(1)
        return counts[:, :1], counts[:, 1:], counts[:, 1:] - from_far[:, 1:]

    def interpolate(self, places: torch.Tensor, values: torch.Tensor, rises: torch.Tensor) -> None:
        """Replaces places by values of functions, (n, g), linear between points of the grid."""
        rows = torch.arange(len(places), dtype=torch.int32, device=places.device)
        firsts = rows * values.shape[1] - self._offset
        cells = places.to(torch.int32).add_(firsts[:, None]).view(-1)
        start, rise = (flat.reshape(-1).index_select(0, cells) for flat in (values, rises))
        places.frac_().mul_(rise.view_as(places)).add_(start.view_as(places))


_CELLS = 1024  # of distance
_REFINED = 256  # of radius beyond the largest distance
_RESOLVED = 150  # cells that the law of the radius must span to be resolved by equal cells
_FINEST, _AN_OCTAVE = 14, 36  # octaves below the largest distance, and cells of one
_MEANS = 12  # bits of the mean radius of a cell, in the cell
_SINGLY = 8  # entries into a cell
_MANTISSA = 52


class Curves(NamedTuple):
    """Tells what rows are functions of: ln P is linear in the distance between two points.

    ``points`` float64 (g,) ascend from 0; ``values`` (n, g) is ln g there for each row; ``met``
    bool (g,) are the ends of cells with a distance above 0 in them.
    """

    points: Floats
    values: torch.Tensor
    met: torch.Tensor


class RadiusGrid:
    """Makes rows of any vocabulary: distances are spread linearly over a public grid.

    One matrix product gives Z for every radius cell, a second one g at every grid distance, and ln
    g is interpolated. Where tokens enter the list inside a radius cell, 1/Z is averaged over it.
    Both are exact and all before the second is single IEEE 754 operations on tables that are the
    same everywhere: machines differ by the last bits of the second table and of logarithms. Radii
    below their e^-37 quantile are left out: no probability loses more than its share V e^-37.
    """

    def __init__(
        self,
        law: RadiusLaw,  # for noise epsilon 1
        *,
        noise_scale: float,  # noise epsilon e; the radius is 1/e of the law's
        reach: float,  # an upper bound on the distances
        epsilon: float,  # of the exponential mechanism, nats
        literal: bool,  # whether tokens beyond the radius have probability 0
        space: EmbeddingSpace,
    ) -> None:
        edges, per_unit = _edges(law, noise_scale, reach)
        log_mass, radii = law.log_masses(edges * noise_scale)
        grid, low = edges[edges <= reach], law.quantiles[0] / noise_scale
        first = min(int(np.searchsorted(edges, low, side="right")) - 1, len(grid) - 1)
        if law.dimensions <= FEW:
            first = 0  # small radii are likely
        places = (radii / noise_scale - edges[:-1]) / np.diff(edges)
        places = np.maximum(exact.rounded(places, _MEANS), 2.0**-_MEANS)
        radii = (edges[:-1] + np.diff(edges) * places)[first:]
        log_mass, cell, b = log_mass[first:], np.arange(first, len(edges) - 1), np.arange(len(grid))
        shares = np.minimum(grid[:, None] / radii, 1.0)
        kernel = exact.exp(-0.5 * epsilon * shares)
        if literal:
            kernel *= b[:, None] < cell
        log_parts = log_mass[:, None] - 0.5 * epsilon * shares.T
        log_parts[(b > cell[:, None]) & literal] = -np.inf
        log_unit = log_parts.max(axis=0)
        on_edge = exact.exp(-0.5 * epsilon * np.diagonal(shares[first:]))
        self._last = float(exact.exp(np.array(-0.5 * epsilon)))
        put, self.points = space.on_device, grid
        self._literal, self._first = literal, first
        self._histogram = Histogram(put(grid), per_unit, len(space))
        entered = exact.rounded(kernel, _MANTISSA - PLACE - len(space).bit_length())
        self._entered = put(np.ascontiguousarray(entered.T))
        self._on_edge, self._log_unit = put(on_edge), put(log_unit)
        slices = exact.slices(np.ascontiguousarray(np.exp(log_parts - log_unit).T))
        self._reached = put(slices[0]), put(slices[1])

    def to_log_probs(self, rows: torch.Tensor) -> Curves:
        """Replaces rows of distances by their log-probabilities; float64 (n, V)."""
        sums = self._histogram.empty(len(rows))
        for part, into in parts(rows, sums):
            self._histogram.add(part, into)
        at_zero, counts, places = self._histogram.read(sums)
        log_g, pad = self._log_g(at_zero, counts, places), torch.nn.functional.pad
        values = log_g.flip(1)
        rises = pad(values.diff(dim=1), (0, 1))
        for part, *of_grid in parts(rows, values, rises):
            self._histogram.interpolate(part, *of_grid)
            normalize(part)
        met = counts.any(dim=0)
        return Curves(self.points, log_g, pad(met, (0, 1)) | pad(met, (1, 0)))

    def _log_g(
        self, at_zero: torch.Tensor, counts: torch.Tensor, places: torch.Tensor
    ) -> torch.Tensor:
        """ln g at the grid distances, (n, grid)."""
        first, cells = self._first, counts.shape[1]
        spread = torch.nn.functional.pad(counts - places, (0, 1))
        spread[:, 1:] += places
        normaliser = arrays.product(spread, self._entered) + at_zero
        inside, after = normaliser[:, : cells + 1 - first], max(first, 1)
        if self._literal:
            inside[:, after - first :] += places[:, after - 1 :] * self._on_edge[after - first :]
        inverse = 1.0 / normaliser
        if self._literal:
            entered = inside[:, :-1], counts[:, first:], places[:, first:]
            inverse[:, : cells - first] = _mean_inverse(*entered, self._last)
        return exact.product(inverse, self._reached).log_().add_(self._log_unit)


def _mean_inverse(
    before: torch.Tensor, counts: torch.Tensor, places: torch.Tensor, step: float
) -> torch.Tensor:
    """Mean of 1/Z over a cell in which Z grows from ``before`` by ``step`` at each of n entries.

    That of 1/(Z + j step) over j = 0 .. n for random places; later ones leave more of the cell to
    the smaller Z. Exact for n = 0 and n = 1.
    """
    first, last = 1.0 / before, 1.0 / (before + counts * step)
    mean = _harmonic(before / step, counts).div_((counts + 1.0) * step)
    later = torch.where(counts > 0, places / counts.clamp(min=1.0) - 0.5, 0.0)
    return torch.minimum(torch.maximum(mean + later * (first - last), last), first)


def _harmonic(start: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
    """Sum of 1/(Z + j), j = 0 .. n, Z >= 1, to 1e-8: terms, then a series of digamma."""
    total = torch.zeros_like(start)
    for j in range(_SINGLY):
        total += torch.where(steps >= j, 1.0 / (start + float(j)), 0.0)
    low, high = start + (_SINGLY - 0.5), start + steps + 0.5
    below, above = 1.0 / (low * low), 1.0 / (high * high)
    tail = (above - below) * (1 / 24) - (above * above - below * below) * (7 / 960)
    return torch.where(steps >= _SINGLY, total + (exact.log(high / low) + tail), total)


def _edges(law: RadiusLaw, noise_scale: float, reach: float) -> tuple[Floats, float | None]:
    """Edges of the radius cells, and cells per unit where those up to ``reach`` are equal."""
    # quantiles are rounded: the law has last bits of its own on every machine
    mantissas, exponents = np.frexp(np.array(law.quantiles) / noise_scale)
    low, high = np.ldexp(np.rint(mantissas * _CELLS) / _CELLS, exponents)
    end = max(high, 1.01 * reach)
    if law.dimensions > FEW and high - low > _RESOLVED * reach / _CELLS:
        beyond = np.linspace(max(low, reach), end, _REFINED + 1)
        return np.union1d(np.linspace(0.0, reach, _CELLS + 1), beyond), _CELLS / reach
    half = _CELLS // 2
    parts = [np.linspace(0.0, reach, half + 1), np.linspace(low, end, half + 1)]
    if law.dimensions <= FEW:  # small radii are likely: about equal ratios resolve them
        steps = 1.0 + np.arange(_AN_OCTAVE) / _AN_OCTAVE
        parts.append(np.ldexp(steps, -np.arange(1, _FINEST)[:, None]).ravel() * reach)
    edges = np.unique(np.concatenate(parts))
    return edges[np.concatenate(([True], np.diff(edges) > 1e-9 * edges[1:]))], None
