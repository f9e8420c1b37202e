"""Which English units may be near a text, told from their WordPieces: none of them is encoded.

A linear map takes the mean of a unit's word embeddings to about the vector of the unit; it comes
with the package, made by ``benchmarks/unit_map.py``. The best unit of all is among the 160 that it
names for 14 of 15 texts, or else one as near within .03.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_middleware.mechanisms.kernels import units
from dp_middleware.vocabulary.sources import default_bert

Rows = NDArray[np.float32]

FILE = str(files("dp_middleware.mechanisms") / "data" / "unit_map.npz")
CONSTANT = 0.05  # beside the mean


class Pieces:
    """The WordPieces of texts that have some."""

    def __init__(self, texts: Sequence[str]) -> None:
        ids = [one.ids for one in default_bert().encode_batch([*texts], add_special_tokens=False)]
        self._flat = np.concatenate(ids).astype(np.int32)
        self._counts = np.array([len(own) for own in ids])

    def means(self, of_pieces: Rows) -> Rows:
        """Mean over each text's pieces of a number for each of the model's, float32 (n,)."""
        starts = np.cumsum(self._counts) - self._counts
        means: Rows = np.add.reduceat(of_pieces[self._flat], starts) / self._counts
        return means


@cache
def _english() -> tuple[Pieces, Rows, NDArray[Any]]:
    """Pieces of all units, the map, and the length of what it gives for each unit."""
    with np.load(FILE, allow_pickle=False) as file:
        return Pieces(units.english()), file["map"] * file["scale"], file["lengths"]


def nearest(target: Rows, embeddings: Rows, size: int, count: int) -> list[int]:
    """Names ``count`` of the first ``size`` units that seem nearest to a vector, in their order.

    ``embeddings`` are those of the model's WordPieces, (V, d).
    """
    pieces, linear, lengths = _english()
    along = linear @ target
    cosines = (pieces.means(embeddings @ along[:-1]) + CONSTANT * along[-1]) / lengths
    named: list[int] = np.argpartition(-cosines[:size], min(count, size) - 1)[:count].tolist()
    return sorted(named)
