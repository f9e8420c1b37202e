"""Amounts, ages and numbers: the law that is drawn from is enumerated."""

import math
import re
from collections import Counter
from fractions import Fraction
from zlib import crc32

import pytest
from scipy import stats
from support.cases import over
from support.session_draws import Names, SeededDraws, replaced

from dp_middleware.errors import ParameterError
from dp_middleware.pseudonyms.kinds import Age, Amount, Number


def always(_):
    return True


def rows(kind, shape, values, free=always):
    points = kind.points(shape, free)
    return [kind.weights(kind.key(value, shape), shape, points) for value in values]


def worst(rows):
    """Nats between any two rows, whose sums are equal."""
    assert len({sum(row) for row in rows}) == 1
    return max(math.log(max(column) / min(column)) for column in zip(*rows, strict=True))


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
    kind = Amount(epsilon=epsilon)
    loss = worst(rows(kind, shape, SHAPES[shape]))
    assert loss == pytest.approx(kind.loss, abs=1e-12)
    assert kind.loss <= epsilon <= kind.loss + 1e-5


@over("epsilon", [0.1, 1.0, 3.0])
@over("shape", ["9", "$99", "999"])
@over("part", [2, 3])
def test_the_loss_where_points_are_in_use(shape, epsilon, part):
    kind = Amount(epsilon=epsilon)
    loss = worst(rows(kind, shape, SHAPES[shape], lambda text: crc32(text.encode()) % part))
    assert loss <= kind.loss + 1e-12


@over("shape", SHAPES)
def test_values_have_their_shape_and_lie_on_its_grid(shape):
    kind = Amount()
    for value in SHAPES[shape]:
        assert kind._shape(value) == shape
        assert kind._value(kind.key(value, shape), shape) in kind._grid(shape)
        assert len(kind._grid(shape)) <= 1000


def test_draws_are_those_of_the_weights_exactly():
    kind = Amount(epsilon=1.0)

    draws = SeededDraws(4)
    points = kind.points("$9", lambda text: text != "$3")
    key, other = kind.key("$7", "$9"), kind.key("$1", "$9")
    weights = kind.weights(key, "$9", points)
    drawn = Counter(kind.draw(key, "$9", lambda text: text != "$3", draws) for _ in range(20_000))
    assert "$3" not in drawn

    def fit(weights):
        expected = [20_000 * weight / sum(weights) for weight in weights]
        return stats.chisquare([drawn[f"${point}"] for point in points], expected).pvalue

    assert fit(weights) > 1e-4
    assert fit(kind.weights(other, "$9", points)) < 1e-9  # of another value
    assert fit(Amount(epsilon=1.2).weights(key, "$9", points)) < 1e-4
    assert fit(Amount(law="uniform").weights(key, "$9", points)) < 1e-9


def test_lower_digits_are_uniform():
    kind, draws = Amount(), SeededDraws()
    drawn = [
        kind.draw(kind.key("$12,345.67", "$99,999.99"), "$99,999.99", always, draws)
        for _ in range(5000)
    ]
    for place in (-1, -2, -4, -5):
        assert stats.chisquare([*Counter(text[place] for text in drawn).values()]).pvalue > 1e-4


def test_two_entities_lose_their_losses_and_no_more():
    """The joint law of two pseudonyms, drawn without replacement, for all pairs of values."""
    kind = Number(epsilon=1.0)
    points = range(10)

    def joint(first, second):
        law = {}
        for one, weight in zip(
            points, kind.weights(kind.key(first, "9"), "9", [*points]), strict=True
        ):
            rest = kind.points("9", lambda text, one=one: text != str(one))
            row = kind.weights(kind.key(second, "9"), "9", rest)
            for other, chance in zip(rest, row, strict=True):
                law[one, other] = Fraction(weight, 1) * Fraction(chance, sum(row))
        return law

    values = [("0", "9"), ("9", "0"), ("4", "5"), ("5", "4"), ("2", "7")]
    laws = [joint(*pair) for pair in values]
    assert len({sum(law.values()) for law in laws}) == 1
    loss = max(math.log(max(law[y] for law in laws) / min(law[y] for law in laws)) for y in laws[0])
    assert kind.loss < loss <= 2 * kind.loss + 1e-12


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
        kind, draws = Age(epsilon=epsilon), SeededDraws()
        return (
            sum(
                abs(int(kind.draw(kind.key("40", "9"), "9", always, draws)) - 40)
                for _ in range(400)
            )
            / 400
        )

    assert error(0.01) > 2 * error(3.0) > 4 * error(8.0)


@over(
    "mention, pattern",
    [
        ("$12,500.00", r"\$[1-9]\d,\d{3}\.\d\d"),
        ("12.500,00 EUR", r"[1-9]\d\.\d{3},\d\d EUR"),
        ("€1 234 567", r"€[1-9] \d{3} \d{3}"),
        ("5 million dollars", r"\d million dollars"),
        ("$5 to $10", r"\$\d to \$[1-9]\d"),
        ("$0.75", r"\$0\.\d\d"),
        ("USD 1,000", r"USD [1-9],\d{3}"),
        ("12%", r"[1-9]\d%"),
        ("٤٢ USD", r"[1-9]\d USD"),
        ("five dollars", r"AMOUNT_\d\d"),
        ("500 bottles of gin", r"AMOUNT_\d\d"),
    ],
)
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


def test_uniform_loses_nothing():
    assert Amount(law="uniform").loss == 0
    assert worst(rows(Amount(law="uniform"), "999", SHAPES["999"])) == 0


@pytest.mark.parametrize("parameters", [{"law": "far"}, {"epsilon": 0}, {"epsilon": math.inf}])
def test_bad_parameters(parameters):
    with pytest.raises(ParameterError):
        Amount(**parameters)
