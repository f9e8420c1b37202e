"""``dp-middleware pseudonymize``: what goes to which stream, what comes back, what is refused."""

import json
import re
import sqlite3
import stat

import pytest
from support.commands import CERTIFICATE, flat, run
from support.entities import CONTRACT, ENTITIES, HIDDEN, detector
from support.texts import CANARY

from dp_middleware.cli.pseudonymize import pseudonymize as call
from dp_middleware.errors import ParameterError
from dp_middleware.pseudonyms import PseudonymSession, pseudonyms

PRIVATE = (*HIDDEN, "MIRELA TAMBURI", "Mirela", "Acme")


@pytest.fixture(autouse=True)
def asked(monkeypatch):
    """The kinds that a detector was asked for, each time one was made."""
    kinds = []

    def default(wanted=None, *_):
        kinds.append(wanted)
        return detector(ENTITIES | {CANARY: "person"})

    monkeypatch.setattr(pseudonyms, "default", default)
    return kinds


@pytest.fixture
def mapping(tmp_path):
    return tmp_path / "mapping.db"


def pseudonymize(*arguments, **options):
    return run("pseudonymize", *arguments, **options)


def restored(answer, mapping, *arguments, code=0):
    return pseudonymize("--restore", "--mapping", mapping, *arguments, stdin=answer, code=code)


def test_the_summary_is_on_stderr_and_true():
    said = flat(pseudonymize(CONTRACT, code=0).stderr)
    assert "epsilon 1 per value (exact); 0 per value of all kinds but age, amount, number" in said
    assert "guarantee one value replaced by another of its public kind and shape" in said
    assert re.search(r"as it was \d+ of \d+ words and signs", said)
    assert "what the detector does not find is public and goes out as it is" in said
    assert re.search(r"spends [1-9] nats on this text; there is no ledger: nothing is", said)
    assert "kept of each amount: currency, number of digits" in said
    assert "budget" not in said
    names = flat(pseudonymize("Mirela Tamburi in Berlin", code=0).stderr)
    assert "epsilon 0 per value (exact) guarantee" in names
    assert "as it was 1 of 4 words and signs" in names


def test_json():
    document = json.loads(pseudonymize("Mirela Tamburi in Berlin", "--json", code=0).stdout)
    numbers = {"tokens_total", "tokens_verbatim", "spent", "charged"}
    assert set(document) == {"text", "certificate", *numbers}
    assert (document["spent"], document["charged"]) == (0, 0)
    assert re.fullmatch(r"[\w-]+ [\w-]+ in [\w-]+", document["text"])
    assert document["tokens_verbatim"] == 1
    assert set(document["certificate"]) >= CERTIFICATE
    assert document["certificate"]["epsilon"] == 0


def test_a_text_in_which_nothing_is_found_is_refused():
    result = pseudonymize("nothing in here", code=3)
    assert result.stdout == ""
    assert "nothing in here" not in result.output
    assert "--pass-empty" in result.stderr
    assert pseudonymize("nothing", "--pass-empty", code=0).stdout == "nothing\n"
    error = json.loads(pseudonymize("nothing in here", "--json", code=3).stdout)["error"]
    assert error["type"] == "NothingFound"


def test_a_text_in_a_language_that_is_not_known_is_refused():
    text = "私の名前は田中太郎です。"
    error = json.loads(pseudonymize(text, "--json", "--pass-empty", code=3).stdout)["error"]
    assert error["type"] == "UnknownLanguage"
    assert "in Japanese" in error["message"]
    assert "--on-language pass" in error["message"]
    assert text not in error["message"]
    result = pseudonymize(text, "--pass-empty", "--on-language", "pass", code=0)
    assert result.stdout == f"{text}\n"
    assert "public this text is in Japanese" in flat(result.stderr)
    said = flat(pseudonymize("x", "--on-language", CANARY, code=2).stderr)
    assert "one of refuse, warn, pass" in said


def test_kinds(asked):
    text = pseudonymize("Mirela Tamburi in Berlin", "--kind", "PERSON", "--kind", "email", code=0)
    assert text.stdout.endswith(" in Berlin\n")
    assert "Mirela Tamburi" not in text.stdout
    assert asked == [{"person", "email"}]
    for wrong in (CANARY, "", "persons"):
        result = pseudonymize("x", "--kind", wrong, "--budget", "1", code=2)
        assert "expected a kind with --kind, one of address, age" in flat(result.stderr)
    assert "did you mean person?" in flat(result.stderr)
    assert len(asked) == 1


@pytest.mark.slow
def test_the_rest_is_perturbed():
    result = pseudonymize(f"the patient {CANARY}", "--perturb", "2", code=0)
    words, said = result.stdout.split(), flat(result.stderr)
    assert len(words) == 3
    assert "epsilon 2 per value, or token of the rest (exact)" in said
    assert "goes out as it is" not in said
    assert "as it was 0 of 3 tokens" in said
    assert pseudonymize("w1", "--perturb", "-1", code=2).stdout == ""


