"""Words and patterns of data/cues.toml, which tell what stands beside them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
CUES: dict[str, Any] = tomllib.loads((DATA / "cues.toml").read_text(encoding="utf-8"))


def words(name: str) -> frozenset[str]:
    """The words of a list, in lower case."""
    return frozenset(CUES[name].split())


def alternatives(name: str, table: str | None = None) -> str:
    """A regular expression for any of a list; it belongs into a group."""
    listed: str = (CUES if table is None else CUES[table])[name]
    return "|".join(listed.strip().splitlines())
