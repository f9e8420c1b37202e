"""Certificates and calibrations on disk, keyed by all that decides them, code included."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

from dp_middleware import _cache
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
    return _cache.load(kind, *key, space.fingerprint, code_fingerprint())


def store(
    data: dict[str, Any], kind: str, mechanism: Mechanism, space: EmbeddingSpace, *key: str
) -> None:
    """Kept where computing takes long."""
    if _is_kept(mechanism, space):
        _cache.store(data, kind, *key, space.fingerprint, code_fingerprint())


def _is_kept(mechanism: Mechanism, space: EmbeddingSpace) -> bool:
    """Only for mechanisms whose code is part of the key, and where computing takes long."""
    ours = type(mechanism).__module__.startswith(f"{_MECHANISMS}.")
    return ours and len(space) >= _WORTH_STORING


@lru_cache(maxsize=1)
def code_fingerprint() -> str:
    """Changes whenever a file that decides a row or a certificate changes."""
    package = Path(__file__).parent.parent
    names = ("_tables.py", "sampling.py", "vocabulary.py", "embedding/space.py")
    files = [package / name for name in names]
    for folder in ("privacy", "mechanisms", "certification"):
        files += sorted((package / folder).glob("*.py"))
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()
