"""A row of a job has one release, in any batch; on Ray's actors too, killed or not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support.ledgers import Charges
from support.postgres import new_database
from support.spaces import random_space
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.corpora import ChunkFolder, Columns
from dp_middleware.corpora.ray import Actor

JOB = Path(__file__).parents[1] / "support" / "ray_job.py"
SPACE = random_space(300)
LAW = dp.TokenExponential(epsilon=0.01)  # nearly uniform: twenty tokens never come twice
KEY = bytes(32)


def rows(numbers, word="w1"):
    texts = [f"w{n} {word} " + "w2 " * 18 for n in numbers]
    return pa.table({"row": numbers, "text": texts, "label": [f"label {n}" for n in numbers]})


def actor(folder, ledger=None, key=KEY, size=10, job="job"):
    sanitizer = dp.Sanitizer(LAW, SPACE, ledger=ledger, subject=ledger and "someone")
    columns = Columns(releaser=sanitizer, names=("text",))
    return Actor(columns, job, str(folder), key, "row", size)


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
    assert len(ledger.rows) == ChunkFolder(tmp_path / "store").attempts


def test_another_job_size_or_law_is_another_release(tmp_path):
    texts = set()
    for options in ({}, {"size": 5}, {"job": "other"}):
        texts |= {*released(actor(tmp_path / "store", **options)(rows(range(10)))).values()}
    assert len(texts) == 30


@pytest.mark.parametrize("change", ["text", "key", "order"])
def test_a_row_that_changed_is_refused(tmp_path, change):
    actor(tmp_path / "store")(rows(range(10)))
    other = actor(tmp_path / "store", key=bytes(31) + b"1" if change == "key" else KEY)
    batch = rows(range(10), CANARY if change == "text" else "w1")
    if change == "order":
        batch = batch.set_column(0, "row", pa.array([*range(9, -1, -1)]))
    with pytest.raises(dp.ParameterError, match="changed") as error:
        other(batch)
    assert CANARY not in str(error.value)


@pytest.mark.parametrize("numbers", [[1, 1], [-1, 2], [1.0, 2.0], [1, None], ["1", "2"]])
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


def test_no_rows_are_no_release(tmp_path):
    empty = actor(tmp_path / "store", Charges())(rows(range(3))[:0])
    assert (len(empty), empty.column_names[-2:]) == (0, ["dp_tokens", "dp_epsilon"])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_actors_and_a_second_reading_lose_nothing_and_draw_nothing_twice(tmp_path):
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed: pip install 'dp-middleware[ray]'")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(JOB), str(tmp_path / "job"), new_database()]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["killed"] == 2
    assert found["places"] == [*range(len(found["places"]))]
    assert [text is None for text in found["texts"]] == [n % 100 == 7 for n in found["places"]]
    assert found["same"]
    assert found["in_another_order"]
    assert found["charged_in_the_end"] == found["charged"]
    assert found["parts"] <= found["charged"] <= found["attempts"] <= found["parts"] + 2
    assert found["epsilon"] <= found["spent"] * (1 + 1e-9)
    assert "has changed" in found["refused"]
    assert found["logs"]
    assert not found["leaks"]
