"""A chunk is charged, drawn and written once, whoever asks for it and whenever it is killed."""

import json
import multiprocessing
import os
import shutil
import signal
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pytest
from support.cases import over
from support.ledgers import Charges
from support.spaces import random_space
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.corpora import Columns
from dp_middleware.corpora.chunks import ChunkFolder, chunk_key
from dp_middleware.corpora.columns import EPSILON, TOKENS, of_texts

SPACE = random_space()
LAW = dp.TokenExponential(epsilon=1.0)
ROWS = pa.table(
    {"text": ["w1 w2", None, "w3", ""], "note": ["w4", "w5 w6", None, None], "who": [*"abab"]}
)
KEY = chunk_key("job", 0)


def columns(ledger=None, names=("text", "note"), subject="who", law=LAW, **options):
    owner = None if ledger is None else "someone"
    sanitizer = dp.Sanitizer(law, SPACE, ledger=ledger, subject=owner)
    return Columns(releaser=sanitizer, names=names, subject=subject, **options)


def test_one_charge_a_subject_for_all_its_texts_before_the_draw():
    ledger = Charges()
    released = columns(ledger).release(ROWS)
    epsilon = dp.certify(LAW, SPACE).epsilon
    assert ledger.rows == [("a", pytest.approx(3 * epsilon), 4), ("b", epsilon, 2)]
    assert released[TOKENS].to_pylist() == [3, 2, 1, 0]
    assert released[EPSILON].to_pylist() == pytest.approx([2 * epsilon, epsilon, epsilon, 0])
    assert [text is None for text in released["text"].to_pylist()] == [False, True, False, False]
    assert released["text"].to_pylist()[3] == ""
    assert len(released["note"][1].as_py().split()) == 2


def test_no_draw_without_the_charge(monkeypatch):
    releaser = columns(Charges(budget=3))
    monkeypatch.setattr(type(releaser.releaser._drawer), "draw", None)
    with pytest.raises(dp.BudgetExhausted):
        releaser.release(ROWS)


@over("nats", [0.1, 1 / 3, 9.999999999999998, 10.0])
@over("texts", [2, 3, 1000])
def test_many_texts_cost_what_their_charges_would(tmp_path, nats, texts):
    guarantee = dp.privacy.PureDP(epsilon=nats)
    certificate = replace(dp.certify(LAW, SPACE), epsilon=nats, guarantee=guarantee)
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path}/{texts}-{nats}.db", budget=1e5)
    ledger.charge("once", of_texts(certificate, texts), 1)
    ledger.charge("document", certificate, texts, unit="document")
    document = ledger.spent("document")
    assert document <= ledger.spent("once") <= document + 2e-12  # a step of the ledger


def test_pseudonyms_of_a_row_agree_and_are_kept_by_nobody():
    def detector(text):
        return [(k, k + 3, "PERSON") for k in range(len(text)) if text.startswith("Ann", k)]

    pseudonyms = dp.Pseudonyms(detector, kinds=["person"], on_empty="pass")
    rows = pa.table({"text": ["Ann is ill", None], "note": ["dear Ann", "no name"]})
    released = Columns(releaser=pseudonyms, names=("text", "note")).release(rows)
    name = released["text"][0].as_py().removesuffix(" is ill")
    assert name != "Ann"
    assert released["note"].to_pylist() == [f"dear {name}", "no name"]


def _release_in_child(folder, url, drawn):
    """Killed, if it is to note what it has drawn, before that is kept."""
    store = ChunkFolder(folder)
    if drawn is not None:

        def die(_, released):
            drawn.write_text(json.dumps(released.to_pydict()))
            os.kill(os.getpid(), signal.SIGKILL)

        store.write = die
    store.once(KEY, partial(columns(dp.PrivacyLedger(url)).release, ROWS))


def _child(*arguments):
    child = multiprocessing.get_context("fork").Process(target=_release_in_child, args=arguments)
    child.start()
    return child


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_processes_race_after_one_died_with_its_draw_and_release_that_for_one_charge(tmp_path):
    url, folder, drawn = f"sqlite:///{tmp_path}/ledger.db", tmp_path / "parts", tmp_path / "drawn"
    ledger = dp.PrivacyLedger(url, budget=100)
    for _ in range(2):
        doomed = _child(folder, url, drawn)
        doomed.join()
        assert doomed.exitcode == -signal.SIGKILL
    racers = [_child(folder, url, None) for _ in range(4)]
    for racer in racers:
        racer.join()
    assert [racer.exitcode for racer in racers] == [0] * 4
    assert [len(ledger.rows(who)) for who in "ab"] == [1, 1]
    kept = ChunkFolder(folder).read(KEY).to_pydict()
    assert kept == json.loads(drawn.read_text())
    assert not [*folder.glob("*.seed")]


class Killed(BaseException):
    pass


def stopped(store, releaser, rows=ROWS):
    """What was charged and drawn, and then not kept."""
    drawn = []

    def die(_, released):
        drawn.append(released)
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "write", die)
        with pytest.raises(Killed):
            store.once(KEY, partial(releaser.release, rows))
    return drawn[0]


