"""A row of a job has one release, in whatever batches it comes."""

import numpy as np
import pyarrow as pa
import pytest
from support.cases import over
from support.ledgers import Charges
from support.spaces import random_space
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.corpora import Columns, NumberedRows

SPACE = random_space(300)
LAW = dp.TokenExponential(epsilon=0.01)  # nearly uniform: twenty tokens never come twice
KEY = bytes(32)


def rows(numbers, word="w1"):
    texts = [f"w{n} {word} " + "w2 " * 18 for n in numbers]
    return pa.table({"row": numbers, "text": texts, "label": [f"label {n}" for n in numbers]})


def actor(folder, ledger=None, key=KEY, size=10, job="job"):
    sanitizer = dp.Sanitizer(LAW, SPACE, ledger=ledger, subject=ledger and "someone")
    columns = Columns(releaser=sanitizer, names=("text",))
    return NumberedRows(columns, row="row", job=job, store=folder, key=key, rows_per_chunk=size)


def released(table):
    return dict(zip(table["row"].to_pylist(), table["text"].to_pylist(), strict=True))


def test_a_row_has_one_release_in_whatever_batches_it_comes(tmp_path):
    ledger, random, seen = Charges(), np.random.default_rng(0), {}
    for round_ in range(4):  # each time other batches, by other actors
        order = random.permutation(100) if round_ % 2 else np.arange(100)
        actors = [actor(tmp_path / "store", ledger) for _ in range(2)]
        for place, batch in enumerate(np.array_split(order, random.integers(3, 17))):
            given = rows(batch)
            got = actors[place % 2](given)
            assert got.drop_columns(["text", "dp_tokens", "dp_epsilon"]) == given.drop("text")
            for number, text in released(got).items():
                assert seen.setdefault(number, text) == text
    assert len({*seen.values()}) == 100
    assert sum(ledger.tokens) == 100 * 20


def test_a_batch_that_comes_again_after_a_crash_has_the_same_draw_for_one_charge(tmp_path):
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path}/l", budget=10)
    drawn = []

    def die(_, released):
        drawn.append(released["text"])
        raise KeyboardInterrupt

    for key in (KEY, KEY, bytes(31) + b"1"):
        with pytest.MonkeyPatch.context() as patch:
            job = actor(tmp_path / "store", ledger, key=key)
            patch.setattr(job._folder, "write", die)
            with pytest.raises(KeyboardInterrupt):
                job(rows(range(10)))
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(ledger.rows("someone")) == 2


def test_another_job_size_or_law_is_another_release(tmp_path):
    texts = set()
    for options in ({}, {"size": 5}, {"job": "other"}):
        texts |= {*released(actor(tmp_path / "store", **options)(rows(range(10)))).values()}
    assert len(texts) == 30


def test_a_row_that_changed_is_refused(tmp_path):
    actor(tmp_path / "store")(rows(range(10)))
    turned = rows(range(10)).set_column(0, "row", pa.array([*range(9, -1, -1)]))
    for key, batch in (
        (KEY, rows(range(10), CANARY)),
        (bytes(31) + b"1", rows(range(10))),
        (KEY, turned),
    ):
        with pytest.raises(dp.ParameterError, match="changed") as error:
            actor(tmp_path / "store", key=key)(batch)
        assert CANARY not in str(error.value)


@over("numbers", [[1, 1], [-1, 2], [1.0, 2.0], [1, None], ["1", "2"]])
def test_rows_without_a_number_of_their_own_are_refused(tmp_path, numbers):
    ledger = Charges()
    with pytest.raises(dp.ParameterError, match="number"):
        actor(tmp_path / "store", ledger)(pa.table({"row": numbers, "text": ["w1", "w2"]}))
    assert not ledger.rows


def test_what_is_kept_tells_nothing_of_the_raw_texts(tmp_path):
    actor(tmp_path / "store")(rows([0, 1], CANARY))
    kept = b"".join(path.read_bytes() for path in (tmp_path / "store").iterdir())
    assert CANARY.encode() not in kept
    assert KEY not in kept


@over("wrong", [{"key": b"short"}, {"job": ""}, {"size": 0}])
def test_a_job_without_name_key_or_rows_is_refused(tmp_path, wrong):
    with pytest.raises(dp.ParameterError):
        actor(tmp_path / "store", **wrong)
