"""Rows a few at a time: what passes over them again finds them in the processor's cache."""

from __future__ import annotations

from collections.abc import Iterator

from dp_middleware._torch import torch

_NUMBERS = 1 << 17
"""Of float64 in a part, a megabyte: less costs more in calls than it saves in memory."""


def parts(rows: torch.Tensor, *others: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """Views of a few rows of each tensor; away from the CPU one view of all.

    Args:
        rows: (n, V); V says how many are a few.
        others: As many rows, of any width.
    """
    step = max(1, len(rows))
    if rows.device.type == "cpu":
        step = max(1, _NUMBERS // max(1, rows.shape[1]))
    return zip(*(torch.split(tensor, step) for tensor in (rows, *others)), strict=True)
