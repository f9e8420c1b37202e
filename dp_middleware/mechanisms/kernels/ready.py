"""What comes with the package: codebooks of the default space, and the rows that go with them.

Which codebook it is decides on utility only. The search for it may end elsewhere on another
processor; the file gives everybody the same one. ``benchmarks/ready_codebooks.py`` made it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

EPSILONS = range(1, 13)
"""Exact nats per token for which there is a codebook."""

FILE = Path(__file__).parent.parent / "data" / "codebooks.npz"
"""Arrays by name."""


def part(kind: str, *key: str) -> NDArray[Any] | None:
    """Reads an array of the file; ``None`` if it has none for this key."""
    return parts([kind], *key).get(kind)


def parts(kinds: Iterable[str], *key: str) -> dict[str, NDArray[Any]]:
    """Reads the arrays that the file has for this key, by kind; it is opened once."""
    if not FILE.exists():
        return {}
    with np.load(FILE, allow_pickle=False) as file:
        names = {kind: name_of(kind, *key) for kind in kinds}
        return {kind: file[name] for kind, name in names.items() if name in file.files}


def name_of(kind: str, *key: str) -> str:
    """Names an array by what it is, and by all that decides it but the search."""
    return f"{kind}-{hashlib.sha256(chr(0).join(key).encode()).hexdigest()[:16]}"
