"""The codebooks that come with the package are those that a search would find."""

from __future__ import annotations

import numpy as np
import pytest

import dp_middleware as dp
from dp_middleware.mechanisms import near_lists
from dp_middleware.mechanisms.base import rows_of
from dp_middleware.mechanisms.kernels import codebook, ready
from dp_middleware.sampling.sampler import insecure_entropy, tables


@pytest.fixture
def no_search(monkeypatch):
    def refuse(*_):
        raise AssertionError("a search")

    monkeypatch.setattr(codebook, "best_codebook", refuse)
    monkeypatch.setattr(dp.NearestResponse, "nearest", refuse)


def test_the_file_is_small():
    assert ready.FILE.stat().st_size < 2e6
    assert ready.part("codebook", "of nothing") is None


@pytest.mark.slow
def test_the_default_space_needs_no_search(no_search):
    """Under five seconds of search would do; it is none."""
    space = dp.default_space()
    for epsilon in ready.EPSILONS:
        tuned = dp.NearestResponse.tuned(space, epsilon=epsilon)
        assert tuned.epsilon == epsilon
        assert space.vocabulary.whole_words[list(tuned.codebook)].all()
        assert len(near_lists.lists_of(tuned, space)) == len(space)


@pytest.mark.slow
def test_the_lists_are_those_of_exact_products(monkeypatch):
    space = dp.default_space()
    for epsilon in (2, 6, 9):
        tuned = dp.NearestResponse.tuned(space, epsilon=epsilon)
        kept = near_lists.lists_of(tuned, space)
        with monkeypatch.context() as patch:
            patch.setattr(ready, "part", lambda *_: None)
            assert (near_lists.lists_of(tuned, space) == kept).all()


@pytest.mark.slow
def test_a_search_finds_a_codebook_of_that_value(monkeypatch):
    """The same one where the file was made; elsewhere rounding in float32 may lead it astray."""
    space = dp.default_space()
    kept = dp.NearestResponse.tuned(space, epsilon=6.0)
    monkeypatch.setattr(ready, "part", lambda *_: None)
    monkeypatch.setattr("dp_middleware._files.load", lambda *_: None)
    again = dp.NearestResponse.tuned(space, epsilon=6.0)
    unit, hit = space.centred_unit, []
    for tuned in (kept, again):
        best = unit @ unit[list(tuned.codebook)].T
        weight = np.expm1(6.0)
        mean = best.mean(axis=0).sum() + weight * best.max(axis=1).mean()
        hit.append(mean / (weight + len(tuned.codebook)))
    assert hit[0] == pytest.approx(hit[1], rel=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "step"), [(3.0, 7), (10.0, 11)])
def test_the_default_rows_are_drawn_bit_for_bit(epsilon, step):
    """Every integer of many rows of the default space, and of the unknown symbol."""
    space = dp.default_space()
    mechanism = dp.NearestResponse.tuned(space, epsilon=epsilon)
    rows = near_lists.near_rows(mechanism, space)
    some = np.arange(-1, len(space), step)
    for start in range(0, len(some), 512):
        ids = some[start : start + 512]
        for x, table in zip(ids, tables(rows_of(mechanism, ids, space)), strict=True):
            uniform = np.concatenate([table.lasts, table.lasts + np.uint64(1)])
            expected = table.locate(uniform, insecure_entropy(0))
            assert (rows.locate(np.full(len(uniform), x), uniform) == expected).all()
