"""Certificates and calibrations on disk, keyed by all that decides them, code included."""

from __future__ import annotations

from typing import Any

from dp_middleware import _files
from dp_middleware._files import code_fingerprint
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.mechanisms.base import Mechanism
from dp_middleware.mechanisms.keys import is_known

_WORTH_STORING = 512
"""Vocabulary size below which computing is faster than reading."""


def load(
    kind: str, mechanism: Mechanism, space: EmbeddingSpace, *key: str
) -> dict[str, Any] | None:
    """Returns what was stored under this key; ``None`` if it is absent or damaged."""
    kept = _is_kept(mechanism, space)
    return _files.load(kind, *key, space.fingerprint, code_fingerprint()) if kept else None


def store(
    data: dict[str, Any], kind: str, mechanism: Mechanism, space: EmbeddingSpace, *key: str
) -> None:
    """Keeps data where computing takes long."""
    if _is_kept(mechanism, space):
        _files.store(data, kind, *key, space.fingerprint, code_fingerprint())


def takes_long(space: EmbeddingSpace) -> bool:
    """Tells whether a pass over all rows does."""
    return len(space) >= _WORTH_STORING


def _is_kept(mechanism: Mechanism, space: EmbeddingSpace) -> bool:
    """Only for mechanisms and spaces whose code is part of the key, where computing takes long."""
    return is_known(mechanism, space) and takes_long(space)
