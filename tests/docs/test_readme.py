"""The README is true: its examples run, its tables and those of docs/ are what the code computes.

What computes on the full spaces is marked ``slow`` and runs with ``make slow``.
"""

import dataclasses
import importlib.util
import json
import math
import random
import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
from support.cases import over
from support.spaces import random_space
from typer.testing import CliRunner

import dp_middleware as dp
from dp_middleware.cli import app
from dp_middleware.cli.mechanisms import markdown_table
from dp_middleware.lab.evaluation.running import of_tokens
from dp_middleware.sanitizers.calibrated import DEFAULT_MECHANISM

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
SHOWN = re.findall(r"```text\n(.*?)```", README, flags=re.DOTALL)


def load_benchmark(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGES = load_benchmark("pages")
TABLE = load_benchmark("exact_epsilon")
EQUAL = load_benchmark("mechanisms")
EVALUATION = load_benchmark("evaluation")
KINDS = load_benchmark("kinds")
CELLS = TABLE.stored()


def test_it_is_short_every_block_is_tested_and_links_lead_somewhere():
    assert len(README.splitlines()) <= 120
    assert len(BLOCKS) == 3
    assert sum(bool(line.strip()) for line in BLOCKS[1].splitlines()) <= 10
    for target in re.findall(r"\]\(([^)#]+)", README):
        assert target.startswith("https://") or (ROOT / target).exists(), target


@pytest.fixture
def sanitizer():
    return dp.Sanitizer(dp.TokenExponential(epsilon=4.0), random_space())


def test_pseudonyms_hide_the_letter_and_come_back(capsys, monkeypatch):
    import openai

    seen = []

    class Client:
        responses = property(lambda self: self)

        def create(self, *, model, input):
            seen.append(input)
            name, order = re.search(r"I am (\S+ \S+) \(.*Order (\S+) never", input).groups()
            return SimpleNamespace(output_text=f"Dear {name}, we are sorry about {order}.")

    monkeypatch.setattr(openai, "OpenAI", Client)
    exec(BLOCKS[0], {})
    assert sum(bool(line.strip()) for line in BLOCKS[0].splitlines()) <= 8
    assert "split(" not in BLOCKS[0]
    assert not re.search("Maria|Lopez|acme|77812", seen[0])
    assert capsys.readouterr().out == "Dear Maria Lopez, we are sorry about ORD-77812.\n"


def boxes(image):
    groups = ElementTree.fromstring(image).iter("{http://www.w3.org/2000/svg}g")
    return {group.get("id"): " ".join(group.itertext()) for group in groups}


@over("stored", [True, False])
def test_the_picture_is_of_a_run(stored):
    """The stored one is checked as a new one is: what the model sees and writes has no original."""
    picture = load_benchmark("picture")
    assert "](docs/images/pseudonyms.svg)" in README
    shown = boxes(picture.PATH.read_text("utf-8") if stored else picture.picture())
    assert [*shown] == ["written", "sent", "answered", "read"]
    private = re.compile(r"Maria|Lopez|acme|77812|1,249|12 Oak|Springfield|555-0142|March 3")
    assert not private.search(shown["sent"] + shown["answered"])
    assert "Dear Maria Lopez, order ORD-77812" in shown["read"]
    assert "$1,249.00" in shown["read"]


def test_the_chain_and_the_engine_run(sanitizer, monkeypatch):
    import llama_index.core as core
    from langchain_core.language_models import FakeListChatModel
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate

    files = Path(core.__file__).parent / "_static" / "tiktoken_cache"
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(files))
    from llama_index.core import MockEmbedding, VectorStoreIndex
    from llama_index.core.llms import MockLLM
    from llama_index.core.schema import TextNode

    node = TextNode(id_="visit", text="The left knee was operated on in March.")
    namespace = {
        "sanitizer": sanitizer,
        "session": dp.Session(sanitizer),
        "prompt": ChatPromptTemplate.from_template("{style}: {question}"),
        "model": FakeListChatModel(responses=["a specialist"]),
        "parser": StrOutputParser(),
        "index": VectorStoreIndex([node], embed_model=MockEmbedding(embed_dim=3)),
        "llm": MockLLM(),  # repeats its prompt
    }
    exec(BLOCKS[2], namespace)
    assert namespace["chain"].invoke({"question": "hurt?", "style": "short"}) == "a specialist"
    answer = str(namespace["engine"].query("Why does my left knee hurt?"))
    assert "operated" not in answer
    assert "hurt?" not in answer


def test_the_tables_show_the_stored_cells():
    assert PAGES.section(TABLE.SECTION) == TABLE.table(CELLS)
    assert PAGES.section(TABLE.SHORT) == TABLE.short_table(CELLS)
    assert len(CELLS) == len(dp.MECHANISMS) * len(TABLE.NOMINAL) * len(TABLE.SPACES)


