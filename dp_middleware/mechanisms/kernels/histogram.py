"""How distances lie on a grid: how many are in each cell and where, and functions between points.

What is added up are integers: their sums are the same on every device, in whatever order threads
add. An integer is the place of a distance on the grid as a fixed-point number, plus a number so
large that the sum over a cell tells how many there were.
"""

from __future__ import annotations

from dp_middleware._torch import torch

PLACE = 10
"""Bits of a place in its cell, as it counts in a sum."""

_CELL_BITS = 11  # a grid has fewer than 2^11 points


class Histogram:
    """Counts rows of distances on a grid.

    A place is counted from the far end of the grid, in cells, so that distance 0 is a cell of its
    own: the last one. (With it is what is nearer than about 10^-10 of a cell.) Places carry an
    offset, a power of two that is more than twice the number of tokens: no cell holds so many that
    their fractions add up to half of one more. Sums take the fractions to ``PLACE`` bits.

    Args:
        grid: float64 (g,), ascending from 0; no distance is beyond its end.
        per_unit: Cells per unit of distance, if they are equally wide.
        size: Number V of tokens.
    """

    def __init__(self, grid: torch.Tensor, per_unit: float | None, size: int) -> None:
        self._offset = 1 << max(size.bit_length() + 1, _CELL_BITS)
        self._grid, self._per_unit = grid, per_unit
        self._end = torch.tensor(
            float(self._offset + len(grid) - 1), dtype=grid.dtype, device=grid.device
        )

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
        """Reads distances that are 0, (n, 1), and counts and places of others in each cell.

        A place is in [0, 1]; counts and sums of places are float64 (n, g - 1).
        """
        places = torch.arange(sums.shape[1], device=sums.device).add_(self._offset)
        ones = places << PLACE
        counts = (sums.double() / ones).round_()  # less than half too much
        from_far = (sums - counts.to(torch.int64) * ones).double() * 2.0**-PLACE
        counts, from_far = counts.flip(1), from_far.flip(1)
        return counts[:, :1], counts[:, 1:], counts[:, 1:] - from_far[:, 1:]

    def interpolate(self, places: torch.Tensor, values: torch.Tensor, rises: torch.Tensor) -> None:
        """Replaces places by values of functions, linear between the points of the grid.

        ``places`` (n, V) are from :meth:`add`; a row of ``values`` and of ``rises`` up to the next
        point, (n, g), is a function at the points of the grid from its end.
        """
        rows = torch.arange(len(places), dtype=torch.int32, device=places.device)
        firsts = rows * values.shape[1] - self._offset
        cells = places.to(torch.int32).add_(firsts[:, None]).view(-1)
        start, rise = (flat.reshape(-1).index_select(0, cells) for flat in (values, rises))
        places.frac_().mul_(rise.view_as(places)).add_(start.view_as(places))
