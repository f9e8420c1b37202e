"""Execute the notebooks from top to bottom, each in a clean kernel and an empty folder.

    python notebooks/execute.py [--write] [NOTEBOOK ...]

With ``--write`` what they show is stored in them, without the times at which their cells ran.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
SECONDS = 600  # for one cell, on a machine that does other things too


def execute(path: Path) -> nbformat.NotebookNode:
    """The notebook with its outputs; raises if a cell fails, or leaves a file or a plot out."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as empty:
        resources = {"metadata": {"path": empty}}
        client = NotebookClient(notebook, timeout=SECONDS, record_timing=False, resources=resources)
        client.execute()
        assert not list(Path(empty).iterdir()), f"{path.name} leaves files behind"
    for cell in notebook.cells:
        if cell.cell_type == "code":
            plots = sum("image/png" in output.get("data", {}) for output in cell.outputs)
            assert plots == cell.source.count("plt.show()"), f"{path.name}: plots of {cell.id}"
            # progress bars and warnings: of this machine, with its paths
            cell.outputs = [out for out in cell.outputs if out.get("name") != "stderr"]
    notebook.metadata = METADATA
    return notebook


def main() -> None:
    """Execute all notebooks, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", nargs="*", type=Path, default=sorted(FOLDER.glob("*.ipynb")))
    parser.add_argument("--write", action="store_true", help="store the outputs")
    options = parser.parse_args()
    os.environ.pop("MPLBACKEND", None)  # plots belong in the notebook
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["PYTHONPATH"] = str(FOLDER.parent / "tests")  # its folder "support" has a provider
    with tempfile.TemporaryDirectory() as folder:
        for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "DP_MIDDLEWARE_CACHE"):
            os.environ[name] = str(Path(folder) / name)
        for path in options.notebooks:
            print(path.name, flush=True)
            notebook = execute(path)
            if options.write:
                nbformat.write(notebook, path)


if __name__ == "__main__":
    main()
