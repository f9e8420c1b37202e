"""Sections of the project's README that are written by programs, between two comments."""

from __future__ import annotations

from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def section(text: str, name: str) -> str:
    """What stands between the comments of a section."""
    return text.split(_begin(name))[1].split(_end(name))[0].strip("\n")


def with_section(text: str, name: str, content: str) -> str:
    """The text with the content of a section replaced."""
    before, rest = text.split(_begin(name))
    return f"{before}{_begin(name)}\n{content}\n{_end(name)}{rest.split(_end(name))[1]}"


def write(name: str, content: str) -> None:
    """Replace a section of the README."""
    README.write_text(with_section(README.read_text(), name, content))


def _begin(name: str) -> str:
    return f"<!-- {name}: begin -->"


def _end(name: str) -> str:
    return f"<!-- {name}: end -->"
