"""Public words and patterns of data/cues.toml: labels, names of months, what tells of values."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "detectors" / "data"
CUES: dict[str, Any] = tomllib.loads((DATA / "cues.toml").read_text(encoding="utf-8"))
KEEPS: dict[str, str] = CUES["keeps"]  # what is public of the entities of each kind


def words(name: str) -> frozenset[str]:
    """Returns the words of a list."""
    return frozenset(CUES[name].split())


def alternatives(name: str, table: str | None = None) -> str:
    """Returns a regular expression for any of a list; it belongs into a group."""
    listed: str = (CUES if table is None else CUES[table])[name]
    return "|".join(listed.strip().splitlines())


def filled(pattern: str) -> str:
    """Returns a pattern with the parts, or lists of alternatives, that it names in capitals."""

    def part(match: re.Match[str]) -> str:
        name = match[1].lower()
        own = _PARTS.get(name)
        return alternatives(name) if own is None else filled(own)

    return re.sub("<([A-Z_]+)>", part, pattern)


def rules(table: str, *names: str) -> list[re.Pattern[str]]:
    """Compiles patterns of a table."""
    return [re.compile(filled(CUES[table][name])) for name in names]


_PREFIXES = map(re.escape, sorted(words("key_prefixes"), reverse=True))
_PARTS: dict[str, str] = {**CUES["pattern_parts"], "prefix": "|".join(_PREFIXES)}
