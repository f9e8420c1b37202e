"""Integer tables and weights of randomised response are exact, and draws from them are too."""

import math
import os
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings, strategies as st
from scipy import stats
from support.cases import over
from support.entropy import assert_draws_alike, at_boundaries

from dp_middleware.sampling import sampler as sampling
from dp_middleware.sampling.entropy import OTHER, Response
from dp_middleware.sampling.sampler import insecure_entropy

scores = st.lists(
    st.one_of(st.floats(-400, 400), st.just(-math.inf)), min_size=1, max_size=12
).filter(lambda row: any(math.isfinite(score) for score in row))


@given(row=scores)
def test_integers_add_up_to_the_total_and_live_on_the_support(row):
    log_probs = sampling.log_softmax(np.array([row]))
    rounded = sampling.integer_rows(log_probs)
    integers = sampling.tables(log_probs)[0].integers(len(row))
    bits = int(rounded.bits[0])
    assert sum(integers) == 2**bits
    assert [k > 0 for k in integers] == [math.isfinite(score) for score in row]
    assert [float(k) for k in integers] == rounded.weights[0].tolist()
    smallest = log_probs[np.isfinite(log_probs)].min()
    assert bits == (128 if smallest < sampling.WIDE_BELOW else 64)


def assert_nearest(found, expected, last):
    """Rounded exponentials of two libraries; the last one has what the others leave."""
    others = sum(expected) - expected[last]
    for k, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert abs(a - b) <= (EXP * others + len(found) if k == last else EXP * b + 1)


