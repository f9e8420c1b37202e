"""Public results on disk, as JSON: what was slow to compute once is read the next time."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from dp_middleware import _models

UNFINISHED = ".part"


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
        with unfinished(path) as file:
            file.write(json.dumps(data, indent=1).encode())
    except OSError:
        return


@contextmanager
def unfinished(path: Path) -> Iterator[IO[bytes]]:
    """A file beside the path that takes its place at the end, and is removed after an error.

    Others may read it, as far as the process lets them read its files: what it has is public.
    """
    part = path.with_name(f"{path.stem}.{secrets.token_hex(8)}{UNFINISHED}")
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _path(kind: str, key: tuple[str, ...]) -> Path:
    name = hashlib.sha256("\0".join(key).encode()).hexdigest()[:32]
    return _models.cache_dir() / kind / f"{name}.json"


@lru_cache(maxsize=1)
def code_fingerprint() -> str:
    """Changes whenever a file that decides a row or a certificate changes."""
    package = Path(__file__).parent
    names = ["_parts.py", "_integers.py", "_tables.py", "_search.py", "_row_files.py"]
    files = [package / name for name in [*names, "sampling.py", "vocabulary.py"]]
    for folder in ("embedding", "privacy", "mechanisms", "certification"):
        files += sorted((package / folder).glob("*.py"))
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()
