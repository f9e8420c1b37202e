"""``dp-middleware sanitize-file`` and ``restore-file``: a file there and back by commands."""

import csv
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
    said = flat(result.stderr)
    assert "texts 2 tokens 4" in said
    assert "a ledger would be charged 20 nats" in said


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


TICKETS = """id,name,mail,notes
1,Maria Lopez,maria@acme.test,"Maria asks for ORD-77812, again"
2,Dr. Jan de Vries,jan@acme.test,nothing
3,maria lopez,maria@acme.test,
"""
NAMED = ("-c", "name=person", "-c", "mail=email", "-c", "notes")


@pytest.fixture
def tickets(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    (tmp_path / "in.csv").write_text(TICKETS)
    return tmp_path / "in.csv", tmp_path / "out.csv"


def test_there_and_back(tickets, tmp_path):
    command = ("sanitize-file", *tickets, "--pseudonyms", *NAMED)
    report = flat(run(*command, "--pattern", r"ORD-\d+=id", code=0).stderr)
    assert "7 person, 3 email, 1 id unchanged 0 name, 0 mail, 1 notes" in report
    rows = list(csv.reader(tickets[1].read_text().splitlines()))
    assert [row[0] for row in rows] == ["id", "1", "2", "3"]
    assert rows[1][1].lower() == rows[3][1]
    assert rows[1][3].startswith(rows[1][1].split()[0])
    low = tickets[1].read_text().lower()
    assert not [word for word in ("maria lopez", "vries", "ord-77812", "@acme") if word in low]
    kept = (tmp_path / "out.csv.mapping").read_bytes()
    assert b"Maria Lopez" not in kept
    restored = run("restore-file", tickets[1], tmp_path / "back.csv", *NAMED, code=0)
    assert "7 texts restored" in restored.stderr
    assert (tmp_path / "back.csv").read_text() == TICKETS
    answer = ("pseudonymize", "--restore", "--mapping", tmp_path / "out.csv.mapping", rows[1][1])
    assert run(*answer, code=0).stdout == "Maria Lopez\n"


def test_rows_apart_have_no_mapping(tickets, tmp_path):
    command = ("sanitize-file", *tickets, "--pseudonyms", "-c", "mail=email", "--keep-rows-apart")
    report = json.loads(run(*command, "--json", code=0).stdout)
    assert (report["rows"], report["replaced"]) == (3, {})
    assert not (tmp_path / "out.csv.mapping").exists()
    run("restore-file", tickets[1], tmp_path / "back.csv", "-c", "mail", code=2)


def test_files_with_one_key_agree_without_a_mapping(tickets, tmp_path):
    keyed = ("--pseudonyms", "-c", "mail=email", "--keep-rows-apart", "--keyed", "--key")
    files = [(tmp_path / name, key) for name, key in (("a", "x"), ("b", "x"), ("c", "y"))]
    for path, key in files:
        out = path.with_suffix(".csv")
        run("sanitize-file", tickets[0], out, *keyed, tmp_path / key, code=0)
    one, two, other = (path.with_suffix(".csv").read_text() for path, _ in files)
    assert one == two != other
    mails = [row[2] for row in csv.reader(one.splitlines())][1:]
    assert mails[0] == mails[2] != mails[1]


@over(
    "options, said",
    [
        (["--pseudonyms", "-c", "name=persn"], "expected a kind of 'name' out of person"),
        (["--pseudonyms", "-c", "nmae=person"], "got 0 among 4 columns"),
        (["--pseudonyms", "-c", "name", "-c", "name=person"], "expected each column once"),
        (["--pseudonyms", "-c", "name", "--epsilon", "3"], "expected no --epsilon"),
        (["--pseudonyms", "-c", "name", "--pattern", f"({CANARY}=id"], "a regular expression"),
        (["--pseudonyms", "-c", "name", "--pattern", CANARY], "a regular expression"),
        (["-c", "name", "--pattern", "a=id"], "expected --pseudonyms with --pattern"),
    ],
)
def test_what_does_not_fit_is_refused(tickets, options, said):
    refused = flat(run("sanitize-file", *tickets, *options, code=2).stderr)
    assert said in refused
    assert CANARY not in refused
    assert not tickets[1].exists()
