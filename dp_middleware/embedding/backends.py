"""What turns texts into vectors, and what is taken from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_middleware.embedding.grid import unit_rows
from dp_middleware.errors import EmbeddingError

Rows = NDArray[np.float32]
Encode = Callable[[list[str]], ArrayLike]


class Backend(Protocol):
    """What turns texts into vectors. Equal backends share a worker, so they are hashable."""

    @property
    def batch(self) -> int:
        """Most texts in one call."""

    def open(self) -> Encode:
        """What is called with lists of texts and gives (n, d) numbers; loads what it needs.

        Called on the worker's thread, which then makes all calls, one at a time.
        """


def checked_rows(found: ArrayLike, count: int, width: int | None) -> Rows:
    """Rows of unit length, float32 (count, d); zero rows stay zero.

    Args:
        found: What a backend gave for ``count`` texts.
        count: How many there should be.
        width: d, if it is known.

    Raises:
        EmbeddingError: Another shape, or numbers that are not finite.
    """
    rows = np.asarray(found, dtype=np.float64)
    if rows.ndim != 2 or len(rows) != count or width not in (None, rows.shape[1]):
        raise EmbeddingError(
            f"expected {count} vectors of {width or 'equal'} length, got an array of {rows.shape}"
        )
    if not np.isfinite(rows).all():
        raise EmbeddingError("expected finite numbers in vectors; try a higher precision")
    return unit_rows(rows).astype(np.float32)


def opened(backend: Backend) -> Encode:
    """What the backend opens.

    Raises:
        EmbeddingError: It cannot be opened.
    """
    try:
        return backend.open()
    except Exception as error:  # it has seen no text yet, so its words may be shown
        failed = f"the embedding model cannot be loaded: {type(error).__name__}: {error}"
    raise EmbeddingError(failed)


def wordless(error: BaseException) -> str:
    """A message without text: others than ours may quote what they were given."""
    if isinstance(error, EmbeddingError):
        return str(error)
    return f"the embedding model failed with {type(error).__name__}"
