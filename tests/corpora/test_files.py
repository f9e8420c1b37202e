"""A file's other cells stay, its rows keep their order, and a run goes on where it was killed."""

import csv
import io
import json
import os
import random
import signal
import time
from collections import Counter
from threading import Thread

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from support.cases import over
from support.ledgers import Charges
from support.spaces import random_space
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.corpora import sanitize_file
from dp_middleware.corpora.chunks import ChunkFolder
from dp_middleware.corpora.lines import Csv

SPACE = random_space()
LAW = dp.TokenExponential(epsilon=1.0)
EPS = dp.certify(LAW, SPACE).epsilon
WORDS = {*SPACE.vocabulary.tokens}


def sanitizer(ledger=None, subject="someone"):
    return dp.Sanitizer(LAW, SPACE, ledger=ledger, subject=subject if ledger else None)


def released(text):
    return {*text.split()} <= WORDS


CELLS = st.text(st.sampled_from("a\"',;\t\r\n\\ é😀\x00#|"), max_size=8)
EASY = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def run(folder, suffix, data, columns="text", **options):
    source, target = folder / f"in{suffix}", folder / f"out{suffix}"
    target.unlink(missing_ok=True)
    source.write_bytes(data)
    options.setdefault("chunk_rows", 2)
    releaser = sanitizer(options.pop("ledger", None))
    report = sanitize_file(source, target, columns, releaser, **options)
    assert not [*folder.glob(".*")]
    return report, target.read_bytes()


@EASY
@given(
    rows=st.lists(st.tuples(CELLS, st.one_of(st.just(""), CELLS), CELLS), max_size=7),
    ending=st.sampled_from(["\n", "\r\n", "\r"]),
    mark=st.sampled_from(["", "\ufeff"]),
    separator=st.sampled_from([",", "\t"]),
)
def test_other_cells_of_csv_stay(tmp_path, rows, ending, mark, separator):
    text, form = io.StringIO(), {"lineterminator": ending, "delimiter": separator}
    table = [("id", "text", 'a "note"'), *(("k" + a, b, c) for a, b, c in rows)]
    quoted = csv.QUOTE_ALL  # else a lone \r would end a row
    csv.writer(text, quoting=quoted, **form).writerows(table)
    data = (mark + text.getvalue()).encode()
    _, out = run(tmp_path, ".csv" if separator == "," else ".tsv", data)
    assert out.startswith(b"\xef\xbb\xbf") == bool(mark)
    assert out.endswith(ending.encode())
    lines = io.StringIO(out.decode("utf-8-sig"), newline="")
    result = [tuple(row) for row in csv.reader(lines, delimiter=separator)]
    assert [(a, c) for a, _, c in result] == [(a, c) for a, _, c in table]
    assert all(released(b) for _, b, _ in result[1:])
    for (_, before, _), (_, after, _) in zip(table[1:], result[1:], strict=True):
        assert len(after.split()) == sanitizer().count(before)


def test_all_but_the_released_cells_stays_byte_for_byte(tmp_path):
    data = b'a,,"",n\xffm,"q""\r\n",text\n1,2,3,4,5,\n"1",,"",5" \xff,"q""\r\n",\r\n,,,,,""'
    assert run(tmp_path, ".csv", data)[1] == data


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | CELLS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(CELLS, inner, max_size=3),
    max_leaves=5,
)


@EASY
@given(
    rows=st.lists(
        st.tuples(
            st.dictionaries(CELLS, VALUES, max_size=3),
            st.none() | CELLS,
            st.dictionaries(st.sampled_from(["b", "c"]), VALUES),
        ),
        max_size=7,
    ),
    ascii_only=st.booleans(),
    blank=st.sampled_from(["", " ", "\t "]),
)
def test_other_bytes_of_json_stay(tmp_path, rows, ascii_only, blank):
    def dumps(value):
        return json.dumps(value, ensure_ascii=ascii_only)

    lines, around = [], []
    for before, text, after in rows:
        first = "{" + blank + "".join(f"{dumps(k)}{blank}:{dumps(v)}," for k, v in before.items())
        last = "".join(f",{dumps(k)}: {dumps(v)}{blank}" for k, v in after.items()) + "}"
        lines.append(first + '"text":' + dumps(text) + last)
        around.append((first + '"text":', last, text))
    _, out = run(tmp_path, ".jsonl", "".join(line + "\r\n" for line in lines).encode())
    results = out.decode().split("\r\n")[:-1]
    assert len(results) == len(rows)
    for result, (first, last, text) in zip(results, around, strict=True):
        assert result.startswith(first)
        assert result.endswith(last)
        value = json.loads(result[len(first) : len(result) - len(last)])
        assert value is None if text is None else released(value)


