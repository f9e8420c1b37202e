"""Laws that several kinds share: exact losses, exact draws, what happens when lists are used up."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st
from support.cases import over
from support.session_draws import SeededDraws, law_of

from dp_middleware.errors import ParameterError
from dp_middleware.pseudonyms.draws import pattern
from dp_middleware.pseudonyms.kinds import Id, Person
from dp_middleware.pseudonyms.kinds.staircase import STEEPEST, Staircase
from dp_middleware.pseudonyms.mapping import combined, of_pattern

EPSILONS = [1e-9, 0.01, 0.5, 1.0, 2.0, 5.0, 12.0, 40.0, 800.0]


@over("epsilon", EPSILONS)
@over("points", [1, 2, 3, 10, 90, 300])
def test_the_loss_of_a_staircase_by_enumeration(epsilon, points):
    staircase = Staircase(epsilon)
    rows = [staircase.row(below, points) for below in range(points + 1)]
    assert len({sum(row) for row in rows}) == 1  # one normaliser
    worst = max(math.log(Fraction(max(column), min(column))) for column in zip(*rows, strict=True))
    assert worst <= staircase.loss <= epsilon
    if 1 <= staircase.near_points(points) < points:
        assert worst == pytest.approx(staircase.loss, abs=1e-15)
        assert staircase.loss == pytest.approx(min(epsilon, STEEPEST), rel=1e-5, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_the_number_of_near_points_makes_the_error_least(epsilon):
    points = 400

    def error(near):
        class Other(Staircase):
            def near_points(self, points):
                return near

        staircase, total = Other(epsilon), 0.0
        for value in range(0, points, 7):
            row = staircase.row(value, points)
            total += sum(w * abs(n - value) for n, w in enumerate(row)) / sum(row)
        return total

    best = min(error(near) for near in range(4, points, 4))
    assert error(Staircase(epsilon).near_points(points)) <= 1.02 * best


@given(below=st.integers(0, 40), points=st.integers(1, 40), epsilon=st.floats(0.01, 8))
def test_a_value_is_among_its_near_points(below, points, epsilon):
    row = Staircase(epsilon).row(min(below, points - 1), points)
    assert len(row) == points
    assert row[min(below, points - 1)] == max(row)


def test_draws_have_exactly_the_probabilities_of_their_weights():
    assert law_of(lambda draws: draws.pick([3, 0, 1, 2])) == {
        0: Fraction(1, 2),
        2: Fraction(1, 6),
        3: Fraction(1, 3),
    }


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


def test_nothing_free_is_refused():
    with pytest.raises(ParameterError, match="kind person"):
        Person().label(lambda _: False, SeededDraws())
