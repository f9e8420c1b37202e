"""Attacks without a model: embedding inversion by the order of neighbours, n-gram leakage."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.cases import over
from support.spaces import space_of, spaces
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.lab import attacks


@given(spaces(), st.data())
@settings(max_examples=50)
def test_the_guesses_are_the_nearest_tokens(space, data):
    ids = st.lists(st.integers(0, len(space) - 1), min_size=5, max_size=5)
    raw, released = np.array(data.draw(ids)), np.array(data.draw(ids))
    found = attacks.embedding_inversion([raw], [released], space, top=(1, 2, 4))
    places = []
    for own, seen in zip(raw, released, strict=True):
        distances = space.distances([seen])[0]
        order = sorted(range(len(space)), key=lambda k: (k != seen, distances[k], k))
        places.append(order.index(own))
    for top in (1, 2, 4):
        assert found.details[f"top {top}"] == sum(place < top for place in places) / 5
    assert found.rate == np.mean(raw == released)


@over("raw, top, rate", [(1, 1, 1.0), (0, 1, 0.0), (0, 2, 1.0)])
def test_the_released_token_comes_before_its_duplicates(raw, top, rate):
    space = space_of([[0.0], [0.0], [1.0]])
    assert attacks.embedding_inversion([[raw]], [[1]], space, top=top).rate == rate


def test_texts_are_the_trials_and_unknown_tokens_are_left_out():
    space, raw = space_of(np.arange(10.0)[:, None]), [[1, 2, -1], [3, 4, 5], []]
    found = attacks.embedding_inversion(raw, [[1, 2, 7], [9, 9, 9], []], space, top=(1, 10))
    assert (found.trials, found.details["tokens"], found.details["top 10"]) == (2, 5.0, 1.0)
    assert (found.low, found.rate, found.high) == (0.0, pytest.approx(2 / 5), 1.0)


def test_distinct_n_grams_are_counted_by_hand():
    found = attacks.ngram_leakage(["The cat saw the cat, saw."], ["THE CAT saw a dog"])
    # words: the cat saw; bigrams: the-cat cat-saw saw-the; trigrams: 4, one of them shared
    assert found.rate == found.details["1-gram"] == 1.0
    assert found.details["2-gram"] == pytest.approx(2 / 3)
    assert found.details["3-gram"] == pytest.approx(1 / 3)
    assert "chance 1-gram" not in found.details


def test_the_answer_to_another_text_shows_what_common_words_give_away():
    texts = ["the red fox", "the blue sea", "the tall tree"]
    found = attacks.ngram_leakage(texts, texts)
    assert found.rate == 1.0
    assert found.details["chance 1-gram"] == pytest.approx(1 / 3)
    assert found.details["chance 2-gram"] == 0.0


def test_no_leak_is_a_rate_of_zero_with_an_upper_end():
    found = attacks.ngram_leakage(["a b c"] * 30, ["x y z"] * 30)
    assert (found.rate, found.low, found.trials) == (0.0, 0.0, 30)
    assert 0.05 < found.high < 0.15


def test_no_text_is_in_results_or_errors():
    found = attacks.ngram_leakage([f"the {CANARY} is here"], [f"a {CANARY}"])
    assert CANARY not in repr(found)
    for raw, answers in ((CANARY, [CANARY]), ([CANARY], [])):
        with pytest.raises(dp.ParameterError) as caught:
            attacks.ngram_leakage(raw, answers)
        assert CANARY not in str(caught.value)


def test_scripts_without_blanks_have_words():
    found = attacks.ngram_leakage(["病人今天咳嗽"], ["他说病人今天好"])
    assert found.rate == pytest.approx(4 / 6)
    assert found.details["2-gram"] == pytest.approx(3 / 5)
