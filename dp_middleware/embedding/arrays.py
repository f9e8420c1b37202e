"""What arrays are called in the whole library, vectors read later, and tensors a part at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dp_middleware._torch import torch

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

_NUMBERS = 1 << 17  # of float64 in a part, a megabyte: less costs more in calls than it saves


class VectorSource(NamedTuple):
    """Reads vectors when something is first computed with them.

    ``read`` gives them, finite, float64 (V, d), read-only; ``dimensions`` is d, and ``fingerprint``
    that of the space, where it is known.
    """

    read: Callable[[], Floats]
    dimensions: int
    fingerprint: str | None = None


def parts(rows: torch.Tensor, *others: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yields views of a few rows of each tensor, (n, V) and others; off the CPU one view of all.

    What passes over a few again finds them in the processor's cache; V says how many are a few.
    """
    step = max(1, len(rows))
    if rows.device.type == "cpu":
        step = max(1, _NUMBERS // max(1, rows.shape[1]))
    return zip(*(torch.split(tensor, step) for tensor in (rows, *others)), strict=True)
