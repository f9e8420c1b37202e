"""``dp-middleware evaluate``: what is shown, written and refused."""

import json
from pathlib import Path

import pytest
from support.commands import flat, refused, run
from support.texts import CANARY

pytest.importorskip("pandas", reason="needs the eval extra")
pytestmark = pytest.mark.usefixtures("letters")


@pytest.fixture(autouse=True)
def cl100k(monkeypatch, toy):
    """Thirty words in place of it."""
    monkeypatch.setattr("dp_middleware.cli.evaluate.space_of", lambda name: toy)


LIGHT = ("--metric", "rouge-l", "--metric", "retention", "--attack", "bayes")


def evaluated(tmp_path, *arguments):
    pytest.importorskip("rouge_score", reason="needs the eval extra")
    data = tmp_path / "notes.txt"
    data.write_text(f"the patient {CANARY} w1\nw2 w3 the\n")
    options = ("-m", "token-exponential", "-m", "custext", "-e", "2", *LIGHT)
    return run("evaluate", str(data), *options, "--out", str(tmp_path / "out"), *arguments)


def test_evaluate_shows_a_line_each_and_writes_three_files(tmp_path):
    result = evaluated(tmp_path)
    assert result.exit_code == 0, result.output
    told = flat(result.stdout)
    assert "token-exponential" in told
    assert "infinite" in told  # custext
    assert f"6 rows: {tmp_path / 'out' / 'table.csv'}" in told
    names = {file.name for file in (tmp_path / "out").iterdir() if file.is_file()}
    assert names == {"table.csv", "table.json", "table.parquet"}
    assert CANARY not in (tmp_path / "out" / "table.csv").read_text()


@pytest.mark.parametrize("nominal", [False, True])
def test_epsilon_is_the_certified_one_unless_said_otherwise(tmp_path, nominal):
    assert evaluated(tmp_path, *(["--nominal"] if nominal else [])).exit_code == 0
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


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--out", "x"),
        (CANARY,),
        (CANARY, "--out", "x", "--attack", "none-such"),
        (CANARY, "--out", "x", "--metric", "bayes"),
        (CANARY, "--out", "x", "-m", "none-such"),
        (CANARY, "--out", "x", "-e", "-1"),
        (f"/no/such/{CANARY}.csv", "--out", "x"),
        (CANARY, "--out", "x", "--chat-model", "none-such"),
    ],
)
def test_bad_usage_is_2_on_one_line(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = refused("evaluate", *arguments).exit_code
    assert code in ((2, 5) if CANARY in arguments else (2,))


def test_an_evaluation_without_a_result_fails_with_the_reason(tmp_path):
    data = tmp_path / "notes.txt"
    data.write_text("the patient w1\n")
    options = ("-m", "cape", "-e", "2", "--metric", "retention", "--attack", "bayes")
    result = run("evaluate", str(data), *options, "--out", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert "got none" in result.stderr
