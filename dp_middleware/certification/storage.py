"""Certificates and calibrations on disk, keyed by all that decides them, code included."""

from __future__ import annotations

import hashlib
import json
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

from dp_middleware import _models
from dp_middleware.embedding.space import EmbeddingSpace

_WORTH_STORING = 512
"""Vocabulary size below which computing is faster than reading."""


def load(kind: str, space: EmbeddingSpace, *key: str) -> dict[str, Any] | None:
    """What was stored under this key; ``None`` if it is absent or damaged."""
    if len(space) < _WORTH_STORING:
        return None
    try:
        found = json.loads(_path(kind, space, key).read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def store(data: dict[str, Any], kind: str, space: EmbeddingSpace, *key: str) -> None:
    """Write whole or not at all; a folder that cannot be written costs time, not truth."""
    if len(space) < _WORTH_STORING:
        return
    path = _path(kind, space, key)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            json.dump(data, file, indent=1)
        Path(file.name).replace(path)
    except OSError:
        return


def _path(kind: str, space: EmbeddingSpace, key: tuple[str, ...]) -> Path:
    parts = (*key, space.fingerprint, code_fingerprint())
    name = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    return _models.cache_dir() / kind / f"{name}.json"


@lru_cache(maxsize=1)
def code_fingerprint() -> str:
    """Changes whenever a file that decides a row or a certificate changes."""
    package = Path(__file__).parent.parent
    files = [package / "sampling.py", package / "embedding" / "space.py"]
    files += sorted((package / "mechanisms").glob("*.py"))
    files += sorted((package / "certification").glob("*.py"))
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()
