"""Which tokens of a space may have another at its diameter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

_BLOCK = 64
_MISJUDGED = 1e-9  # of the largest squared length: more than rounding does to a squared distance


def farthest(points: torch.Tensor, squares: torch.Tensor) -> NDArray[np.int64]:
    """Ids of all points that end a pair about as far apart as any; each pair is looked at once.

    Args:
        points: float64 (d, V), about their centre.
        squares: float64 (V,), their squared lengths, on the same device.
    """
    import torch

    far = torch.zeros_like(squares)
    for start in range(0, len(squares), _BLOCK):
        rows, later = slice(start, start + _BLOCK), slice(start, None)
        block = (points[:, rows].T @ points[:, later]).mul_(-2.0)
        block.add_(squares[rows, None]).add_(squares[later])
        far[rows] = torch.maximum(far[rows], block.amax(dim=1))
        far[later] = torch.maximum(far[later], block.amax(dim=0))
    found = torch.nonzero(far >= far.max() - _MISJUDGED * squares.max())[:, 0]
    ids: NDArray[np.int64] = found.cpu().numpy()
    return ids
