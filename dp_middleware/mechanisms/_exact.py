"""Exponentials and products that are the same bits on every machine.

A float64 product of matrices is exact, in whatever order a library adds, if every partial sum fits
into 53 bits. Matrices of more bits are cut into slices of which that holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

Floats = NDArray[np.float64]
Rows = TypeVar("Rows", Floats, "torch.Tensor")

_MANTISSA, _PRIVATE = 53, 19  # bits of a float64, and of a slice of private rows
_NOTHING, _HALVINGS, _TERMS = -40.0, 6, 12


def exp(x: Floats) -> Floats:
    """e^x for x <= 0, relative error below 1e-13, and 0 where that is below e^-40."""
    part, result = np.maximum(x, _NOTHING) * 2.0**-_HALVINGS, np.ones_like(x)
    for term in range(_TERMS, 0, -1):
        result *= part
        result /= term
        result += 1.0
    for _ in range(_HALVINGS):
        result *= result
    return np.where(x < _NOTHING, 0.0, result)


def rounded(values: Rows, bits: int) -> Rows:
    """The nearest multiples of 2^-bits."""
    return (values * 2.0**bits).round() * 2.0**-bits


def slices(public: Floats) -> tuple[Floats, Floats]:
    """Two slices of a matrix with entries of size up to 1; of 2^11 rows they keep 2^-47."""
    bits = _MANTISSA - _PRIVATE - (len(public) * 5 // 4).bit_length()  # sums stay below 5/4 each
    first = rounded(public, bits)
    return first, rounded(public - first, 2 * bits)


def product(private: torch.Tensor, public: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Rows of numbers in [0, 1], kept to 2^-39, times the slices of a public matrix.

    The product of both second slices is left out: it is below 2^-43 a summand.
    """
    first = rounded(private, _PRIVATE)
    second = rounded(private - first, 2 * _PRIVATE)
    return first @ public[0] + (first @ public[1] + second @ public[0])