def sequence(*integers, width=8):
    source = iter(integers)

    def entropy(count):
        return b"".join(next(source).to_bytes(width, "little") for _ in range(count // width))

    return entropy


def test_boundaries_of_128_bits_use_the_lower_half():
    table = sampling.tables(sampling.log_softmax(np.array([[0.0, -50.0, -80.0, 0.0]])))[0]
    assert table.low is not None
    lasts = [(int(h) << 64) + int(k) for h, k in zip(table.lasts, table.low, strict=True)]
    for output, last in enumerate(lasts):
        high, low = last >> 64, last & (2**64 - 1)
        # the lower half is asked for only where the upper half does not decide
        assert table.draw(1, sequence(high, low)).tolist() == [output]
        if low + 1 < 2**64:
            assert table.draw(1, sequence(high, low + 1)).tolist() == [output + 1]


def test_every_boundary_falls_on_the_right_side_and_what_is_impossible_is_never_drawn():
    table = sampling.tables(np.log([[0.25, 0.5, 0.25]]))[0]
    quarter = 2**62
    uniform = [0, quarter - 1, quarter, 3 * quarter - 1, 3 * quarter, 2**64 - 1]
    assert table.draw(6, sequence(*uniform)).tolist() == [0, 0, 1, 1, 2, 2]
    table = sampling.tables(np.log([[1e-300, 0.5, 0.5]]))[0]
    assert table.integers(3)[0] == 1
    with np.errstate(divide="ignore"):
        sparse = sampling.tables(np.log([[0.0, 0.0, 1.0, 0.0]]))[0]
    assert sparse.draw(1000, sampling.os_entropy).tolist() == [2] * 1000
    assert sparse.integers(4) == [0, 0, 2**64, 0]


@st.composite
def laws(draw):
    """Rows with wide, sparse, steep and flat ones among them, and about as many as 40 outputs."""
    size = draw(st.integers(1, 40))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    scale = draw(st.sampled_from([0.0, 1.0, 10.0, 100.0]))
    rows = generator.normal(size=(5, size)) * scale
    if draw(st.booleans()):
        rows[:, 1:][generator.random((5, size - 1)) < 0.5] = -math.inf
    return sampling.log_softmax(rows)


@settings(max_examples=60, deadline=None)
@given(rows=laws(), seed=st.integers(0, 2**32))
def test_cached_rows_draw_what_their_tables_draw_bit_for_bit(rows, seed):
    """At uniform integers, and at and beside every boundary: there the table is asked again."""
    tables = sampling.tables(rows)
    sampler = sampling.Sampler(lambda ids: rows[ids])
    sampler.tables(np.arange(len(rows)))
    for number, table in enumerate(tables):
        words = at_boundaries(table) + sampling.insecure_entropy(seed)(8 * 200)
        assert_draws_alike(sampler, number, table, words)


@over("steep", [1.0, 40.0])
def test_every_draw_of_a_cached_row_is_decided_by_one_table(steep):
    """Rows that are computed anew may differ in the last bits; two tables mixed are no law."""
    row = steep * np.random.default_rng(1).normal(size=50)
    asked = []

    def rows(ids):
        asked.append(len(ids))
        return sampling.log_softmax(np.tile(row * (1 + 1e-9 * len(asked)), (len(ids), 1)))

    sampler = sampling.Sampler(rows)
    (table,) = sampler.tables(np.array([0]))
    assert_draws_alike(sampler, 0, table, at_boundaries(table))
    assert asked == [1]


def test_the_entropy_is_the_operating_systems():
    assert sampling.os_entropy is os.urandom
    sampler = sampling.Sampler(lambda ids: np.full((len(ids), 16), -math.log(16)))
    counts = np.bincount(sampler.draw(np.zeros(64_000, dtype=np.int64)), minlength=16)
    assert stats.chisquare(counts).pvalue > 1e-9


EXP = 2.0**-51
"""Between the exponentials of two libraries, each within a unit in the last place."""


def exact_integers(log_probs):
    """Integers of a row from Python's own: all but the first of the largest are rounded."""
    width = 128 if log_probs[np.isfinite(log_probs)].min() < sampling.WIDE_BELOW else 64
    weights = np.exp(log_probs) * 2.0**width
    found = [max(1, round(w)) if x > -math.inf else 0 for w, x in zip(weights, log_probs)]  # noqa: B905
    found[int(log_probs.argmax())] = 0
    found[int(log_probs.argmax())] = 2**width - sum(found)
    return found


def many():
    """More rows than are computed at a time, some of 128 bits."""
    scores = np.random.default_rng(0).normal(size=(40, 9000))
    return sampling.log_softmax(scores * np.linspace(0.1, 20.0, 40)[:, None])


@settings(max_examples=80, deadline=None)
@given(rows=laws())
@example(rows=many())
def test_rows_of_all_kinds_together_have_the_integers_of_each_alone(rows):
    mixed = np.concatenate([rows, np.full((1, rows.shape[1]), -np.log(rows.shape[1]))])
    together = sampling.integer_rows(mixed)
    for row, table, weights in zip(mixed, sampling.tables(mixed), together.weights, strict=True):
        alone = sampling.tables(row[None])[0]
        assert table.integers(len(row)) == alone.integers(len(row))
        kinds = [(each.low is None, each.support is None) for each in (table, alone)]
        assert kinds[0] == kinds[1]
        expected = exact_integers(row)
        found = table.integers(len(row))
        assert sum(found) == sum(expected)
        assert_nearest(found, expected, int(row.argmax()))
        assert [float(k) for k in found] == weights.tolist()


@given(st.fractions(min_value=Fraction(1, 10**6), max_value=700), st.integers(1, 50_000))
@example(Fraction(3), 1)
def test_the_weight_is_the_largest_below_epsilon(epsilon, size):
    response, digits = Response.of(epsilon, size), Context(prec=800)
    exact = digits.exp(digits.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator)))
    assert Decimal(response.best) <= digits.multiply(exact, OTHER) < Decimal(response.best + 2)
    if size > 1:
        true = digits.ln(digits.divide(Decimal(response.best), OTHER))
        assert Decimal(math.nextafter(response.loss, 0.0)) < true <= Decimal(response.loss)
    else:
        assert (response.loss, response.draw(0, insecure_entropy(0))) == (0.0, 0)


def test_every_integer_below_the_total_has_its_answer():
    response = Response(size=3, best=2 * OTHER)
    owned = {0: 0, 1: 0, 2: 0}
    for part in range(4):  # of OTHER integers each
        for place in (0, 1, OTHER - 1):
            number = part * OTHER + place
            bits = response.total.bit_length()
            size = (bits + 7) // 8
            shifted = (number << (8 * size - bits)).to_bytes(size, "little")
            owned[response.draw(1, lambda _, one=shifted: one)] += 1
    assert owned == {0: 3, 1: 6, 2: 3}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", [1, 2, 3, 11_000, 20_001])
def test_rows_are_normalised_alike_by_all_machines(size, threads):
    """As near as certificates assume of another machine; ``torch.log_softmax`` is not."""
    rng, before = np.random.default_rng(size), torch.get_num_threads()
    rows = np.vstack([np.arange(size) == 0, rng.random(size), 20 * rng.normal(size=size)])
    torch.set_num_threads(threads)
    try:
        found = sampling.log_softmax(rows.copy())
        alone = np.vstack([sampling.log_softmax(row[None].copy()) for row in rows])
    finally:
        torch.set_num_threads(before)
    assert np.array_equal(found, alone)
    off = np.abs(np.log(np.exp(found.astype(np.longdouble)).sum(axis=1)))
    assert (off <= 2.0**-50 * np.maximum(1.0, -found.min(axis=1))).all()
