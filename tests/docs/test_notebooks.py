"""The notebooks are stored with their outputs and name no machine. ``make notebooks`` runs them."""

import ast
import getpass
import importlib.util
import re
import sys
from pathlib import Path

import nbformat
from support.cases import over

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
ABSOLUTE = re.compile(r"(?<![\w.:/*])/(?:home|Users|root|work|tmp|opt|var|mnt|usr)\b|\b[A-Z]:\\")
PLACES = {str(Path.home()), str(FOLDER.parent), sys.prefix, getpass.getuser()} - {"/", "ana"}

every = over("path", NOTEBOOKS)


def metadata():
    spec = importlib.util.spec_from_file_location("execute", FOLDER / "execute.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.METADATA


def read(path):
    return nbformat.read(path, as_version=4)


def cells(path, kind):
    return [cell for cell in read(path).cells if cell.cell_type == kind]


def without_images(output):
    data = {kind: text for kind, text in output.get("data", {}).items() if "image" not in kind}
    return f"{output.get('text', '')} {data}"


def test_there_are_eight():
    assert [path.stem[:2] for path in NOTEBOOKS] == [f"0{number}" for number in range(1, 9)]


@every
def test_is_stored_with_its_outputs(path):
    code = cells(path, "code")
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    kinds = {output.output_type for cell in code for output in cell.outputs}
    assert kinds <= {"display_data", "execute_result", "stream"}  # and no error
    plots = 0
    for cell in code:
        pictures = sum("image/png" in output.get("data", {}) for output in cell.outputs)
        assert pictures == cell.source.count("plt.show()"), cell.id
        assert all(output.get("name") != "stderr" for output in cell.outputs), cell.id
        plots += pictures
    assert plots > 0


@every
def test_has_no_trace_of_its_author(path):
    notebook = read(path)
    nbformat.validate(notebook)
    assert notebook.metadata == metadata()
    shown = []
    for number, cell in enumerate(notebook.cells, 1):
        assert cell.id == f"{path.stem[:2]}-{number:02d}"
        assert not cell.metadata  # no times at which it ran
        shown += [cell.source, *map(without_images, cell.get("outputs", []))]
    text, places = "\n".join(shown), "|".join(map(re.escape, PLACES))
    assert "Traceback" not in text
    assert not ABSOLUTE.search(text)
    assert not re.search(rf"(?<!\w)(?:{places})(?!\w)", text), "names this machine"


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


def test_which_mechanism_keeps_most_is_told_as_04_shows():
    """Its sentence on 4, 6 and 9 against the tables above it."""
    code = cells(FOLDER / "04_privacy_against_utility.ipynb", "code")
    texts = [o.get("data", {}).get("text/plain", "") for cell in code for o in cell.outputs]
    shown = [text for text in texts if "bayes" in text or "cosine   " in text]
    best = []
    for table in ([line.split() for line in text.splitlines()] for text in shown):
        order = enumerate(table[1][1:4], start=1)
        best.append({e: max(table[3:], key=lambda row, k=k: float(row[k]))[0] for k, e in order})
    recovered, kept = best
    codebook, most = "nearest-response", "custext-strict"
    assert kept == {"4.0": codebook, "6.0": codebook, "9.0": most}
    assert recovered["9.0"] == most