def test_the_evaluation_shows_the_stored_values():
    entries = json.loads(EVALUATION.VALUES.read_text())
    assert PAGES.section(EVALUATION.SECTION) == EVALUATION.section(entries)
    assert {entry["mechanism"] for entry in entries} == set(of_tokens())
    assert (ROOT / EVALUATION.IMAGE).read_text().count("<svg") == 1


def test_the_retention_bound_in_the_text():
    page = " ".join((ROOT / "docs" / "mechanisms.md").read_text("utf-8").split())
    kept = [100 * math.exp(e) / (math.exp(e) + 11_000 - 1) for e in (3, 6, 10)]
    assert [f"{each:.1f}" for each in kept] == ["0.2", "3.5", "66.7"]
    assert "0.2 % at epsilon 3, 3.5 % at 6 and 67 % at 10" in page


def test_the_mechanism_table_is_the_one_that_the_code_makes():
    assert PAGES.section("mechanisms") == markdown_table()
    assert PAGES.section(KINDS.SECTION) == KINDS.table()
    for name in dp.MECHANISMS:
        for section in ("mechanisms", TABLE.SECTION, TABLE.SHORT):
            assert f"\n| `{name}` |" in PAGES.section(section)


def test_the_default_is_ahead_at_equal_exact_epsilon():
    rows = EQUAL.stored()
    assert PAGES.section(EQUAL.SECTION) == EQUAL.table(rows)
    repaired = {"token-exponential", "custext-strict", "dyntext-strict"}
    assert {row.mechanism for row in rows} >= repaired | {DEFAULT_MECHANISM}
    for epsilon, times in ((3.0, 5.0), (6.0, 4.0), (8.0, 2.5)):
        at = {row.mechanism: row.centred for row in rows if row.epsilon == epsilon}
        own = at.pop(DEFAULT_MECHANISM)
        assert own >= times * max(value for value in at.values() if value is not None)


@pytest.fixture(scope="module")
def example():
    """The ten lines, run once: calibrates on the default space, as a user's first call does."""
    namespace = {"dp": dp}
    exec(BLOCKS[1], namespace)
    return namespace


@pytest.mark.slow
@pytest.mark.timeout(600)
class TestFullSpaces:
    def test_the_ten_lines_run_and_say_the_truth(self, example):
        release = example["release"]
        assert 9.96 < release.certificate.epsilon <= 10.0
        assert release.certificate.claimed == pytest.approx(10.0)  # NearestResponse loses nothing
        assert release.tokens_total == 11
        assert example["answer"].text == "See one about your left knee."

    def test_what_is_shown_could_have_been_drawn(self, example):
        """The words are random: outputs that the mechanism has for the tokens at their places."""
        sanitizer = example["sanitizer"]
        private = re.search(r'sanitizer\.release\("(.*)"\)', BLOCKS[1])[1]
        vocabulary = sanitizer.space.vocabulary
        rows = sanitizer.mechanism.log_probs(vocabulary.encode(private), sanitizer.space)
        assert len(SHOWN) == 1
        released = vocabulary.encode(SHOWN[0].splitlines()[1])
        assert len(released) == len(rows)
        assert np.isfinite(rows[np.arange(len(rows)), released]).all()

    def test_the_command_says_what_is_shown(self, example):
        command, _, *said = SHOWN[0].splitlines()
        result = CliRunner().invoke(app, shlex.split(command)[2:], env={"COLUMNS": "120"})
        assert set(said) <= {line.rstrip() for line in result.stderr.splitlines()}

    def test_what_survives(self):
        for epsilon in (10, 8):
            kept = dp.sanitizer(epsilon=epsilon).certificate.retention_in_english
            row = next(line for line in README.splitlines() if f"(epsilon={epsilon})` |" in line)
            assert f"| {100 * kept:.2g} % of the words of English text" in row

    def test_the_stored_cells_are_of_these_mechanisms_and_spaces(self):
        assert all(map(TABLE.is_current, CELLS))
        other = dataclasses.replace(CELLS[0], mechanism_fingerprint="another")
        assert not TABLE.is_current(other)  # and would be computed again

    def test_random_cells_are_computed_again(self):
        small, default = ([c for c in CELLS if c.space == n] for n in ("cl100k-11000", "default"))
        for cell in (*random.sample(small, 2), random.choice(default)):
            again = TABLE.compute(cell.mechanism, cell.nominal, cell.space)
            assert float(again.epsilon) == pytest.approx(float(cell.epsilon), abs=1e-6), cell
            assert again.space_fingerprint == cell.space_fingerprint

    def test_neighbours_on_the_default_space_make_sense(self):
        space = dp.default_space()
        row = dp.SanText(epsilon=40.0).log_probs([space.vocabulary.id_of("kidney")], space)[0]
        nearest = [space.vocabulary.tokens[i] for i in np.argsort(-row)[:4]]
        assert nearest[0] == "kidney"
        assert "renal" in nearest
