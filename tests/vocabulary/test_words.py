"""Which tokens are one word: case, blanks around and marks of continued words do not count."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.cases import over

import dp_middleware as dp
from dp_middleware.vocabulary.words import word_numbers, word_of


@over(
    "token, mark, word",
    [
        ("The", "", "the"),
        (" THE", "", "the"),
        ("\u0120the", "", "the"),
        ("\u2581The", "", "the"),
        ("##Ing", "##", "ing"),
        ("##ing", "", "##ing"),
        ("##", "##", "##"),
        (" ", "", " "),
        ("\u00dc", "", "\u00fc"),
        ("don't", "", "don't"),
    ],
)
def test_the_word_of_a_token(token, mark, word):
    assert word_of(token, mark) == word


def test_words_are_numbered_by_their_first_tokens():
    vocabulary = dp.Vocabulary([" the", "cat", "The", "CAT", "mat", "the"])
    numbers = word_numbers(vocabulary)
    assert numbers.tolist() == [0, 1, 0, 1, 2, 0]
    assert numbers.dtype == np.int64
    with pytest.raises(ValueError, match="read-only"):
        numbers[0] = 1


@given(st.lists(st.text("aAbB #", min_size=1, max_size=3), min_size=1, unique=True))
def test_equal_numbers_are_equal_words(tokens):
    vocabulary = dp.Vocabulary(tokens)
    numbers, words = word_numbers(vocabulary), [word_of(token) for token in tokens]
    assert all(words)
    for i, word in enumerate(words):
        for j, other in enumerate(words):
            assert (numbers[i] == numbers[j]) == (word == other)
    assert set(numbers.tolist()) == set(range(len(set(words))))
