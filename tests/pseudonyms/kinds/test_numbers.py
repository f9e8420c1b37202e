"""Amounts, ages and numbers, and laws that kinds share: what is drawn from is enumerated."""

import math
import re
from collections import Counter
from fractions import Fraction
from zlib import crc32

import pytest
from hypothesis import given, strategies as st
from scipy import stats
from support.cases import over
from support.session_draws import Names, SeededDraws, law_of, replaced

from dp_middleware.pseudonyms.draws import pattern
from dp_middleware.pseudonyms.kinds import Age, Amount, Id, Number
from dp_middleware.pseudonyms.kinds.numbers import STEEPEST, Staircase
from dp_middleware.pseudonyms.mapping import combined, of_pattern


def rows(kind, shape, values, free=lambda _: True):
    points = kind.points(shape, free)
    return [kind.weights(kind.key(value, shape), shape, points) for value in values]


def worst(rows):
    """Nats between any two rows, whose sums are equal."""
    assert len({sum(row) for row in rows}) == 1
    return max(math.log(Fraction(max(column), min(column))) for column in zip(*rows, strict=True))


SHAPES = {
    "9": [str(n) for n in range(10)],
    "$99": [f"${n}" for n in range(10, 100)],
    "999": [str(n) for n in range(100, 1000, 9)],
    "$99,999.99": [f"${n:,}.37" for n in range(10_000, 100_000, 977)],
    "$0.99": [f"$0.{n:02d}" for n in range(100)],
    "099": [f"0{n:02d}" for n in range(0, 100, 3)],
}


@over("epsilon", [0.1, 1.0, 3.0, 8.0])
@over("shape", SHAPES)
def test_the_loss_between_any_two_values_by_enumeration(shape, epsilon):
    kind, uniform = Amount(epsilon=epsilon), Amount(law="uniform")
    assert worst(rows(kind, shape, SHAPES[shape])) == pytest.approx(kind.loss, abs=1e-12)
    assert kind.loss <= epsilon <= kind.loss + 1e-5
    assert worst(rows(uniform, shape, SHAPES[shape])) == uniform.loss == 0
    for part in (2, 3):  # of the points are not in use
        found = rows(kind, shape, SHAPES[shape], lambda text: crc32(text.encode()) % part)  # noqa: B023
        assert worst(found) <= kind.loss + 1e-12


def test_draws_are_those_of_the_weights_exactly(monkeypatch):
    monkeypatch.setattr(Staircase, "weights", (3, 1))  # few enough to be enumerated
    kind, free = Amount(epsilon=1.0), lambda text: text != "$3"
    points, key = kind.points("$9", free), kind.key("$7", "$9")
    weights = kind.weights(key, "$9", points)
    law = law_of(lambda draws: kind.draw(key, "$9", free, draws))
    assert law == {f"${p}": Fraction(w, sum(weights)) for p, w in zip(points, weights, strict=True)}
    assert weights != kind.weights(kind.key("$1", "$9"), "$9", points)


def test_lower_digits_are_uniform():
    drawn = [replaced(Amount(), "$12,345.67", seed) for seed in range(5000)]
    for place in (-1, -2, -4, -5):
        assert stats.chisquare([*Counter(text[place] for text in drawn).values()]).pvalue > 1e-4


def test_ages():
    kind = Age(epsilon=2.0)
    ages = [str(n) for n in range(100)]
    assert worst(rows(kind, "9", ages)) == pytest.approx(kind.loss)
    assert {kind.parts(age)[0].shape for age in ages} == {"9"}
    assert kind._shape("100") == ""
    assert re.fullmatch("[0-9]+-year-old", replaced(kind, "42-year-old"))
    assert re.fullmatch("aged AGE_[0-9]+", replaced(kind, "aged 130"))


def test_the_value_is_near():
    def error(epsilon):
        drawn = [int(replaced(Age(epsilon=epsilon), "40", seed)) for seed in range(400)]
        return sum(abs(age - 40) for age in drawn)

    assert error(0.01) > 2 * error(3.0) > 4 * error(8.0)


