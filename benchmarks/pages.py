"""Sections of the README and of the pages in docs/ that programs write, between two comments."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))


def section(name: str) -> str:
    """What stands between the comments of a section, on the one page that has it."""
    return _split(page_of(name).read_text("utf-8"), name)[1].strip("\n")


def write(name: str, content: str) -> None:
    """Replace a section."""
    page = page_of(name)
    before, _, after = _split(page.read_text("utf-8"), name)
    page.write_text(f"{before}\n{content}\n{after}", "utf-8")


def page_of(name: str) -> Path:
    """The page with a section."""
    [page] = [page for page in PAGES if f"<!-- {name}: begin -->" in page.read_text("utf-8")]
    return page


def _split(text: str, name: str) -> tuple[str, str, str]:
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, rest = text.split(begin)
    content, after = rest.split(end)
    return before + begin, content, end + after
