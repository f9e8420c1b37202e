"""n-gram leakage: what of the raw document stands in the answer."""

import pytest
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.lab import attacks


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
