"""A file with the pseudonyms of one session: the same in all rows, and every text comes back."""

import csv
import io
import json
import os
import random
import re
import signal
import time
from threading import Thread

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st
from support.cases import over
from support.entities import CONTRACT, HIDDEN, detector
from support.texts import CANARY, TORTURE

import dp_middleware as dp
from dp_middleware.corpora import restore_file, sanitize_file
from dp_middleware.errors import BudgetExhausted, ParameterError
from dp_middleware.pseudonyms.kinds import Kind

KEY = b"k" * 32
KINDS = {"name": "person", "mail": "email", "phone": "phone", "notes": None}
FIELDS = ("id", *KINDS)
ROWS = [
    ("1", "Mirela Tamburi", "mirela.tamburi@acme.test", "+1 415 555 2671", CONTRACT),
    ("2", "Wim de Groot", "wim@groot.test", "(020) 555-0199", 'Wim said "no",\nthen left 🙂'),
    ("3", "MIRELA TAMBURI", "", "+1 415 555 2671", "你好 Mirela, שלום"),
    ("4", "mIrela tAmburi", "mirela.tamburi@acme.test", "", ""),
]


def found(text):
    """As of a detector, which workers can be sent."""
    return detector()(text)


def session(folder, **options):
    options = {"detector": found, "on_empty": "pass"} | options
    return dp.Pseudonyms(**options).session(key=KEY, memo=folder / "mapping", expires=float("inf"))


def table(rows):
    text = io.StringIO()
    csv.writer(text).writerows([FIELDS, *rows])
    return text.getvalue().encode()


def there(folder, data, columns=KINDS, suffix=".csv", using=None, **options):
    source, target = folder / f"in{suffix}", folder / f"out{suffix}"
    source.write_bytes(data)
    target.unlink(missing_ok=True)
    report = sanitize_file(source, target, columns, using or session(folder), **options)
    return target.read_bytes(), report


def back(folder, columns=KINDS, suffix=".csv", using=None):
    """What is restored, by another process's session, which detects nothing."""
    target = folder / f"back{suffix}"
    target.unlink(missing_ok=True)
    restore_file(folder / f"out{suffix}", target, columns, using or session(folder, detector=list))
    return target.read_bytes()


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_person_has_one_name_in_all_rows_and_everything_comes_back(tmp_path, workers):
    data = table(ROWS * 3)
    out, report = there(tmp_path, data, workers=workers, chunk_rows=2)
    assert back(tmp_path) == data
    assert not [value for value in (*HIDDEN, "Mirela", "Wim", "groot") if value.encode() in out]
    rows = list(csv.reader(io.StringIO(out.decode(), newline="")))[1:]
    assert [row[0] for row in rows] == [row[0] for row in ROWS * 3]
    assert rows[:4] == rows[4:8] == rows[8:]
    assert rows[0][1].lower() == rows[2][1].lower() == rows[3][1].lower()
    assert rows[2][1].isupper()
    assert rows[1][4].startswith(rows[1][1].split()[0])  # of the column, in a text of no detector
    assert report.replaced["email"] >= 6
    assert report.unchanged == {"name": 0, "mail": 0, "phone": 0, "notes": 0}
    assert (tmp_path / "back.csv").stat().st_mode & 0o777 == 0o600


def test_a_name_of_a_later_row_is_replaced_in_the_texts_before(tmp_path):
    rows = [("1", "", "", "", "Zephyrine called"), ("2", "Zephyrine", "", "", "")]
    out, report = there(tmp_path, table(rows), chunk_rows=1)
    assert b"Zephyrine" not in out
    assert report.unchanged["notes"] == 0


class Berta(Kind):
    """Draws one name."""

    name = "person"
    keeps = "nothing"

    def _drawn(self, key, shape, free, draws):
        return "Berta" if free("Berta") else None


def test_a_public_word_that_is_drawn_later_comes_back_as_it_was(tmp_path):
    rows = [("1", "", "", "", "Berta sings"), ("2", "", "", "", "Mirela Tamburi sings")]
    using = session(tmp_path, kinds=[Berta()])
    out, _ = there(tmp_path, table(rows), using=using, chunk_rows=1)
    assert out.count(b"Berta sings") == 2
    assert back(tmp_path) == table(rows)


@over("text", TORTURE.values())
def test_any_text_comes_back(tmp_path_factory, text):
    folder, text = tmp_path_factory.mktemp("any"), text.encode("utf-8", "ignore").decode()
    texts = [text, f"{text} Mirela Tamburi {text}", f"Mirela Tamburi{text}", text]
    arrow = pa.table({"text": texts, "n": [1, 2, 3, 4]})
    pq.write_table(arrow, folder / "in.parquet")
    there(folder, (folder / "in.parquet").read_bytes(), "text", ".parquet")
    back(folder, "text", ".parquet")
    assert pq.read_table(folder / "back.parquet") == arrow
    records = [json.dumps({"text": each}, ensure_ascii=False) for each in texts]
    lines = [f"{''.join(each.split())} Berlin" for each in texts]
    for suffix, rows in ((".jsonl", records), (".txt", lines)):
        data = "".join(f"{line}\n" for line in rows).encode()
        there(folder, data, "text", suffix)
        assert back(folder, "text", suffix) == data


WORDS = ("Mirela", "MIRELA", "mirela", "mIRELA", "Tamburi", "Berlin", "berlin", "Garcia", "Smith")
TEXTS = st.lists(st.sampled_from([*WORDS, ",", '"', "\n", " ", "🙂", "{", "\\n", "ß"]), max_size=8)


