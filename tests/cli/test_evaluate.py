"""``dp-middleware evaluate``: what is shown, written and refused."""

import json
from pathlib import Path

import pytest
from support.commands import flat, run
from support.texts import CANARY

pytestmark = pytest.mark.usefixtures("letters")


@pytest.fixture(autouse=True)
def cl100k(monkeypatch, toy):
    monkeypatch.setattr("dp_middleware.cli.options.space_of", lambda name: toy)


def evaluated(tmp_path, *arguments):
    data = tmp_path / "notes.txt"
    data.write_text(f"the patient {CANARY} w1\nw2 w3 the\n")
    light = ("--metric", "rouge-l", "--metric", "retention", "--attack", "bayes")
    options = ("-m", "token-exponential", "-m", "custext", "-e", "2", *light, "--out")
    return run("evaluate", data, *options, tmp_path / "out", *arguments, code=0)


def test_evaluate_shows_a_line_each_and_writes_three_files(tmp_path):
    told = flat(evaluated(tmp_path).stdout)
    assert "token-exponential" in told
    assert " inf " in told  # custext
    assert f"6 rows: {tmp_path / 'out' / 'table.csv'}" in told
    names = {file.name for file in (tmp_path / "out").iterdir() if file.is_file()}
    assert names == {"table.csv", "table.json", "table.parquet"}
    assert CANARY not in (tmp_path / "out" / "table.csv").read_text()


@pytest.mark.parametrize("nominal", [False, True])
def test_epsilon_is_the_certified_one_unless_said_otherwise(tmp_path, nominal):
    evaluated(tmp_path, *["--nominal"] * nominal)
    rows = json.loads((tmp_path / "out" / "table.json").read_text())
    (row, *_) = (row for row in rows if row["mechanism"] == "token-exponential")
    asked, other = ("nominal", "exact") if nominal else ("exact", "nominal")
    assert row["asked"] == asked
    assert 2 - 2e-3 < row[f"{asked}_epsilon"] <= 2
    assert abs(row[f"{other}_epsilon"] - 2) > 1e-2


def test_evaluate_as_json(tmp_path):
    found = json.loads(evaluated(tmp_path, "--json").stdout)
    assert (found["rows"], found["skipped"], found["data"]) == (6, 0, ["notes"])
    assert all(Path(file).stat().st_size > 100 for file in found["files"])


def test_an_evaluation_without_a_result_fails_with_the_reason(tmp_path):
    data = tmp_path / "notes.txt"
    data.write_text("the patient w1\n")
    options = ("-m", "cape", "-e", "2", "--metric", "retention", "--attack", "bayes")
    result = run("evaluate", data, *options, "--out", tmp_path / "out", code=2)
    assert "got none" in result.stderr