AMOUNTS = [("$12,500.00", r"\$[1-9]\d,\d{3}\.\d\d"), ("12.500,00 EUR", r"[1-9]\d\.\d{3},\d\d EUR")]
AMOUNTS += [("€1 234 567", r"€[1-9] \d{3} \d{3}"), ("5 million dollars", r"\d million dollars")]
AMOUNTS += [("$5 to $10", r"\$\d to \$[1-9]\d"), ("$0.75", r"\$0\.\d\d")]
AMOUNTS += [("USD 1,000", r"USD [1-9],\d{3}"), ("12%", r"[1-9]\d%"), ("٤٢ USD", r"[1-9]\d USD")]
AMOUNTS += [("five dollars", r"AMOUNT_\d\d"), ("500 bottles of gin", r"AMOUNT_\d\d")]


@over("mention, pattern", AMOUNTS)
@over("law", ["near", "uniform"])
def test_formats_stay(mention, pattern, law):
    for seed in range(20):
        assert re.fullmatch(pattern, replaced(Amount(law=law), mention, seed), re.ASCII)


def test_small_numbers_that_are_used_up_become_labels():
    names = Names(Number(), SeededDraws())
    drawn = [names(f"-{n}") for n in range(10)]
    assert len({*drawn}) == 10
    assert names.free("NUMBER_10")
    names.used |= {str(n) for n in range(1000)}
    assert names("12").startswith("NUMBER_")


EPSILONS = [1e-9, 0.01, 0.5, 1.0, 2.0, 5.0, 12.0, 40.0, 800.0]


@over("epsilon", EPSILONS)
@over("points", [1, 2, 3, 10, 90, 300])
def test_the_loss_of_a_staircase_by_enumeration(epsilon, points):
    staircase = Staircase(epsilon)
    loss = worst([staircase.row(below, points) for below in range(points + 1)])
    assert loss <= staircase.loss <= epsilon
    if 1 <= staircase.near_points(points) < points:
        assert loss == pytest.approx(staircase.loss, abs=1e-15)
        assert staircase.loss == pytest.approx(min(epsilon, STEEPEST), rel=1e-5, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_the_number_of_near_points_makes_the_error_least(epsilon, monkeypatch):
    points = 400

    def error(near):
        monkeypatch.setattr(Staircase, "near_points", lambda self, points: near)
        total = 0.0
        for value in range(0, points, 7):
            row = Staircase(epsilon).row(value, points)
            total += sum(w * abs(n - value) for n, w in enumerate(row)) / sum(row)
        return total

    chosen = error(Staircase(epsilon).near_points(points))
    assert chosen <= 1.02 * min(error(near) for near in range(4, points, 4))


@given(below=st.integers(0, 40), points=st.integers(1, 40), epsilon=st.floats(0.01, 8))
def test_a_value_is_among_its_near_points(below, points, epsilon):
    row = Staircase(epsilon).row(min(below, points - 1), points)
    assert len(row) == points
    assert row[min(below, points - 1)] == max(row)


def test_draws_have_exactly_the_probabilities_of_their_weights():
    law = law_of(lambda draws: draws.pick([3, 0, 1, 2]))
    assert law == {0: Fraction(1, 2), 2: Fraction(1, 6), 3: Fraction(1, 3)}


def test_a_pattern_is_uniform_among_what_is_free():
    law = law_of(lambda draws: of_pattern("-9", lambda text: text not in ("-3", "-4"), draws))
    assert law == {f"-{digit}": Fraction(1, 8) for digit in "01256789"}


@given(st.text(max_size=30))
def test_a_pattern_holds_no_letter_or_digit_of_its_text(text):
    shape = pattern(text)
    assert len(shape) == len(text)
    assert {c for c in shape if c.isalnum()} <= {"9", "A", "a"}
    assert pattern(SeededDraws().fill(shape)) == shape


def test_patterns_that_are_used_up_become_labels():
    used, draws = set(), SeededDraws()
    for n in range(300):
        text = Id().draw("", "9", lambda text: text not in used, draws)
        used.add(text)
        assert (len(text) == 1) == (n < 10)
        assert text.startswith("ID_") or n < 10


def test_lists_that_are_used_up_are_combined():
    used, draws = set(), SeededDraws()
    for _ in range(500):
        used.add(combined("x", lambda: "abc"[draws.below(3)], "-", lambda text: text not in used))
    assert len(used) == 500
    assert {"a", "b", "c"} <= used
