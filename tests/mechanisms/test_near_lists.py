"""A nearest response drawn from lists: bit for bit what its rows would give."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.spaces import random_space, responses, spaces

import dp_middleware as dp
from dp_middleware.mechanisms import near_lists
from dp_middleware.mechanisms.base import rows_of
from dp_middleware.mechanisms.drawing import drawer
from dp_middleware.sampling.sampler import insecure_entropy, tables


def assert_alike(rows, mechanism, space):
    """The same owner of every first and last integer, so the same integers: the law is equal."""
    ids = np.arange(-1, len(space))
    for x, table in zip(ids, tables(rows_of(mechanism, ids, space)), strict=True):
        uniform = np.concatenate([table.lasts, table.lasts + np.uint64(1)])
        expected = table.locate(uniform, insecure_entropy(0))
        assert rows.locate(np.full(len(uniform), x), uniform).tolist() == expected.tolist()


@settings(max_examples=60)
@given(space=spaces(), data=st.data())
def test_every_integer_is_that_of_the_row(space, data):
    mechanism = data.draw(responses(len(space)))
    rows = near_lists.near_rows(mechanism, space)
    assert_alike(rows, mechanism, space)


@settings(max_examples=25)
@given(space=spaces(), data=st.data(), seed=st.integers(0, 9))
def test_the_same_entropy_draws_the_same(space, data, seed, monkeypatch_module):
    mechanism = data.draw(responses(len(space)))
    generator = np.random.default_rng(seed)
    texts = [generator.integers(-1, len(space), n) for n in (0, 1, 40)]
    fast = drawer(mechanism, space).draw(texts, insecure_entropy(seed))
    with monkeypatch_module.context() as patch:
        patch.setattr("dp_middleware.mechanisms.drawing.near_rows", lambda *_: None)
        slow = drawer(mechanism, space).draw(texts, insecure_entropy(seed))
    assert [ids.tolist() for ids in fast] == [ids.tolist() for ids in slow]


@pytest.fixture(scope="module")
def monkeypatch_module():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def test_another_law_is_rejected():
    """The test of all integers sees a codeword moved and half a percent of epsilon."""
    space = random_space(tokens=9)
    rows = near_lists.near_rows(dp.NearestResponse(epsilon=2.0, candidates=2), space)
    for other in (
        dp.NearestResponse(epsilon=2.01, candidates=2),
        dp.NearestResponse(epsilon=2.0, candidates=2, nearness="centred_cosine"),
        dp.NearestResponse(epsilon=2.0, candidates=2, codebook=range(8)),
    ):
        with pytest.raises(AssertionError):
            assert_alike(rows, other, space)


def test_rows_are_taken_where_lists_would_not_do():
    space = random_space(tokens=9)

    class Mine(dp.NearestResponse):
        """A subclass may have another law."""

    assert near_lists.near_rows(Mine(epsilon=2.0, candidates=1), space) is None
    assert near_lists.near_rows(dp.TokenExponential(epsilon=2.0), space) is None
    wide = dp.NearestResponse(epsilon=40.0, candidates=1)  # rows of 128 bits
    assert near_lists.near_rows(wide, space) is None
    flat = dp.NearestResponse(epsilon=1e-17, candidates=1)  # all logarithms are equal
    assert near_lists.near_rows(flat, space) is None
    assert drawer(wide, space).draw([np.arange(9)], insecure_entropy(0))[0].tolist() == [*range(9)]


def test_lists_are_kept_on_disk_and_damage_is_seen(tmp_path, monkeypatch):
    monkeypatch.setenv("DP_MIDDLEWARE_CACHE", str(tmp_path))
    monkeypatch.setattr(near_lists, "_FEW", 0)
    mechanism = dp.NearestResponse(epsilon=2.0, candidates=2, codebook=(0, 0, 3, 5))
    expected = near_lists.near_rows(mechanism, random_space()).arrays
    (file,) = (tmp_path / "lists").iterdir()
    made = []
    monkeypatch.setattr(near_lists, "made", lambda *_: made.append(1))
    again = near_lists.near_rows(mechanism, random_space()).arrays
    assert not made
    assert all((again[name] == expected[name]).all() for name in expected)
    whole = file.read_bytes()
    with np.load(file) as stored:
        arrays = dict(stored)
    arrays["own"] += np.uint64(1)
    np.savez(file, **arrays)
    for damaged in (file.read_bytes(), whole[:-30], b"", b"PK"):
        file.write_bytes(damaged)
        assert near_lists.near_rows(mechanism, random_space()) is None
    assert len(made) == 4


def test_draws_need_no_torch():
    code = "import sys; import dp_middleware.sampling.near_rows; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
