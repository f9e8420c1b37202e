"""Tables in Markdown, options, and the sections of README and docs/ that programs write."""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))


def parser(description: str | None) -> argparse.ArgumentParser:
    """Describes a program by the first line of its docstring."""
    return argparse.ArgumentParser(description=(description or "").splitlines()[0])


def row(cells: Iterable[str]) -> str:
    """A line of a table; a bar inside a cell is escaped."""
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def markdown(heads: Sequence[str], lines: Iterable[Iterable[str]] = ()) -> str:
    """A table, or its first two lines."""
    return "\n".join([row(heads), "|" + "---|" * len(heads), *map(row, lines)])


def section(name: str) -> str:
    """What stands between the comments of a section, on the one page that has it."""
    return _parts(name)[2].strip("\n")


def write(name: str, content: str) -> None:
    """Replaces a section."""
    page, before, _, after = _parts(name)
    page.write_text(f"{before}\n{content}\n{after}", "utf-8")


def _parts(name: str) -> tuple[Path, str, str, str]:
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    [page] = [page for page in PAGES if begin in page.read_text("utf-8")]
    before, rest = page.read_text("utf-8").split(begin)
    content, after = rest.split(end)
    return page, before + begin, content, end + after
