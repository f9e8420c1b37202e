"""Imports go down the layers only, and ``import dp_middleware`` is light."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import dp_middleware as dp

ROOT = Path(dp.__file__).parent
INTEGRATIONS = ROOT.parent / "integrations"
LAYERS = [
    {
        "errors",
        "_validate",
        "_models",
        "_cache",
        "_forks",
        "_parts",
        "_private",
        "_recording",
        "_redirects",
        "_resampling",
        "_words",
    },
    {"privacy"},
    {"vocabulary", "_tokenizers", "token_labels"},
    {"embedding"},
    {"sampling", "_tables", "_integers", "_search", "_memory", "_arena", "_row_files"},
    {"mechanisms", "contexts"},
    {"certification"},
    {
        "sanitizers",
        "policies",
        "explanation",
        "_plan",
        "_planned",
        "_reader",
        "_certifier",
        "releases",
        "sessions",
        "boundary",
        "_replays",
        "_memo",
        "_positions",
        "_digests",
        "_events",
        "_by_epsilon",
        "_transcripts",
        "scopes",
        "preserving",
    },
    {"frameworks", "attacks", "metrics"},
    {"evaluation"},
    {"cli", "demo", "testing"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
# what an integration may import
PUBLIC = {"boundary", "errors", "releases", "sanitizers", "sessions", "scopes", "frameworks"}


def imported(path):
    """Second parts of ``dp_middleware.x`` names that a file imports, wherever it does."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "dp_middleware":
            names = [f"dp_middleware.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        for name in names:
            head, _, rest = name.partition(".")
            if head == "dp_middleware" and rest:
                yield rest.partition(".")[0]


def files():
    return [path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py"]


def home(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def test_every_module_has_a_layer():
    assert {home(path) for path in files()} == set(LEVEL)


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_down(path):
    own = home(path)
    allowed = {name for name in LEVEL if LEVEL[name] <= LEVEL[own]}
    # a version number is no layer
    assert set(imported(path)) - {"__version__"} <= allowed


def test_the_core_knows_no_framework():
    for path in files():
        if home(path) == "testing":  # its recorders load theirs when a probe is made
            continue
        if home(path) == "testing":  # says what frameworks have seen
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom) and node.col_offset == 0:
                names = [getattr(node, "module", None) or "", *(a.name for a in node.names)]
                assert not any(n.startswith(("langchain", "llama_index", "openai")) for n in names)


def test_integrations_use_the_public_api():
    for path in INTEGRATIONS.rglob("*.py"):
        assert set(imported(path)) <= PUBLIC | set(dp.__all__), path


def test_every_public_name_is_there():
    for name in dp.__all__:
        assert getattr(dp, name) is not None
    assert set(dp.__all__) <= set(dir(dp))
    with pytest.raises(AttributeError, match="nonsense"):
        dp.nonsense  # noqa: B018


def test_the_import_is_light():
    code = """
import json, sys, time
start = time.perf_counter()
import dp_middleware
seconds = time.perf_counter() - start
print(json.dumps([seconds, sorted(sys.modules)]))
"""
    runs = []
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        runs.append(json.loads(done.stdout))
    heavy = ("torch", "transformers", "langchain", "llama_index", "openai", "sentence_transformers")
    assert not [name for name in runs[0][1] if name.split(".")[0].startswith(heavy)]
    assert min(seconds for seconds, _ in runs) < 0.5
