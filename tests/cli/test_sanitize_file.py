"""``dp-middleware sanitize-file``: options, exit codes, and where ``sanitize`` points to."""

import json

import pytest
from support.cases import over
from support.commands import WORDS, flat, run
from support.texts import CANARY

import dp_middleware as dp

DATA = "who,text\nann,the patient w1\nbob,w2\nann,\n"


@pytest.fixture
def places(tmp_path):
    source = tmp_path / "in.csv"
    source.write_text(DATA)
    return source, tmp_path / "out.csv"


def test_a_column_of_a_csv_file(places):
    result = run("sanitize-file", *places, "--column", "text", code=0)
    rows = [line.split(",") for line in places[1].read_text().splitlines()]
    assert [who for who, _ in rows] == ["who", "ann", "bob", "ann"]
    assert {*rows[1][1].split(), *rows[2][1].split()} <= {*WORDS}
    assert result.stdout == ""
    assert "texts 2, 4 tokens cost a ledger would be charged 20 nats" in flat(result.stderr)


def test_subjects_pay_and_a_dry_run_tells_how_much(places, tmp_path):
    ledger = ("--ledger", f"sqlite:///{tmp_path}/ledger.db", "--budget", "100", "--subject", "who")
    command = ("sanitize-file", *places, "-c", "text", "--json", *ledger)
    plan = json.loads(run(*command, "--dry-run", code=0).stdout)
    assert (plan["texts"], plan["subjects"], plan["dry_run"]) == (2, 2, True)
    assert not places[1].exists()
    report = json.loads(run(*command, code=0).stdout)
    assert (report["rows"], report["tokens"]) == (3, 4)
    spent = dp.PrivacyLedger(ledger[1])
    assert [spent.spent(who) for who in ("ann", "bob")] == pytest.approx([10, 10], abs=1e-6)
    assert "not there yet" in flat(run(*command, code=2).stderr)


def test_a_budget_that_is_spent_is_3_and_a_missing_column_2(places, tmp_path):
    ledger = ("--ledger", f"sqlite:///{tmp_path}/ledger.db", "--budget", "5")
    run("sanitize-file", *places, "-c", "text", *ledger, code=3)
    (tmp_path / "in.csv").write_text(f"{CANARY}\nx\n")
    assert not places[1].exists()
    refused = run("sanitize-file", *places, "-c", "txet", code=2)
    assert "among 1 columns, whose names may be text" in flat(refused.stderr)
    run("sanitize-file", *places, code=2)


def test_lines_of_text_need_no_column(tmp_path):
    (tmp_path / "in.txt").write_text("w1 w2\nw3\n")
    run("sanitize-file", tmp_path / "in.txt", tmp_path / "out.txt", code=0)
    assert [len(line.split()) for line in (tmp_path / "out.txt").read_text().splitlines()] == [2, 1]


@over("suffix", ["csv", "TSV", "jsonl", "parquet"])
def test_sanitize_eats_no_delimiters(tmp_path, suffix):
    path = tmp_path / f"x.{suffix}"
    path.write_text(CANARY)
    refused = run("sanitize", "--file", path, code=2)
    assert "dp-middleware sanitize-file IN OUT" in flat(refused.stderr)
