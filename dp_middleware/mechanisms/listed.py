"""Rows that hold one value but on a short list."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, kw_only=True, eq=False)
class ListedRows:
    """Laws of n inputs, each in so many numbers as its list is long.

    Attributes:
        listed: int64 (n, K), outputs, in each row different ones.
        values: float64 (n, K), ln of their probabilities.
        elsewhere: float64 (n, 1), ln of the probability of each other output.
    """

    listed: torch.Tensor
    values: torch.Tensor
    elsewhere: torch.Tensor

    def spread(self, size: int) -> torch.Tensor:
        """The rows in full, float64 (n, V).

        Args:
            size: V, the number of tokens.
        """
        return self.elsewhere.repeat(1, size).scatter_(1, self.listed, self.values)
