"""Vectors on a public grid, where products are exact: the same bits on every machine.

A float64 holds every multiple of 2^-52 up to 2. Products of coordinates that are multiples of 2^-26
are such numbers, and so are their sums, in any order, for vectors of lengths up to the square root
of 2, at every scale that is a power of two; see docs/guarantees.md. What comes to the grid is made
of single IEEE 754 operations in an order that this file fixes.
"""

from __future__ import annotations

import hashlib
import math
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Floats, slices
from dp_middleware.errors import ParameterError

Array = TypeVar("Array", Floats, "torch.Tensor")

BITS = 26  # the grid's spacing is 2^-26 of its scale
RULE = f"2^-{BITS}"  # which grid this is, for fingerprints: with the vectors it says all
_LONGEST = 0.7  # of a point in units of the scale: with rounding still below the root of 1/2
_FINE = 12  # the centre is rounded to 2^-12 of the vectors' range, more than the grid's spacing
_SMALLEST = -480  # exponent of the smallest scale: products of points do not underflow
_COARSE = 0.01  # of the distance of two tokens: more than this the grid must not take
_BLOCK = 256  # rows at a time, which stay in the processor's cache
_SOME = 1024  # tokens whose distances are looked at for that


def check(vectors: Floats, count: int) -> None:
    """Refuses what has no products: not (count, d), NaN, infinite or too large to be squared."""
    if vectors.ndim != 2 or len(vectors) != count or not vectors.shape[1]:
        raise ParameterError(f"expected vectors of shape ({count}, d), got {vectors.shape}")
    broken = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if broken.size:
        raise ParameterError(
            f"expected finite vectors, got NaN or infinity in {broken.size} of {count} rows, the "
            f"first at row {broken[0]}"
        )
    with np.errstate(over="ignore"):
        longest = np.einsum("vd,vd->v", vectors, vectors).max()
    if not np.isfinite(16 * longest):
        raise ParameterError("expected vectors whose squared lengths do not overflow")


def fingerprint(vocabulary: str, vectors: Floats) -> str:
    """Digests a vocabulary's fingerprint, the vectors and the grid, SHA-256, hexadecimal."""
    digest = hashlib.sha256(vocabulary.encode())
    digest.update(f"{vectors.shape} {RULE}".encode())
    digest.update(vectors.data)
    return digest.hexdigest()


def mean(vectors: Floats) -> Floats:
    """Computes the mean vector, (d,): vectors added one after another."""
    total = sum(vectors, np.zeros(vectors.shape[1]))  # Python's: NumPy's order is its own affair
    return total / len(vectors)


def folded(values: Array) -> Array:
    """Adds up the last axis, halves to halves: ceil(log2 d) roundings; overwrites.

    The order is fixed, whatever else is in the array, on any number of threads and any device.
    """
    width = values.shape[-1]
    while width > 1:
        half = (width + 1) // 2
        values[..., : width - half] += values[..., half:width]
        width = half
    total: Array = values[..., 0]
    return total


def unit_rows(vectors: ArrayLike) -> Floats:
    """Divides rows by their length, float64; a zero row stays zero."""
    rows = np.array(vectors, dtype=np.float64)
    for part in (rows[some] for some in slices(len(rows), _BLOCK)):
        largest = np.abs(part).max(axis=1, keepdims=True, initial=0.0)
        part *= np.ldexp(1.0, -_exponent(largest))  # so that no square over- or underflows
        lengths = _lengths(part)
        np.divide(part, lengths[:, None], out=part, where=lengths[:, None] > 0)
        part[lengths == 0] = 0.0  # of one sign
    return rows


def unit_points(vectors: ArrayLike) -> Floats:
    """Makes unit rows, their coordinates rounded to multiples of 2^-26: products are exact."""
    return _round(unit_rows(vectors), 2.0**-BITS)


def points_of(vectors: Floats) -> tuple[Floats, float]:
    """Puts vectors about a public centre on a grid for the longest of them.

    The centre is the mean, rounded to about a 4096th of the widest range of a coordinate, which is
    on the grid: lattices stay lattices. The scale is the power of two at which the longest vector
    has a length of 0.35 to 0.7: squared distances are at most 2 there, and -2 <x, y> + |x|^2 +
    |y|^2 is exact from left to right.

    Returns points, float64 (V, d), in units of vectors, and the spacing: 2^-26 of the scale. A
    coordinate moves by half of it at most, a distance by sqrt(d) of it. ParameterError: distances
    could move by more than a hundredth of the median one (of about 1,024 pairs of tokens).
    """
    ranges = np.ptp(vectors, axis=0)
    step = 2.0 ** (int(_exponent(ranges.max())) - _FINE)
    centre = np.rint(mean(vectors) / step) * step if ranges.any() else vectors[0]
    centred = vectors - centre
    exponent = int(_exponent(np.abs(centred).max()))
    longest = _lengths(centred * 2.0**-exponent).max()
    exponent = max(_SMALLEST, exponent + int(_exponent(longest / _LONGEST)))
    spacing = 2.0 ** (exponent - BITS)
    _refuse_coarse(vectors, spacing)
    return _round(centred, spacing), spacing


def _refuse_coarse(vectors: Floats, spacing: float) -> None:
    some = vectors[:: max(1, len(vectors) // _SOME)]
    moves = _lengths((some - np.roll(some, len(some) // 2, axis=0)) / spacing)
    moves = moves[moves > 0]
    loss = math.sqrt(vectors.shape[1])
    if moves.size and loss > _COARSE * (median := float(np.median(moves))):
        raise ParameterError(
            "expected vectors of comparable lengths, got some so much longer than the others that "
            f"a grid for all of them moves distances by up to {loss * spacing:.2g}, and half of "
            f"the distances are below {median * spacing:.2g}; normalise the vectors, or leave out "
            "those far from the rest"
        )


def _exponent(values: ArrayLike) -> NDArray[np.int32]:
    """The least e with values < 2^e, kept from where 2^-e would overflow."""
    return np.maximum(np.frexp(values)[1], _SMALLEST)


def _lengths(rows: Floats) -> Floats:
    """Euclidean lengths of rows, (n,)."""
    return np.asarray(np.sqrt(folded(np.square(rows))))


def _round(rows: Floats, spacing: float) -> Floats:
    """The nearest multiples of a power of two; overwrites."""
    rows /= spacing
    np.rint(rows, out=rows)
    rows *= spacing
    return rows
