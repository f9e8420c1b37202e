"""Imports go down the layers only, and ``import dp_middleware`` is light."""

import ast
import contextlib
import importlib
import inspect
import json
import re
import subprocess
import sys
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from support.cases import over

import dp_middleware as dp

ROOT = Path(dp.__file__).parent
INTEGRATIONS = ROOT.parent / "integrations"
LAYERS = [
    {"errors", "_forks", "_quiet", "_waits"},
    {"_files", "_torch", "_validate"},
    {"privacy", "vocabulary"},
    {"embedding"},
    {"contexts", "models", "sampling"},
    {"mechanisms"},
    {"certification"},
    {"sanitizers"},
    {"conversation", "scopes"},
    {"frameworks", "pseudonyms"},
    {"corpora", "gateway", "lab"},
    {
        "cli",
        "langchain_dp_middleware",
        "litellm_dp_middleware",
        "llama_index_dp_middleware",
        "openai_agents_dp_middleware",
        "pydantic_ai_dp_middleware",
    },
]
HELPERS = LAYERS[0] | LAYERS[1]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
# what an integration may import
PUBLIC = {"errors", "frameworks", "models", "privacy", "sanitizers", "scopes", "conversation"}
PUBLIC |= {"_quiet", "_validate"}


def modules():
    """Every module with its file, packages by the name of their folder."""
    found = {}
    for place in (ROOT, *INTEGRATIONS.glob("*_dp_middleware")):
        for path in place.rglob("*.py"):
            parts = path.relative_to(place.parent).with_suffix("").parts
            found[".".join(part for part in parts if part != "__init__")] = path
    return found


MODULES = modules()


def imported(path):
    """Modules of ours that a file imports, wherever it does; the most special that is there."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            while name and name not in MODULES:
                name = name.rpartition(".")[0]
            if name:
                yield name


IMPORTS = {name: {*imported(path)} - {name} for name, path in MODULES.items()}


def home(name):
    """The part of the library that a module belongs to."""
    first, _, rest = name.partition(".")
    return rest.partition(".")[0] if first == "dp_middleware" else first


@over("name", [name for name in MODULES if home(name)])
def test_imports_go_down(name):
    level = LEVEL[home(name)]
    below = {each for each in LEVEL if LEVEL[each] < level} | {home(name)}
    assert {home(each) for each in IMPORTS[name] if home(each)} <= below


def test_no_files_import_each_other_in_a_circle():
    tuple(TopologicalSorter(IMPORTS).static_order())  # raises CycleError, which names the circle


def test_nothing_private_stands_at_the_top_but_what_everybody_uses():
    assert {each.stem for each in ROOT.glob("_*.py")} == {
        "__init__",
        "_validate",
        "_forks",
        "_files",
        "_quiet",
        "_torch",
        "_waits",
    }


def test_a_leading_underscore_is_for_the_own_folder():
    for name, path in MODULES.items():
        for each in IMPORTS[name]:
            folder, _, last = each.rpartition(".")
            inside = path.is_relative_to(MODULES[each].parent)
            assert inside or not last.startswith("_") or folder == "dp_middleware", (name, each)


def test_the_core_knows_no_framework():
    for name, path in MODULES.items():
        if home(name) in LAYERS[-1] - {"cli"}:  # recorders load theirs when a probe is made
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom) and node.col_offset == 0:
                names = [getattr(node, "module", None) or "", *(a.name for a in node.names)]
                assert not any(n.startswith(("langchain", "llama_index", "openai")) for n in names)


def test_integrations_use_the_public_api():
    for name in MODULES:
        if home(name) in LAYERS[-1] - {"cli"}:
            assert {home(each) for each in IMPORTS[name]} <= {"", home(name), *PUBLIC}, name


def test_every_public_name_is_there():
    for name in dp.__all__:
        assert getattr(dp, name) is not None
    assert set(dp.__all__) <= set(dir(dp))
    assert dp.__version__
    with pytest.raises(AttributeError, match="nonsense"):
        dp.nonsense  # noqa: B018


def public_objects():
    """Classes and functions that a user may name, by their names."""
    places = [dp, dp.attacks, dp.metrics]
    rooms = ("corpora", "frameworks", "gateway", "lab.evaluation", "mechanisms", "scopes")
    names = [f"dp_middleware.{room}" for room in rooms]
    names += [path.parent.name for path in INTEGRATIONS.glob("*_dp_middleware/__init__.py")]
    for name in names:
        with contextlib.suppress(dp.MissingExtra):
            places.append(importlib.import_module(name))
    objects = {name: getattr(place, name) for place in places for name in place.__all__}
    return {
        name: value
        for name, value in objects.items()
        if inspect.isroutine(value) or inspect.isclass(value)
    }


def test_docstrings_of_public_names_begin_with_a_verb_in_the_third_person():
    first = {name: (value.__doc__ or "").split()[:1] for name, value in public_objects().items()}
    assert {
        name: word for name, word in first.items() if not re.fullmatch("[A-Z][a-z]+s,?", *word)
    } == {}


def test_the_import_is_light():
    code = """
import json, sys, time
start = time.process_time()
import dp_middleware
seconds = time.process_time() - start
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


def test_rooms_and_floors_are_few():
    assert len(LAYERS) <= 12
    assert len({home(name) for name in MODULES if home(name)} - HELPERS) <= 26


def test_no_class_has_the_name_of_another():
    """But for the model classes of two frameworks, which nobody imports together."""
    names = Counter(
        node.name
        for path in MODULES.values()
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name for name, count in names.items() if count > 1} <= {"DPModel"}


def test_a_file_can_be_read_at_a_sitting():
    assert [
        name for name, path in MODULES.items() if len(path.read_text().splitlines()) > 300
    ] == []
