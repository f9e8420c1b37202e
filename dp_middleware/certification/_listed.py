"""Rows of one value off a short list: their integers, in a column for each listed output."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from dp_middleware.mechanisms.listed import ListedRows
from dp_middleware.sampling import sampler
from dp_middleware.sampling.integers import SUM_ERROR

Ids = NDArray[np.int64]

_HALF = 2.0**32
_FEW = 8  # a list is shorter than an eighth of the row


def found_in(rows: torch.Tensor) -> ListedRows | None:
    """Lists of what is possible, where all rows have equally few possible outputs."""
    count, (n, size) = int((rows[0] != -torch.inf).sum()), rows.shape
    if not 0 < _FEW * count <= size:
        return None
    if rows.device.type == "cpu":  # a third of the time that torch takes
        places = torch.from_numpy(np.flatnonzero(rows.numpy() != -np.inf))
    else:
        places = (rows != -torch.inf).view(-1).nonzero()[:, 0]
    if len(places) != n * count:
        return None
    starts = torch.arange(0, n * size, size, device=rows.device)[:, None]
    listed = places.view(n, count) - starts
    if bool(((listed < 0) | (listed >= size)).any()):
        return None
    elsewhere = rows.new_full((n, 1), -torch.inf)
    return ListedRows(listed=listed, values=rows.gather(1, listed), elsewhere=elsewhere)


def columns(listed: ListedRows, size: int, *, impossible: float) -> tuple[torch.Tensor, Ids]:
    """Columns, float64 (n, C), the last one for what is listed in no row, and that of each output.

    The last one is left out, and that of its outputs is -1, where they are impossible in all rows.
    """
    outputs, places = torch.unique(listed.listed, return_inverse=True)
    rows = listed.elsewhere.repeat(1, len(outputs) + 1).scatter_(1, places, listed.values)
    nowhere = bool((listed.elsewhere == impossible).all())
    found = np.full(size, -1 if nowhere else len(outputs))
    found[outputs.cpu().numpy()] = np.arange(len(outputs))
    if nowhere or len(outputs) == size:
        rows = rows[:, :-1]
    return rows, found


def integers(listed: ListedRows, size: int) -> tuple[ListedRows, torch.Tensor, torch.Tensor] | None:
    """The integers of the rows in full, to the last bit; bits and largest integer of each row.

    Returns:
        ``None`` where the rows in full have to be looked at: a listed output is not the only most
        probable one, or some other output has a probability below e^-30.
    """
    order = listed.listed.argsort(dim=1)  # of equal ones the first by index is the largest
    outputs, values = listed.listed.gather(1, order), listed.values.gather(1, order)
    others = size - outputs.shape[1]
    if not others or bool((listed.elsewhere == -torch.inf).all()):
        rounded = sampler.integer_rows(values)
        weights, rest = rounded.weights, torch.zeros_like(listed.elsewhere)
        return (
            ListedRows(listed=outputs, values=weights, elsewhere=rest),
            rounded.bits,
            rounded.largest,
        )
    least = torch.minimum(values.amin(dim=1, keepdim=True), listed.elsewhere)
    largest, top = values.max(dim=1, keepdim=True)
    if not bool(((least >= sampler.WIDE_BELOW) & (largest > listed.elsewhere)).all()):
        return None
    every = torch.cat([values, listed.elsewhere], dim=1).exp_()
    if not bool(((_total(every, others) - 1.0).abs() < SUM_ERROR).all()):
        return None  # refused there
    every.mul_(2.0**64).round_().scatter_(1, top, 0.0)
    left = every.new_tensor(_left_over(every, others))
    every.scatter_(1, top, left)
    bits = torch.full_like(top[:, 0], 64)
    rows = ListedRows(listed=outputs, values=every[:, :-1], elsewhere=every[:, -1:])
    return rows, bits, left[:, 0]


def _left_over(every: torch.Tensor, others: int) -> list[list[float]]:
    """What is left of 2^64 in each row."""
    upper = (every * (1 / _HALF)).floor_()
    lower = every - upper * _HALF
    sums = zip(_total(upper, others).tolist(), _total(lower, others).tolist(), strict=True)
    return [[float((1 << 64) - (int(high) << 32) - int(low))] for high, low in sums]


def _total(every: torch.Tensor, others: int) -> torch.Tensor:
    """Sums over all outputs; exact for integers below 2^32 and up to 2^21 outputs."""
    return every[:, :-1].sum(dim=1) + others * every[:, -1]
