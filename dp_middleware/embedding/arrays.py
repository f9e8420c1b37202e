"""What arrays of ids and numbers are called in the whole library, and vectors read later."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


class VectorSource(NamedTuple):
    """Vectors that are read when something is first computed with them.

    Attributes:
        read: Gives them, finite, float64 (V, d), read-only.
        dimensions: Their length d.
        fingerprint: Of the space, where it is known.
    """

    read: Callable[[], Floats]
    dimensions: int
    fingerprint: str | None = None
