"""Exponentials and products that are the same bits on every machine.

A float64 product of matrices is exact, in whatever order a library adds, if every partial sum fits
into 53 bits; matrices of more bits are cut into slices of which that holds.
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np

from dp_middleware._torch import torch
from dp_middleware.embedding import arrays
from dp_middleware.embedding.arrays import Floats

Rows = TypeVar("Rows", Floats, "torch.Tensor")

_MANTISSA, _PRIVATE = 53, 19  # bits of a float64, and of a slice of private rows
_HALVINGS = 10
_LAST_ODD = 21  # power of at most 0.172, about 10^-16
_TAYLOR = [1.0 / math.factorial(power) for power in range(13)]


def exp(x: Floats) -> Floats:
    """Computes e^x for -500 <= x <= 0, by a relative error of 1e-9, and 1e-12 from -100 on."""
    part = x * 2.0**-_HALVINGS
    result = np.full_like(x, _TAYLOR[-1])
    for term in _TAYLOR[-2::-1]:
        result *= part
        result += term
    for _ in range(_HALVINGS):
        result *= result
    return result


def log(x: torch.Tensor) -> torch.Tensor:
    """Computes ln x for x > 0 by single IEEE 754 operations, to 1e-14 beyond x = 2."""
    mantissa, exponent = torch.frexp(x)
    low = mantissa < 0.5**0.5
    mantissa = torch.where(low, 2.0 * mantissa, mantissa)
    whole = exponent.double() - low.double()
    ratio = (mantissa - 1.0) / (mantissa + 1.0)
    square = ratio * ratio
    series = torch.full_like(x, 1.0 / _LAST_ODD)
    for odd in range(_LAST_ODD - 2, 0, -2):
        series = series * square + 1.0 / odd
    logarithm: torch.Tensor = whole.mul_(math.log(2.0)).add_(2.0 * ratio * series)
    return logarithm


def rounded(values: Rows, bits: int) -> Rows:
    """Rounds to the nearest multiples of 2^-bits."""
    return (values * 2.0**bits).round() * 2.0**-bits


def slices(public: Floats) -> tuple[Floats, Floats]:
    """Cuts a matrix with entries of size up to 1 in two, to 2^-47 for 2^11 columns."""
    bits = _MANTISSA - _PRIVATE - public.shape[1].bit_length()
    first = rounded(public, bits)
    return first, rounded(public - first, 2 * bits)


def product(private: torch.Tensor, public: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Multiplies rows in [0, 1], kept to 2^-39, by a sliced public matrix, to 2^-43 a summand."""
    first = rounded(private, _PRIVATE)
    second = rounded(private - first, 2 * _PRIVATE)
    both = arrays.product(torch.cat([first, second]), public[0])
    return both[: len(first)] + (arrays.product(first, public[1]) + both[len(first) :])
