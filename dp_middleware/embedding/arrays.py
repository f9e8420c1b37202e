"""What arrays are called in the whole library; vectors read later, parts of tensors, files."""

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


def store(arrays: Mapping[str, NDArray[Any]], path: Path) -> None:
    """Writes arrays with their digest, whole or not at all.

    Raises:
        OSError: The folder cannot be written to, or has no room.
    """
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