def test_an_answer_gets_its_originals_back(mapping, tmp_path, asked):
    released = pseudonymize(CONTRACT, "--mapping", mapping, code=0)
    assert "--restore puts them back" in flat(released.stderr)
    back = restored(released.stdout, mapping)
    assert (back.stdout, back.stderr) == (CONTRACT + "\n", "")
    [key] = (tmp_path / "data").rglob("*.key")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(mapping.stat().st_mode) == 0o600
    stored = mapping.read_bytes()
    assert not [value for value in PRIVATE if value.encode() in stored]
    as_json = restored(released.stdout, mapping, "--json", "--budget", "1").stdout
    assert json.loads(as_json) == {"text": CONTRACT + "\n"}
    assert len(asked) == 1  # nothing is detected on the way back, nor charged
    assert run("ledger", "show", code=2).stdout == ""


def test_the_same_value_has_the_same_pseudonym_in_a_conversation(mapping):
    def released(*options):
        return pseudonymize("Mirela Tamburi", "--mapping", mapping, *options, code=0).stdout

    one, two = released(), released()
    assert one == two
    apart = released("--conversation", "b")
    assert restored(apart, mapping, "--conversation", "b").stdout == "Mirela Tamburi\n"
    assert {released("--conversation", str(n)) for n in range(5)} != {one}
    other = restored(one, mapping, "--conversation", "c")
    assert other.stdout == one
    assert "note: nothing is kept for this conversation" in other.stderr


def test_a_key_of_ones_own(mapping, tmp_path):
    key = tmp_path / "own.key"
    for place in (mapping, tmp_path / "second.db"):
        released = pseudonymize("Berlin", "--mapping", place, "--key", key, code=0).stdout
        assert restored(released, place, "--key", key).stdout == "Berlin\n"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert len(key.read_bytes()) == 32
    assert not (tmp_path / "data").exists()


def one_line(result):
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("error: expected ")
    return result.stderr


def test_a_wrong_or_missing_key(mapping, tmp_path):
    pseudonymize(CANARY, "--mapping", mapping, code=0)
    absent, short, other = (tmp_path / name for name in ("absent", "short", "other"))
    short.write_bytes(b"k" * 31)
    other.write_bytes(b"k" * 32)
    for key, said in ((absent, "where it is with --key"), (short, "31 bytes"), (other, "another")):
        assert said in one_line(restored("x", mapping, "--key", key, code=2))
    wrong = pseudonymize(CANARY, "--mapping", mapping, "--key", other, code=2)
    assert "written with, got another" in one_line(wrong)
    new = ("--mapping", tmp_path / "new.db", "--key", tmp_path / "no" / "folder")
    assert "a new key" in one_line(pseudonymize("Berlin", *new, code=2))


def test_a_mapping_that_is_none(mapping, tmp_path):
    for options in (("--restore",), ("--key", "k")):
        assert "--mapping" in one_line(pseudonymize("Berlin", *options, code=2))
    assert "got none" in one_line(restored("x", mapping, code=2))
    assert not mapping.exists()
    assert not (tmp_path / "data").exists()
    pseudonymize("Berlin", "--mapping", mapping, code=0)
    mapping.write_text("no database, but a text of the same name\n" * 100)
    assert "got DatabaseError" in one_line(restored("x", mapping, code=2))
    for place, said in ((tmp_path, "Is a"), (tmp_path / "no" / "folder", "No such file or")):
        refused = pseudonymize("Berlin", "--mapping", place, code=2)
        assert f"got {said} directory" in one_line(refused)


def test_what_a_database_says_does_not_stay_behind_the_error(mapping, monkeypatch):
    def fail(session, *text, **options):
        raise sqlite3.OperationalError(f"near {text}")

    pseudonymize(CANARY, "--mapping", mapping, code=0)
    for name in ("release_once", "restore", "mapping"):
        with monkeypatch.context() as patch:
            patch.setattr(PseudonymSession, name, fail)
            with pytest.raises(ParameterError, match="got OperationalError") as failure:
                call([CANARY], restore=name != "release_once", mapping=mapping)
        assert failure.value.__context__ is None


def test_the_detector_of_the_package(monkeypatch, mapping):
    monkeypatch.undo()
    monkeypatch.setenv("XDG_DATA_HOME", str(mapping.parent))
    text = "Barack Obama of London paid $199,500.00 on May 4, 2024: write to barack@obama.com."
    released = pseudonymize(text, "--mapping", mapping, code=0).stdout
    hidden = ("Barack", "Obama", "London", "199,500.00", "obama.com")  # in none of Faker's lists
    assert not [value for value in hidden if value in released]
    assert restored(released, mapping).stdout == text + "\n"


def test_laws_and_lists(tmp_path):
    common = pseudonymize("Mirela Tamburi saw Xaver in 1999.", "--common-words", code=0)
    assert re.fullmatch(r"[\w-]+ [\w-]+ saw WORD_\d+ in WORD_\d+\.\n", common.stdout)
    assert "nothing leaves but " in flat(common.stderr)
    allowed = pseudonymize("Mirela Tamburi lives in Berlin.", "--allow", "Berlin", code=0)
    assert allowed.stdout.endswith(" lives in Berlin.\n")
    assert "what allow= names is public" in flat(allowed.stderr)
    own, other = ["--keyed", "--key", tmp_path / "own"], ["--keyed", "--key", tmp_path / "other"]
    out = [pseudonymize(CONTRACT, *options).stdout for options in (own, own, other)]
    assert out[0] == out[1] != out[2]  # one key, one text, without a mapping
    assert "--key FILE" in one_line(pseudonymize(CONTRACT, "--keyed", code=2))
