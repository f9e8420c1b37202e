"""The scripts of benchmarks/papers: their tables, options and prompts."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import dp_middleware as dp

PAPERS = Path(__file__).parents[2] / "benchmarks" / "papers"


@pytest.fixture(scope="module", autouse=True)
def scripts():
    """Scripts import each other as they do when they run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PAPERS))
        yield
        for name in [path.stem for path in PAPERS.glob("*.py")]:
            sys.modules.pop(name, None)


def test_a_figure_stands_beside_the_papers():
    import common

    rows = [
        common.Row(measured="privacy, k = 1", paper="> 90 %", nominal="95 %", difference="A | B."),
        common.Row(measured="diversity", exact="0.8", difference="C."),
    ]
    assert common.side_by_side(rows).splitlines() == [
        "| measured | paper | ours, nominal epsilon | ours, exact epsilon | what differs |",
        "| --- | --- | --- | --- | --- |",
        "| privacy, k = 1 | > 90 % | 95 % | - | A \\| B. |",
        "| diversity | not at hand | - | 0.8 | C. |",
    ]


def test_a_shape_is_reproduced_or_not():
    import common

    shapes = [
        common.Shape(claim="a", holds=True, because="1 > 0"),
        common.Shape(claim="b", holds=False, because="0 < 1"),
        common.Shape(claim="c", holds=None, because="no model"),
    ]
    assert [line.split(" | ")[1] for line in common.verdicts(shapes).splitlines()[2:]] == [
        "reproduced",
        "not reproduced",
        "cannot be told",
    ]


def test_a_prompt_from_a_file(tmp_path):
    import common

    (tmp_path / "mine.txt").write_text("Go on: $text")
    prompts = {"remote": "Continue: $text", "local": "$text"}
    made = common.templates(prompts, [f"remote={tmp_path / 'mine.txt'}"])
    assert made["remote"].substitute(text="a {brace} and $5") == "Go on: a {brace} and $5"
    assert made["local"].substitute(text="x") == "x"
    with pytest.raises(SystemExit, match="NAME in"):
        common.templates(prompts, ["other=file"])


def test_sizes_exclude_each_other(capsys):
    import common

    options = common.parser("A script.\n\nMore.", {"remote": ""}).parse_args(["data", "--full"])
    assert options.full
    assert options.prompt == []
    with pytest.raises(SystemExit):
        common.parser("A script.").parse_args(["data", "--full", "--quick"])


def test_a_report_goes_into_its_section(tmp_path, monkeypatch, capsys):
    import common

    page = tmp_path / "papers.md"
    page.write_text("A\n<!-- paper x: begin -->\nold\n<!-- paper x: end -->\nB\n")
    monkeypatch.setattr(common.pages, "PAGES", (page,))
    options = common.parser("A script.").parse_args(["data", "--model", "/some/folder", "--write"])
    report = common.Report("x", options)
    report.add("a table")
    report.close()
    command = "`python benchmarks/papers/x.py DATA --quick --model folder`: 0 minutes."
    section = f"<!-- paper x: begin -->\na table\n\n{command}\n<!-- paper x: end -->"
    assert page.read_text() == f"A\n{section}\nB\n"


def test_what_cannot_be_calibrated_has_no_column():
    import common

    space = dp.EmbeddingSpace(dp.Vocabulary(["a", "b", "c"]), np.eye(3))
    assert common.calibrated(dp.CusTextAggressive(epsilon=3, candidates=2), space, 3.0) is None
    exact = common.calibrated(dp.TokenExponential(epsilon=3), space, 3.0)
    assert dp.certify(exact, space).epsilon == pytest.approx(3.0, abs=0.01)


def test_the_page_has_a_section_for_every_script():
    import common

    for name in ("inferdpt", "dyntext", "cape", "stencil", "privrewrite"):
        assert common.pages.section(f"paper {name}")


@pytest.mark.slow
def test_a_local_model_writes_the_same_alone_and_with_others(tmp_path):
    import writer
    from support.chat_models import save_llama

    save_llama(tmp_path, length=64)
    write = writer.open_writer(str(tmp_path), temperature=0.0)
    prompts = ["w1 w2 w3", "w4", "w5 w5 w6 w7 w8"] * 8
    together = write(prompts, 6)
    assert together == [write([prompt], 6)[0] for prompt in prompts]
    sampled = writer.open_writer(str(tmp_path), temperature=1.0)
    assert sampled(prompts, 6) == sampled(prompts, 6)
    assert len(set(sampled(["w4"] * 8, 6))) > 1


def test_a_server_gets_temperature_and_length(monkeypatch):
    import writer

    from dp_middleware.testing import OpenAIServer

    pytest.importorskip("openai", reason="needs the extra openai")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with OpenAIServer(reply=" an answer ") as server:
        write = writer.open_writer(f"openai:some-model@{server.url}", temperature=0.5)
        assert write(["one", "two"], 100) == ["an answer"] * 2
    bodies = sorted(server.requests, key=lambda body: body["messages"][0]["content"])
    assert [body["messages"][0]["content"] for body in bodies] == ["one", "two"]
    assert {(b["model"], b["temperature"], b["max_tokens"]) for b in bodies} == {
        ("some-model", 0.5, 100)
    }