@EASY
@given(st.lists(st.text(st.characters(exclude_characters="\n\r", codec="utf-8")), max_size=9))
def test_lines_of_text(tmp_path, lines):
    _, out = run(tmp_path, ".txt", "".join(f"{line}\r\n" for line in lines).encode())
    results = out.decode().split("\r\n")[:-1]
    assert [len(line.split()) for line in results] == [sanitizer().count(line) for line in lines]
    assert all(map(released, results))


DICTIONARY = pa.dictionary(pa.int8(), pa.string())


@over("kind", [pa.string(), pa.large_string(), pa.string_view(), DICTIONARY])
def test_columns_of_parquet_stay(tmp_path, kind):
    text = pa.array(["w1 w2", None, "secret", "", "w3"])
    text = text.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else text.cast(kind)
    others = {
        "n": pa.array([1, None, 3, 4, 5], pa.uint8()),
        "nested": pa.array([[{"a": 1}], [], None, [{"a": None}], []]),
        "when": pa.array([0, 1, 2, 3, None], pa.timestamp("us", "Asia/Tokyo")),
        "raw": pa.array([b"\xff", b"", None, b"\x00", b"x"], pa.binary()),
    }
    table, sink = pa.table({"text": text, **others}, metadata={"made": "by us"}), io.BytesIO()
    pq.write_table(table, sink)
    report, out = run(tmp_path, ".parquet", sink.getvalue(), ledger=Charges())
    result = pq.read_table(io.BytesIO(out))
    assert result.select([*others]).equals(table.select([*others]))
    assert result.schema.metadata[b"made"] == b"by us"
    assert result["text"].type == pq.read_table(io.BytesIO(sink.getvalue()))["text"].type
    texts = result["text"].to_pylist()
    assert texts[1] is None
    assert all(released(one) for one in texts if one is not None)
    assert (report.rows, report.texts, report.tokens, report.chunks) == (5, 4, 4, 3)


@over("held, reads", [(1 << 22, 1), (10, 2)])
def test_a_small_file_is_parsed_once(held, reads, tmp_path, monkeypatch):
    monkeypatch.setattr("dp_middleware.corpora.files._HELD", held)
    parse, parsed = Csv.chunks, []

    def counted(self):
        parsed.append(self.path)
        return parse(self)

    monkeypatch.setattr(Csv, "chunks", counted)
    _, data = run(tmp_path, ".csv", b"id,text\n1,a b\n2,b a\n", chunk_rows=1)
    assert [line[:2] for line in data.splitlines()] == [b"id", b"1,", b"2,"]
    assert len(parsed) == reads


def test_each_subject_pays_for_its_rows_and_a_dry_run_for_none(tmp_path):
    data = b"who,text,note\nann,w1 w2,w3\nbob,w1,\nann,,w2\n"
    source = tmp_path / "in.csv"
    source.write_bytes(data)
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path}/ledger.db", budget=100)
    options = {"subject": "who"}
    columns, out = ["text", "note"], tmp_path / "out.csv"
    plan = sanitize_file(source, out, columns, sanitizer(ledger), dry_run=True, **options)
    assert (plan.epsilon_per_subject, ledger.subjects()) == (pytest.approx(3 * EPS), [])
    report = sanitize_file(source, out, columns, sanitizer(ledger), **options)
    assert ledger.spent("ann") == pytest.approx(3 * EPS)
    assert ledger.spent("bob") == pytest.approx(EPS)
    assert (report.subjects, report.texts, report.tokens) == (2, 4, 5)
    assert report.epsilon_per_subject == pytest.approx(3 * EPS)
    with pytest.raises(dp.errors.ParameterError, match="not there yet"):  # no second release
        sanitize_file(source, out, columns, sanitizer(ledger), **options)


def parquet(*cells):
    """A file whose column of texts holds these; bytes are no UTF-8."""
    column = pa.array(cells)
    column = column.view(pa.string()) if isinstance(cells[0], bytes) else column
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": pa.chunked_array([column])}), sink)
    return sink.getvalue()


