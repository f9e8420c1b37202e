"""What arrays are called in the whole library; parts, files and exact products of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dp_middleware import _files
from dp_middleware._torch import torch

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

_NUMBERS = 1 << 17  # of float64 in a part, a megabyte: less costs more in calls than it saves


class VectorSource(NamedTuple):
    """Reads vectors when something is first computed with them."""

    read: Callable[[], Floats]  # gives them, finite, float64 (V, d), read-only
    dimensions: int  # d
    fingerprint: str | None = None  # of the space, where it is known


def slices(count: int, size: int) -> Iterator[slice]:
    """Yields the slices of so many that have ``size`` each, or fewer at the end."""
    return (slice(start, start + size) for start in range(0, count, size))


def parts(rows: torch.Tensor, *others: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yields views of a few rows of each tensor, (n, V) and others; off the CPU one view of all.

    So few, by V, that they stay in the processor's cache.
    """
    step = max(1, len(rows))
    if rows.device.type == "cpu":
        step = max(1, _NUMBERS // max(1, rows.shape[1]))
    return zip(*(torch.split(tensor, step) for tensor in (rows, *others)), strict=True)


def store(arrays: Mapping[str, NDArray[Any]], path: Path) -> None:
    """Writes arrays with their digest, whole or not at all; OSError: no room, no such folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _files.unfinished(path) as file:
        np.savez(file, digest=_digest(arrays), **arrays)  # type: ignore[arg-type]


def load(path: Path) -> dict[str, NDArray[Any]] | None:
    """Reads what was stored; ``None`` if it is absent or damaged."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = dict(stored)
        digest = arrays.pop("digest")
    except Exception:  # whatever a damaged file is taken for
        return None
    return arrays if np.array_equal(digest, _digest(arrays)) else None


def kept(path: Path, make: Callable[[], Mapping[str, NDArray[Any]]]) -> Mapping[str, NDArray[Any]]:
    """Reads what was stored, or makes and stores it; a folder that is not writable costs time."""
    if (stored := load(path)) is not None:
        return stored
    made = make()
    with suppress(OSError):
        store(made, path)
    return made


def _digest(arrays: Mapping[str, NDArray[Any]]) -> NDArray[np.uint8]:
    digest = hashlib.sha256()
    for name, array in arrays.items():
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return np.frombuffer(digest.digest(), dtype=np.uint8)


_FEW, _SOME = 8, 32  # rows
_SMALL = 786_000  # multiplications of a product that OpenBLAS makes without copying its arguments


class Points(NamedTuple):
    """Holds points on a grid."""

    host: Floats  # (V, d), read-only
    spacing: float  # of the grid, in units of the vectors
    placed: torch.Tensor  # (V, d), on the device
    squares: torch.Tensor  # (V,), exact squared lengths, on the device

    def squared_distances(self, ids: torch.Tensor, first: int = 0) -> torch.Tensor:
        """Computes those from ids to tokens from ``first`` on, exact; float64 (n, V - first)."""
        rows = product(self.placed[ids] * -2.0, self.placed[first:])
        for part, lengths in parts(rows, self.squares[ids][:, None]):
            part.add_(lengths).add_(self.squares[first:])
        return rows


def product(rows: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """Computes dot products, float64 (n, m), of rows (n, k) and (m, k) for which these are exact.

    So it may be made in whatever way is fastest: of a few rows NumPy's, and of fewer a block of the
    others at a time, which are then not copied.
    """
    if rows.device.type != "cpu" or len(rows) >= _SOME or rows.numel() == 0:
        return rows @ others.T
    few, many = rows.numpy(), others.numpy()
    if len(few) > _FEW:
        return torch.from_numpy(few @ many.T)
    columns, made = np.ascontiguousarray(few.T), np.empty((len(many), len(few)))
    step = max(1, _SMALL // few.size)
    for start in range(0, len(many), step):
        np.matmul(many[start : start + step], columns, out=made[start : start + step])
    return torch.from_numpy(np.ascontiguousarray(made.T))


def take_roots(rows: torch.Tensor) -> torch.Tensor:
    """Takes square roots, rounded as IEEE 754 has it; overwrites."""
    if rows.device.type != "cpu":
        return rows.sqrt_()
    for (part,) in parts(rows):  # torch takes MKL's roots, which are not IEEE 754's
        np.sqrt(part.numpy(), out=part.numpy())
    return rows


def cosines(rows: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """Computes dot products of unit rows on a grid, exact, and zero of one sign."""
    products = product(rows, others)
    for (part,) in parts(products):
        part.clamp_(-1.0, 1.0).add_(0.0)
    return products