@given(cells=st.lists(st.tuples(TEXTS, TEXTS), max_size=6))
def test_texts_in_any_capitals_come_back(tmp_path_factory, cells):
    folder = tmp_path_factory.mktemp("cells")
    rows = [("", "".join(name), "", "", "".join(notes)) for name, notes in cells]
    using = dp.Pseudonyms(detector(dict.fromkeys(WORDS[4:6], "place")), on_empty="pass").session()
    there(folder, table(rows), using=using, chunk_rows=2)
    restored = csv.reader(io.StringIO(back(folder, using=using).decode(), newline=""))
    assert list(restored) == [list(FIELDS), *map(list, rows)]


def test_values_that_stay_near_are_charged_once_for_all_rows(tmp_path):
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path}/ledger.db", budget=1.5)
    using = session(tmp_path, ledger=ledger, subject="ann")
    _, report = there(tmp_path, table([ROWS[0]] * 5), using=using, chunk_rows=1)
    assert ledger.spent("ann") == pytest.approx(report.epsilon) == pytest.approx(1.0)
    more = table([("9", "", "", "", "$12,500.00 and $99.00")])
    other = session(tmp_path, ledger=ledger, subject="ann", detector=detector({"$99.00": "amount"}))
    with pytest.raises(BudgetExhausted):
        there(tmp_path, more, using=other)


def test_wrong_columns_kinds_and_mappings_are_refused(tmp_path):
    data = table([(CANARY, *row[1:]) for row in ROWS])
    for columns in ({"mial": "email"}, {"name": "persn"}):
        with pytest.raises(ParameterError) as error:
            there(tmp_path, data, columns)
        assert CANARY not in str(error.value)
    with pytest.raises(ParameterError, match="with pseudonyms alone"):
        there(tmp_path, data, {"name": "person"}, using=dp.sanitizer(10))
    there(tmp_path, data)
    (tmp_path / "mapping").unlink()
    with pytest.raises(ParameterError, match="mapping of this file"):
        back(tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_kills_lose_nothing_change_no_pseudonym_and_leave_no_text(tmp_path):
    names = [f"{CANARY}{chr(97 + k % 26)}{chr(97 + k // 26)}" for k in range(300)]
    notes = [f"{name} and {names[k - 1]}" for k, name in enumerate(names)]
    data = table([(str(k), names[k], "", "", note) for k, note in enumerate(notes)])
    (tmp_path / "in.csv").write_bytes(data)
    folder, clock = tmp_path / ".out.csv.parts", random.Random(35)

    def work():
        places = tmp_path / "in.csv", tmp_path / "out.csv"
        sanitize_file(*places, KINDS, session(tmp_path), chunk_rows=5)

    def parts():
        return {path.name: path.read_bytes() for path in folder.glob("*.arrow")}

    def die(enough, late):
        while len(parts()) < enough:
            time.sleep(0.001)
        time.sleep(late)
        os.kill(os.getpid(), signal.SIGKILL)

    drawn: dict[str, str] = {}
    released: dict[str, bytes] = {}
    for enough in range(0, 40, 4):
        pid = os.fork()
        if not pid:
            try:
                Thread(target=die, args=(enough, clock.uniform(0, 0.01))).start()
                work()
            finally:
                os._exit(0)
        assert os.waitpid(pid, 0)[1] == signal.SIGKILL
        if (tmp_path / "mapping").exists():
            known = session(tmp_path).mapping()
            assert drawn.items() <= known.items()
            drawn = known
        assert released.items() <= parts().items()
        released = parts()
        others = {path for path in tmp_path.rglob("*") if path.is_file()} - {tmp_path / "in.csv"}
        assert not [path for path in others if CANARY.encode() in path.read_bytes()]
    work()
    assert drawn.items() <= session(tmp_path).mapping().items()
    assert CANARY.encode() not in (tmp_path / "out.csv").read_bytes()
    assert back(tmp_path) == data


def test_a_run_goes_on_with_the_same_options_only(tmp_path):
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_bytes(table(ROWS))

    def stop(done, total):
        raise KeyboardInterrupt

    def go(using, kinds=KINDS, progress=lambda *_: None):
        return sanitize_file(source, target, kinds, using, chunk_rows=1, progress=progress)

    pattern = {"also": {re.compile("ORD-[0-9]"): "id", "Falcon": "project"}}
    other = {"also": {re.compile("ORD-[0-9]+"): "id", "Falcon": "project"}}
    with pytest.raises(KeyboardInterrupt):
        go(session(tmp_path, **pattern), progress=stop)
    note = (tmp_path / ".out.csv.parts" / "job.json").read_bytes()
    for changed in (
        (session(tmp_path, **other),),
        (session(tmp_path, **pattern, allow=["Groot"]),),
        (session(tmp_path, **pattern).sanitizer,),  # rows apart
        (session(tmp_path, **pattern), {**KINDS, "phone": None}),
    ):
        with pytest.raises(ParameterError, match="of the run that is to be continued"):
            go(*changed)
        assert (tmp_path / ".out.csv.parts" / "job.json").read_bytes() == note
    kept = (tmp_path / "mapping").rename(tmp_path / "kept")
    with pytest.raises(ParameterError, match="expected the mapping of the run"):
        go(session(tmp_path, **pattern))
    kept.rename(tmp_path / "mapping")
    assert go(session(tmp_path, **pattern)).resumed == 1