OPEN = f'text,id\nw1,"abc\n{CANARY},'
REFUSED = [  # a suffix, the bytes of a file, and what is said
    *((".csv", f"{OPEN}{rest}", None) for rest in ("", '"w1","x"\n', 'x"w1,x\n', '","x"" \n')),
    *((".parquet", parquet(cell), None) for cell in (7, None, [CANARY], {CANARY: "w1"}, b"\xff")),
    (".csv", f"id,text\n1,w1\n2,{CANARY},3\n4,w1\n", "row 2"),
    (".csv", b"id,text\n1,w1\n2,\xffzxqvcanary\n4,w1\n", "row 2"),
    (".txt", b"w1\n\xffzxqvcanary\nw1\n", "row 2"),
    *(
        (".jsonl", f'{{"text":"w1"}}\n{row}\n{{"text":"w2"}}\n', "row 2")
        for row in (
            f'{{"text":{CANARY}',
            f'{{"text":7, "a":"{CANARY}"}}',
            f'{{"a":"{CANARY}"}}',
            f'{{"text":"a","text":"{CANARY}"}}',
            f'{{"text":"\\ud800 {CANARY}"}}',
        )
    ),
    (".csv", f"{CANARY},b\n1,2\n", None),
    (".csv", "text,text\n1,2\n", None),
    (".jsonl", "[1]\n", None),
    (".parquet", CANARY, None),
    (".doc", "a\n", None),
    (".csv", b"id,text\n1,\xff zxqvcanary,3\n", None),
    (".csv", CANARY * 20_000, None),
    (".csv", "", "empty file"),
]


@over("suffix, data, said", REFUSED)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of Arrow
def test_a_broken_file_is_refused_before_any_charge_and_leaves_nothing(
    tmp_path_factory, suffix, data, said
):
    ledger, folder = Charges(), tmp_path_factory.mktemp("broken")
    data = data.encode() if isinstance(data, str) else data
    with pytest.raises(dp.ParameterError, match=said) as error:
        run(folder, suffix, data, "text", ledger=ledger)
    assert CANARY not in str(error.value)
    assert error.value.__cause__ is error.value.__context__ is None
    assert ledger.rows == []
    assert [path.name for path in folder.iterdir()] == [f"in{suffix}"]


def test_columns_that_are_not_there_are_refused(tmp_path):
    for suffix, columns in ((".txt", ["line"]), (".csv", []), (".csv", ["txet"])):
        with pytest.raises(dp.ParameterError):
            run(tmp_path, suffix, b"text\na\n", columns)


@pytest.mark.parametrize("kind", ["folder", "link", "open", "file"])
def test_what_is_no_folder_of_a_run_is_neither_read_nor_removed(kind, tmp_path):
    source, other = tmp_path / "in.csv", tmp_path / "other"
    source.write_text("id,text\n1,w1 w2\n")
    place = tmp_path / ".out.csv.parts"
    if kind == "file":
        place.write_text("mine")
    else:
        own = other if kind == "link" else place
        own.mkdir(mode=0o700)
        (own / ("job.json" if kind == "open" else "mine.txt")).write_text("{}")
        if kind == "link":
            place.symlink_to(other)
        if kind == "open":  # whoever it is open to may have written it
            own.chmod(0o777)
    ledger = Charges()
    with pytest.raises(dp.errors.ParameterError, match="a folder of a run of yours"):
        sanitize_file(source, tmp_path / "out.csv", ["text"], sanitizer(ledger))
    assert place.is_file() or [*place.iterdir()]
    assert not ledger.rows


def test_an_interrupted_run_goes_on_with_the_same_job_only(tmp_path):
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("id,text\n" + "".join(f"{k},w1 w2\n" for k in range(10)))
    ledger = Charges(budget=12)  # of twenty tokens

    def go(ledger, chunk_rows=1, **more):
        releaser = sanitizer(ledger)
        return sanitize_file(source, target, ["text"], releaser, chunk_rows=chunk_rows, **more)

    with pytest.raises(dp.BudgetExhausted):
        go(ledger)
    assert len(ledger.rows) == 6
    folder = tmp_path / ".out.csv.parts"
    assert folder.stat().st_mode & 0o077 == 0
    kept = {path.name: path.read_bytes() for path in folder.glob("*.arrow")}
    for options in ({"chunk_rows": 2}, {"id": "id"}):
        with pytest.raises(dp.errors.ParameterError, match="parameters"):
            go(Charges(), **options)
    status = source.stat()
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    with pytest.raises(dp.errors.ParameterError, match="source"):
        go(Charges())
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    more = Charges()
    report = go(more)
    assert len(more.rows) == 4
    assert (report.resumed, report.chunks) == (6, 10)
    first = list(csv.DictReader(io.StringIO(target.read_text())))[:6]
    tables = [pa.ipc.open_file(pa.py_buffer(data)).read_all() for data in kept.values()]
    assert {row["text"] for row in first} == {table["text"][0].as_py() for table in tables}