LONG = ROWS.set_column(0, "text", pa.array(["w1 " * 30] * 4))


@over("change", ["nothing", "folder", "ledger", "row", "payer", "option", "law", "version", "seed"])
def test_the_same_is_charged_once_and_drawn_alike_and_all_else_anew(tmp_path_factory, change):
    tmp_path = tmp_path_factory.mktemp(change)
    url, store = f"sqlite:///{tmp_path}/ledger.db", ChunkFolder(tmp_path / "parts")
    dp.PrivacyLedger(url, budget=1e4).close()
    shutil.copy(tmp_path / "ledger.db", tmp_path / "backup.db")
    first = stopped(store, columns(dp.PrivacyLedger(url)), LONG)
    rows, options = LONG, {}
    if change == "folder":
        store = ChunkFolder(shutil.copytree(store.path, tmp_path / "copy"))
    elif change == "ledger":
        shutil.copy(tmp_path / "backup.db", tmp_path / "put_back.db")
        url = f"sqlite:///{tmp_path}/put_back.db"
    elif change in ("row", "payer"):
        cells = {"row": [*LONG["note"].to_pylist()[:3], "w9"], "payer": [*"abba"]}[change]
        name = "note" if change == "row" else "who"
        rows = LONG.set_column(LONG.column_names.index(name), name, pa.array(cells))
    elif change == "option":
        options = {"names": ("note", "text")}
    elif change == "law":
        options = {"law": dp.TokenExponential(epsilon=1.5)}
    elif change == "seed":
        (store.path / f"{KEY}.seed").unlink()
    ledger, version = dp.PrivacyLedger(url), "another" if change == "version" else dp.__version__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dp_middleware.corpora.chunks.__version__", version)
        second = stopped(store, columns(ledger, **options), rows)
    is_new = change not in ("nothing", "folder", "ledger")
    assert [len(ledger.rows(who)) for who in "ab"] == [1 + is_new] * 2
    assert (first["text"] != second["text"]) == is_new
    assert (tmp_path / "parts" / f"{KEY}.seed").stat().st_mode & 0o077 == 0


def test_a_seed_that_others_know_or_may_have_written_is_refused(tmp_path):
    ledger, store = dp.PrivacyLedger(f"sqlite:///{tmp_path}/l", budget=100), ChunkFolder(tmp_path)
    store.seed(KEY)
    seed = tmp_path / f"{KEY}.seed"
    kept = seed.read_bytes()
    for content, mode in ((b"", 0o600), (kept, 0o644)):
        seed.write_bytes(content)
        seed.chmod(mode)
        with pytest.raises(dp.ParameterError, match="for its owner alone"):
            store.once(KEY, partial(columns(ledger).release, ROWS))
    assert not ledger.subjects()


def test_pseudonyms_that_are_paid_for_are_the_same_after_a_crash(tmp_path):
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path}/ledger.db", budget=100)
    detector = lambda text: [(0, len(text), "AMOUNT")]  # noqa: E731
    rows = pa.table({"text": [f"${n}7,123.45" for n in range(1, 9)]})
    store, drawn = ChunkFolder(tmp_path / "parts"), []
    for _ in range(2):
        pseudonyms = dp.Pseudonyms(detector, kinds=["amount"], ledger=ledger, subject="a")
        drawn.append(stopped(store, Columns(releaser=pseudonyms, names=("text",)), rows))
    assert drawn[0] == drawn[1]
    assert len(ledger.rows("a")) == 8


def test_what_is_refused_quotes_nothing(tmp_path):
    store = ChunkFolder(tmp_path / "parts")
    own = {"who": ["a"]}
    for wrong in ({"text": [1], **own}, {"text": [CANARY], "who": [None]}, {CANARY: ["a"], **own}):
        with pytest.raises(dp.errors.ParameterError) as error:
            store.once("key", partial(columns(Charges(), names=("text",)).release, pa.table(wrong)))
        assert CANARY not in str(error.value)
    assert not [*store.path.glob("*.arrow")]
    with pytest.raises(dp.errors.ParameterError):
        ChunkFolder(tmp_path / "none" / "parts")


def test_a_session_whose_charge_is_refused_draws_with_fresh_bytes_from_then_on(tmp_path):
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path}/l", budget=2)
    pseudonyms = dp.Pseudonyms(list, kinds=["amount"], on_empty="pass", ledger=ledger, subject="a")
    session = pseudonyms.session()
    kinds = {"text": "amount"}
    releaser = Columns(releaser=pseudonyms, names=("text",), kinds=kinds, session=session)
    rows = pa.table({"text": [f"${n}7,123.45" for n in range(1, 9)]})
    with pytest.raises(dp.BudgetExhausted):
        releaser.release(rows, lambda: bytes(32))
    with session.opened() as mapping:
        assert mapping._entropy is None  # of the system
