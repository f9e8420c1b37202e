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
from dp_middleware.mechanisms.base import Mechanism

_MECHANISMS = "dp_middleware.mechanisms"
_WORTH_STORING = 512
"""Vocabulary size below which computing is faster than reading."""


def load(
    kind: str, mechanism: Mechanism, space: EmbeddingSpace, *key: str
) -> dict[str, Any] | None:
    """What was stored under this key; ``None`` if it is absent or damaged."""
    if not _is_kept(mechanism, space):
        return None
    try:
        found = json.loads(_path(kind, space, key).read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def store(
    data: dict[str, Any], kind: str, mechanism: Mechanism, space: EmbeddingSpace, *key: str
) -> None:
    """Write whole or not at all; a folder that cannot be written costs time, not truth."""
    if not _is_kept(mechanism, space):
        return
    path = _path(kind, space, key)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            json.dump(data, file, indent=1)
        Path(file.name).replace(path)
    except OSError:
        return


def _is_kept(mechanism: Mechanism, space: EmbeddingSpace) -> bool:
    """Only for mechanisms whose code is part of the key, and where computing takes long."""
    ours = type(mechanism).__module__.startswith(f"{_MECHANISMS}.")
    return ours and len(space) >= _WORTH_STORING


def _path(kind: str, space: EmbeddingSpace, key: tuple[str, ...]) -> Path:
    parts = (*key, space.fingerprint, code_fingerprint())
    name = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    return _models.cache_dir() / kind / f"{name}.json"


@lru_cache(maxsize=1)
def code_fingerprint() -> str:
    """Changes whenever a file that decides a row or a certificate changes."""
    package = Path(__file__).parent.parent
    files = [package / "sampling.py", package / "vocabulary.py", package / "embedding" / "space.py"]
    for folder in ("privacy", "mechanisms", "certification"):
        files += sorted((package / folder).glob("*.py"))
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()
