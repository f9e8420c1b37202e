"""What MkDocs does not do itself: notebooks as pages, and what it cannot read in docstrings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from nbconvert import MarkdownExporter

ROOT = Path(__file__).parent.parent
ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):`~?([^`]+)`")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each notebook, with the plots that are stored in it."""
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        names = {"output_files_dir": path.stem}
        text, resources = MarkdownExporter().from_filename(str(path), resources=names)
        text = text.replace("](../docs/", "](../").replace(".ipynb)", ".md)")
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))
        for name, image in resources["outputs"].items():
            files.append(File.generated(config, f"notebooks/{name}", content=image))
    return files


class Docstrings(griffe.Extension):
    """Sphinx's roles become code, and an example is shown as one."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of a function, class or module."""
        if obj.docstring:
            text = ROLE.sub(r"`\1`", obj.docstring.value)
            obj.docstring.value = text.replace("Example:\n", "Examples:\n")
