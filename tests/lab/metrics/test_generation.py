"""Diversity and MAUVE: by hand, against the library, and where nothing is there to compare."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import dp_middleware as dp
from dp_middleware.lab import metrics
from dp_middleware.lab.metrics.generation import mauve_of


def test_diversity_by_hand():
    found = metrics.diversity(["a b a b a", "c d e"])
    # bigrams ab ba ab ba, cd de; trigrams aba bab aba, cde; 4-grams abab baba
    shares = {"distinct 2-grams": 4 / 6, "distinct 3-grams": 3 / 4, "distinct 4-grams": 2 / 2}
    assert found.details == pytest.approx(shares)
    assert found.value == pytest.approx(4 / 6 * 3 / 4)
    assert found.low <= found.value <= found.high


def test_diversity_of_repetition_and_of_none():
    assert metrics.diversity(["one two three four five", "six seven"]).value == 1.0
    looped = metrics.diversity(["so " * 400])
    assert looped.value == pytest.approx(1 / 399 * 1 / 398 * 1 / 397)
    assert (looped.low, looped.high) == (0.0, 1.0)
    assert metrics.diversity(["", "word", "😀"]).value == 1.0
    assert metrics.diversity(["猫猫猫猫"]).details["distinct 2-grams"] == pytest.approx(1 / 3)
    with pytest.raises(dp.ParameterError, match="at least one text"):
        metrics.diversity([])


def texts(alphabet, count, seed):
    draws = np.random.default_rng(seed)
    return ["".join(draws.choice(list(alphabet), 12)) for _ in range(count)]


def test_mauve_orders_and_is_deterministic(letters):
    pytest.importorskip("mauve")
    human = texts("abcdef", 40, seed=0)
    near = metrics.mauve(human, texts("abcdef", 30, seed=1), service=letters)
    far = metrics.mauve(human, texts("uvwxyz", 30, seed=2), service=letters)
    assert metrics.mauve(human, human, service=letters).value == pytest.approx(1.0)
    assert near.value > 0.5 > far.value
    assert far.value < 0.05
    for found in (near, far):
        assert 0 <= found.low <= found.value <= found.high <= 1
        assert (found.trials, found.details["buckets"]) == (70, 3)
    assert metrics.mauve(human, texts("abcdef", 30, seed=1), service=letters) == near


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6))
def test_mauve_of_histograms_is_the_librarys(counts):
    library = pytest.importorskip("mauve.compute_mauve")
    p, q = np.array([(1, 1), *counts], dtype=float).T
    p, q = p / p.sum(), q / q.sum()
    weights = np.linspace(1e-6, 1 - 1e-6, 25)
    x, y = library.get_divergence_curve_for_multinomials(p, q, weights, 5).T
    area = library.compute_area_under_curve
    expected = (area(np.sort(x), y[np.argsort(x)]) + area(np.sort(y), x[np.argsort(y)])) / 2
    found = mauve_of(p, q)
    if np.array_equal(p, q):  # the library's ties come in any order
        assert found == pytest.approx(1.0)
    else:
        assert found == pytest.approx(expected, abs=1e-9)


def test_mauve_of_equal_texts_and_too_few(letters):
    pytest.importorskip("mauve")
    assert metrics.mauve(["a"] * 3, ["a"] * 3, service=letters).value == pytest.approx(1.0)
    assert metrics.mauve(["", "猫"], ["😀", "b"], service=letters).trials == 4
    with pytest.raises(dp.ParameterError, match="at least two texts"):
        metrics.mauve(["a"], ["b", "c"], service=letters)
