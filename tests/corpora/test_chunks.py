"""A chunk is charged, drawn and written once, whoever asks for it and whenever it is killed."""

import multiprocessing
import os
import signal
from dataclasses import replace

import pyarrow as pa
import pytest
from support.ledgers import Charges
from support.spaces import random_space
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.corpora import ChunkFolder, Columns, chunk_key, release_chunk
from dp_middleware.corpora.columns import EPSILON, TOKENS, of_texts

SPACE = random_space()
LAW = dp.TokenExponential(epsilon=1.0)
ROWS = pa.table(
    {"text": ["w1 w2", None, "w3", ""], "note": ["w4", "w5 w6", None, None], "who": [*"abab"]}
)


def columns(ledger=None, names=("text", "note"), subject="who", **options):
    owner = None if ledger is None else "someone"
    sanitizer = dp.Sanitizer(LAW, SPACE, ledger=ledger, subject=owner)
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


@pytest.mark.parametrize("nats", [0.1, 1 / 3, 9.999999999999998, 10.0])
@pytest.mark.parametrize("texts", [2, 3, 1000])
def test_many_texts_cost_what_their_charges_would(tmp_path, nats, texts):
    guarantee = dp.privacy.PureDP(epsilon=nats)
    certificate = replace(dp.certify(LAW, SPACE), epsilon=nats, guarantee=guarantee)
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path}/ledger.db", budget=1e5)
    ledger.charge("once", of_texts(certificate, texts), 1)
    ledger.charge("document", certificate, texts, unit="document")
    document = ledger.spent("document")
    assert document <= ledger.spent("once") <= document + 2e-12  # a step of the ledger


def test_the_second_call_neither_pays_nor_draws(tmp_path):
    ledger, store = Charges(), ChunkFolder(tmp_path / "parts")
    key = chunk_key("job", 0, 4)
    first = release_chunk(store, key, ROWS, columns(ledger))
    charges = len(ledger.rows)
    again = release_chunk(ChunkFolder(tmp_path / "parts"), key, ROWS, columns(ledger))
    assert (first.equals(again), len(ledger.rows), store.attempts) == (True, charges, 1)
    assert chunk_key("job", 4, 8) != key != chunk_key("another", 0, 4)
    assert store.path.stat().st_mode & 0o077 == 0


def test_pseudonyms_of_a_row_agree_and_are_kept_by_nobody():
    def detector(text):
        return [(k, k + 3, "PERSON") for k in range(len(text)) if text.startswith("Ann", k)]

    releaser = Columns(
        releaser=dp.Pseudonyms(detector, kinds=["person"], on_empty="pass"), names=("text", "note")
    )
    rows = pa.table({"text": ["Ann is ill", None], "note": ["dear Ann", "no name"]})
    released = releaser.release(rows)
    name = released["text"][0].as_py().removesuffix(" is ill")
    assert name != "Ann"
    assert released["note"].to_pylist() == [f"dear {name}", "no name"]


def _release_in_child(folder, url, kill):
    ledger = dp.PrivacyLedger(url)
    releaser = columns(ledger, names=("text",))
    if kill:
        releaser.releaser._drawer.draw = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    release_chunk(ChunkFolder(folder), chunk_key("job", 0), ROWS, releaser)


def _child(*arguments):
    child = multiprocessing.get_context("fork").Process(target=_release_in_child, args=arguments)
    child.start()
    return child


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_processes_race_and_one_dies_after_its_charge(tmp_path):
    url, folder = f"sqlite:///{tmp_path}/ledger.db", tmp_path / "parts"
    ledger = dp.PrivacyLedger(url, budget=100)
    doomed = _child(folder, url, True)
    doomed.join()
    assert doomed.exitcode == -signal.SIGKILL
    racers = [_child(folder, url, False) for _ in range(4)]
    for racer in racers:
        racer.join()
    assert [racer.exitcode for racer in racers] == [0] * 4
    assert len(ledger.rows("a")) == 2  # of the killed one, and of the one that released
    assert ChunkFolder(folder).attempts == 2
    assert len([*folder.glob("*.arrow")]) == 1


def test_what_is_refused_quotes_nothing(tmp_path):
    store = ChunkFolder(tmp_path / "parts")
    for wrong in (
        pa.table({"text": [1], "who": ["a"]}),
        pa.table({"text": [CANARY], "who": [None]}),
        pa.table({CANARY: ["a"], "who": ["a"]}),
    ):
        with pytest.raises(dp.errors.ParameterError) as error:
            release_chunk(store, "key", wrong, columns(Charges(), names=("text",)))
        assert CANARY not in str(error.value)
    assert not [*store.path.glob("*.arrow")]
    with pytest.raises(dp.errors.ParameterError):
        ChunkFolder(tmp_path / "none" / "parts")


def test_the_fingerprint_tells_what_decides_a_release():
    prints = {
        one.fingerprint
        for one in (
            columns(Charges()),
            columns(Charges(), subject=None),
            columns(Charges(), names=("text",)),
            columns(Charges(), scope=str.split),
            Columns(releaser=dp.Sanitizer(LAW, random_space(seed=1)), names=("text",)),
        )
    }
    assert len(prints) == 5
    assert columns(Charges()).fingerprint in prints
