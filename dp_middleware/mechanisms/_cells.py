"""Cells of distance, narrow near 0 and wide far away, and how the tokens of a row lie in them.

A place is an integer made of the bits of a float64, and places are only counted, added and sorted:
that has one result, in any order, on every processor and device.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dp_middleware._parts import parts

if TYPE_CHECKING:
    import torch

Floats = NDArray[np.float64]

FINE = 8
"""Fine cells of a cell; a power of two."""

_CELLS = 1408  # at most, but for spaces of very many tokens or very different distances
_MOST_BITS = 8  # 256 cells between a radius and its double
_MANTISSA = 52
_ABOVE_ZERO = math.nextafter(1.0, 0.0)


class Placed(NamedTuple):
    """The tokens of rows in cells; all numbers are exact.

    Attributes:
        flat: int32 (n, V), where in a table of all rows' fine cells, distance 0 before them.
        zero: Tokens at distance 0, float64 (n, 1).
        number: Others in each fine cell, float64 (n, FINE, cells).
        total: Sum of their places in the cell, each in [0, 1), float64 (n, FINE, cells).
        token: Those nearest to each row's, ascending by distance, int64 (n, k).
        cell: Their cells, int64 (n, k).
        place: Their places in the cell, in [0, 1), float64 (n, k).
        complete: The cells before this one have no other tokens, int64 (n, 1).
    """

    flat: torch.Tensor
    zero: torch.Tensor
    number: torch.Tensor
    total: torch.Tensor
    token: torch.Tensor
    cell: torch.Tensor
    place: torch.Tensor
    complete: torch.Tensor


class Cells:
    """The cells, and where distances are in them.

    The leading bits of x = 1 + d/unit are the number of the cell: a fixed number of equal cells
    between a power of two and the next. So cells are equally wide up to d = unit, and grow in
    proportion from there on. Distance 0 is in a cell of its own, number -1.

    Args:
        unit: Cells get narrower down to about this distance.
        end: The last edge is there or beyond.
        reach: No distance is beyond this, which is less than ``end``.
        size: Number V of tokens.

    Attributes:
        edges: float64 (m + 1,), from 0; the same on every machine.
        reached: Cells up to ``reach``.
    """

    def __init__(self, unit: float, end: float, reach: float, size: int) -> None:
        mantissa, exponent = math.frexp(unit)
        self._unit = math.ldexp(math.floor(16 * mantissa), exponent - 4)
        octaves = math.frexp(1.0 + end / self._unit)[1]
        self._size_bits = size.bit_length()
        bits = min(_MOST_BITS, (_CELLS // octaves).bit_length() - 1)
        bits = max(bits, self._size_bits - 12)  # so that a sum tells a count, below
        numbers = np.arange((octaves << bits) + 1)
        starts = np.ldexp(1.0, numbers >> bits)
        edges = (starts + starts * (numbers % (1 << bits)) * 2.0**-bits - 1.0) * self._unit
        self.edges: Floats = edges[: np.searchsorted(edges, end) + 1]
        self.reached = int(np.searchsorted(self.edges, reach))
        self._first = 1023 << bits  # the leading bits of 1
        self._bits = _MANTISSA - bits - self._size_bits  # of a place: V of them add up to 63

    @property
    def _fine_bits(self) -> int:
        return self._bits + 1 - FINE.bit_length()

    def placed(self, rows: torch.Tensor, nearest: int) -> Placed:
        """Distances become places, in their memory, and are counted.

        Args:
            rows: float64 (n, V).
            nearest: How many tokens are put in order.
        """
        import torch

        n, device = len(rows), rows.device
        width = 1 + self.reached * FINE
        flat = torch.empty(rows.shape, dtype=torch.int32, device=device)
        firsts = torch.arange(n, device=device)[:, None] * width
        sums = torch.zeros(n, width, dtype=torch.int64, device=device)
        keys = torch.empty(n, nearest, dtype=torch.int64, device=device)
        numbers = torch.arange(rows.shape[1], device=device)
        for part, *into in parts(rows, firsts, flat, sums, keys):
            self._place(part, numbers, *into)
        return Placed(flat, *self._counted(sums), *self._ordered(keys, rows.shape[1]))

    def _place(
        self,
        rows: torch.Tensor,
        numbers: torch.Tensor,
        firsts: torch.Tensor,
        flat: torch.Tensor,
        sums: torch.Tensor,
        keys: torch.Tensor,
    ) -> None:
        """A few rows: their places, fine cells, sums over these, and nearest tokens."""
        import torch

        places = rows.mul_(1.0 / self._unit).add_(_ABOVE_ZERO).view(torch.int64)
        places.bitwise_right_shift_(self._size_bits)
        index = (places >> self._fine_bits).sub_(self._first * FINE - 1)
        sums.scatter_add_(1, index, places)
        flat.copy_(index.add_(firsts))
        index = torch.bitwise_left_shift(places, self._size_bits, out=index).bitwise_or_(numbers)
        keys.copy_(_smallest(index, keys.shape[1]))

    def _counted(self, sums: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What a fine cell's sum of places says: their number, and their sum beyond the edge."""
        import torch

        edges = torch.arange(sums.shape[1], device=sums.device).add_(self._first * FINE - 1)
        middle = edges.double().add_(0.5).mul_(2.0**self._fine_bits)
        number = (sums / middle).round_()  # less than half off
        beyond = (sums - number.long() * (edges << self._fine_bits)).double()
        beyond.mul_(2.0**-self._fine_bits)
        zero = number[:, :1]
        number, beyond = (
            each[:, 1:].reshape(len(sums), self.reached, FINE).transpose(1, 2).contiguous()
            for each in (number, beyond)
        )
        fine = torch.arange(FINE, dtype=torch.float64, device=sums.device)[:, None]
        return zero, number, beyond.add_(number * fine).mul_(1 / FINE)

    def _ordered(self, keys: torch.Tensor, size: int) -> tuple[torch.Tensor, ...]:
        """The nearest tokens, their cells and places there; the first cell with unknown ones."""
        import torch

        places = keys >> self._size_bits
        cell = (places >> self._bits).sub_(self._first)
        place = (places & ((1 << self._bits) - 1)).double().mul_(2.0**-self._bits)
        token = keys & ((1 << self._size_bits) - 1)
        some = keys.shape[1] < size
        last = cell[:, -1:] if some else torch.full_like(cell[:, -1:], self.reached)
        return token, cell, place, last

    def write(self, rows: torch.Tensor, flat: torch.Tensor, *values: torch.Tensor) -> None:
        """Replace places by values of functions that are straight in every fine cell.

        Args:
            rows: float64 (n, V), in whose memory the places are.
            flat: int32 (n, V), from :meth:`placed`.
            values: At distance 0, float64 (n, 1); at the starts of fine cells, (n, FINE, cells);
                and at their ends.
        """
        import torch

        zero, starts, ends = values
        slopes = (ends - starts).mul_(2.0**-self._fine_bits)
        starts = torch.cat([zero, starts.transpose(1, 2).flatten(1)], dim=1).view(-1)
        slopes = torch.nn.functional.pad(slopes.transpose(1, 2).flatten(1), (1, 0)).view(-1)
        for part, at in parts(rows, flat):
            places = part.view(torch.int64).bitwise_and_((1 << self._fine_bits) - 1)
            found = slopes.index_select(0, at.flatten()).view(part.shape).mul_(places.double())
            torch.add(found, starts.index_select(0, at.flatten()).view(part.shape), out=part)


def _smallest(keys: torch.Tensor, count: int) -> torch.Tensor:
    """The smallest of each row, ascending."""
    import torch

    if keys.device.type != "cpu":
        return keys.topk(count, dim=1, largest=False, sorted=True).values
    host = keys.numpy()  # NumPy sorts several times as fast as torch
    if count < host.shape[1]:
        host = np.partition(host, count - 1, axis=1)[:, :count]
    return torch.from_numpy(np.sort(host, axis=1))
