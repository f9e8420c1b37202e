"""Public results on disk, as JSON: what was slow to compute once is read the next time."""

from __future__ import annotations

import hashlib
import json
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

from dp_middleware import _models


def load(kind: str, *key: str) -> dict[str, Any] | None:
    """What was stored under this key; ``None`` if it is absent or damaged."""
    try:
        found = json.loads(_path(kind, key).read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def store(data: dict[str, Any], kind: str, *key: str) -> None:
    """Write whole or not at all; a folder that cannot be written costs time, not truth."""
    path = _path(kind, key)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            json.dump(data, file, indent=1)
        Path(file.name).replace(path)
    except OSError:
        return


def _path(kind: str, key: tuple[str, ...]) -> Path:
    name = hashlib.sha256("\0".join(key).encode()).hexdigest()[:32]
    return _models.cache_dir() / kind / f"{name}.json"


@lru_cache(maxsize=1)
def code_fingerprint() -> str:
    """Changes whenever a file that decides a row or a certificate changes."""
    package = Path(__file__).parent
    names = ["_parts.py", "_integers.py", "_tables.py", "_search.py", "_row_files.py"]
    names += ["sampling.py", "vocabulary.py", "embedding/space.py"]
    files = [package / name for name in names]
    for folder in ("privacy", "mechanisms", "certification"):
        files += sorted((package / folder).glob("*.py"))
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()