def test_a_second_run_is_told_of_the_first(tmp_path):
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("id,text\n1,w1\n")

    def again(done, total):
        with pytest.raises(dp.ParameterError, match="another one is at work"):
            sanitize_file(source, target, "text", sanitizer())

    report = sanitize_file(source, target, "text", sanitizer(), progress=again)
    assert (report.rows, report.chunks) == (1, 1)


def test_a_full_disk_loses_nothing(tmp_path):
    ledger = Charges()

    def full(self, file, released):
        for _ in released:
            raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Csv, "write", full)
        with pytest.raises(dp.errors.ParameterError, match="No space left"):
            run(tmp_path, ".csv", b"text\n" + b"w1 w2\n" * 6, ledger=ledger)
    assert not (tmp_path / "out.csv").exists()
    assert len([*(tmp_path / ".out.csv.parts").glob("*.arrow")]) == len(ledger.rows) == 1


@pytest.mark.slow
def test_workers(tmp_path):
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path}/ledger.db", budget=1e6)
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("id,text\n" + "".join(f"{k},w{k % 12} w2\n" for k in range(100)))
    seen = []
    options = {"workers": 2, "chunk_rows": 5, "progress": lambda *counts: seen.append(counts)}
    report = sanitize_file(source, target, ["text"], sanitizer(ledger), **options)
    assert (report.rows, report.chunks) == (100, 20)
    assert seen[-1] == (100, 100)
    assert len(ledger.rows("someone")) == 20
    rows = csv.DictReader(io.StringIO(target.read_text()))
    assert [row["id"] for row in rows] == [str(k) for k in range(100)]


@pytest.mark.parametrize(
    ("kills", "chunks"),
    [(4, 40), pytest.param(30, 600, marks=[pytest.mark.slow, pytest.mark.timeout(600)])],
)
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_kills_at_random_moments_charge_each_row_once_and_lose_none(tmp_path, kills, chunks):
    """In rows and order the output is the input; each chunk has one release that never changes."""
    url = f"sqlite:///{tmp_path}/ledger.db"
    dp.PrivacyLedger(url, budget=1e6).close()
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(f'{{"id": {k}, "text": "w1 w2 w3"}}\n' for k in range(chunks)))

    def work(progress=lambda *_: None):
        releaser = sanitizer(dp.PrivacyLedger(url))
        return sanitize_file(source, target, ["text"], releaser, chunk_rows=1, progress=progress)

    def kept():
        return len([*folder.glob("*.arrow")])

    def hold(done, total):
        if done >= total - 1:
            time.sleep(100)  # no fast machine ends the work before it is killed

    def work_until(enough, late):
        def end():
            while kept() < enough:
                time.sleep(0.001)
            time.sleep(late)
            os.kill(os.getpid(), signal.SIGKILL)

        Thread(target=end).start()  # of the same process: no busy machine lets the work end first
        work(hold)

    clock, folder, paid = random.Random(20), tmp_path / ".out.jsonl.parts", 0
    first: dict[str, bytes] = {}
    for left in range(kills, 0, -1):
        before, most = kept(), chunks - 1 - chunks // 10
        enough = min(before + clock.randint(1, 2 * max(0, most - before) // left + 1), most)
        pid = os.fork()
        if not pid:
            try:
                work_until(enough, clock.uniform(0, 0.02))
            finally:
                os._exit(0)
        assert os.waitpid(pid, 0)[1] == signal.SIGKILL
        paid += len(dp.PrivacyLedger(url).rows("someone")) > kept()  # but not written
        for path in folder.glob("*.arrow"):
            assert path.read_bytes() == first.setdefault(path.name, path.read_bytes())
    last, store = kept(), ChunkFolder(folder)
    texts = Counter(store.read(name.removesuffix(".arrow"))["text"][0].as_py() for name in first)
    report = work()
    rows = [json.loads(line) for line in target.read_text().splitlines()]
    assert [row["id"] for row in rows] == [*range(chunks)]
    assert all(released(row["text"]) and len(row["text"].split()) == 3 for row in rows)
    assert dp.PrivacyLedger(url).verify().charges == chunks
    assert texts <= Counter(row["text"] for row in rows)
    assert report.resumed == last
    print(f"{paid} of {kills} kills came between a charge and its chunk")
