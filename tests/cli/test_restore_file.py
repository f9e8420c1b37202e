"""``sanitize-file --pseudonyms`` and ``restore-file``: a file there and back by two commands."""

import csv
import json

import pytest
from support.cases import over
from support.commands import flat, run
from support.texts import CANARY

DATA = """id,name,mail,notes
1,Maria Lopez,maria@acme.test,"Maria asks for ORD-77812, again"
2,Dr. Jan de Vries,jan@acme.test,nothing
3,maria lopez,maria@acme.test,
"""
NAMED = ("--columns", "name=person,mail=email", "-c", "notes")


@pytest.fixture
def places(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    (tmp_path / "in.csv").write_text(DATA)
    return tmp_path / "in.csv", tmp_path / "out.csv"


def test_there_and_back(places, tmp_path):
    command = ("sanitize-file", *places, "--pseudonyms", *NAMED)
    report = flat(run(*command, "--pattern", r"ORD-\d+=id", code=0).stderr)
    assert "7 person, 3 email, 1 id as they were 1 notes, 0 name, 0 mail" in report
    rows = list(csv.reader(places[1].read_text().splitlines()))
    assert [row[0] for row in rows] == ["id", "1", "2", "3"]
    assert rows[1][1].lower() == rows[3][1]
    assert rows[1][3].startswith(rows[1][1].split()[0])
    low = places[1].read_text().lower()
    assert not [word for word in ("maria lopez", "vries", "ord-77812", "@acme") if word in low]
    kept = (tmp_path / "out.csv.mapping").read_bytes()
    assert b"Maria Lopez" not in kept
    restored = run("restore-file", places[1], tmp_path / "back.csv", *NAMED, code=0)
    assert "7 texts restored" in restored.stderr
    assert (tmp_path / "back.csv").read_text() == DATA
    answer = ("pseudonymize", "--restore", "--mapping", tmp_path / "out.csv.mapping", rows[1][1])
    assert run(*answer, code=0).stdout == "Maria Lopez\n"


def test_rows_apart_have_no_mapping(places, tmp_path):
    command = ("sanitize-file", *places, "--pseudonyms", "-c", "mail=email", "--keep-rows-apart")
    report = json.loads(run(*command, "--json", code=0).stdout)
    assert (report["rows"], report["replaced"]) == (3, {})
    assert not (tmp_path / "out.csv.mapping").exists()
    run("restore-file", places[1], tmp_path / "back.csv", "-c", "mail", code=2)


def test_files_with_one_key_agree_without_a_mapping(places, tmp_path):
    keyed = ("--pseudonyms", "-c", "mail=email", "--keep-rows-apart", "--keyed", "--key")
    files = [(tmp_path / name, key) for name, key in (("a", "x"), ("b", "x"), ("c", "y"))]
    for path, key in files:
        out = path.with_suffix(".csv")
        run("sanitize-file", places[0], out, *keyed, tmp_path / key, code=0)
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
def test_what_does_not_fit_is_refused(places, options, said):
    refused = flat(run("sanitize-file", *places, *options, code=2).stderr)
    assert said in refused
    assert CANARY not in refused
    assert not places[1].exists()
