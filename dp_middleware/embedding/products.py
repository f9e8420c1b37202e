"""Exact products on a device: distances of points on a grid, cosines of unit rows on one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Floats, parts

_FEW, _SOME = 8, 32  # rows
_SMALL = 786_000  # multiplications of a product that OpenBLAS makes without copying its arguments


class Points(NamedTuple):
    """Holds points on a grid.

    ``host`` float64 (V, d), read-only, is ``placed`` on the device, too; ``spacing`` is the grid's,
    in units of the vectors; ``squares`` (V,) are exact squared lengths, on the device.
    """

    host: Floats
    spacing: float
    placed: torch.Tensor
    squares: torch.Tensor

    def squared_distances(self, ids: torch.Tensor, first: int = 0) -> torch.Tensor:
        """Computes those from ids to tokens from ``first`` on, exact; float64 (n, V - first)."""
        rows = product(self.placed[ids] * -2.0, self.placed[first:])
        for part, lengths in parts(rows, self.squares[ids][:, None]):
            part.add_(lengths).add_(self.squares[first:])
        return rows


def product(rows: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """Computes dot products, float64 (n, m), of rows (n, k) and (m, k) for which these are exact.

    So it may be made in whatever way is fastest. For a few rows that is NumPy's, and for fewer a
    block of the others at a time: these then pass through the processor once and are not copied.
    """
    if rows.device.type != "cpu" or len(rows) >= _SOME or rows.numel() == 0:
        return rows @ others.T
    few, many = rows.numpy(), others.numpy()
    if len(few) > _FEW:
        return torch.from_numpy(few @ many.T)
    columns, made = np.ascontiguousarray(few.T), np.empty((len(many), len(few)))
    step = max(1, _SMALL // few.size)
    for start in range(0, len(many), step):
        np.matmul(many[start : start + step], columns, out=made[start : start + step])
    return torch.from_numpy(np.ascontiguousarray(made.T))


def take_roots(rows: torch.Tensor) -> torch.Tensor:
    """Takes square roots, rounded as IEEE 754 has it; overwrites."""
    if rows.device.type != "cpu":
        return rows.sqrt_()
    for (part,) in parts(rows):  # torch takes MKL's roots, which are not IEEE 754's
        np.sqrt(part.numpy(), out=part.numpy())
    return rows


def cosines(rows: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """Computes dot products of unit rows on a grid, exact, and zero of one sign."""
    products = product(rows, others)
    for (part,) in parts(products):
        part.clamp_(-1.0, 1.0).add_(0.0)
    return products
