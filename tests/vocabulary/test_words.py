"""Which tokens are one word, and lower-case words and signs as published word vectors have them."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.cases import over

import dp_middleware as dp
from dp_middleware.vocabulary.classes import word_numbers, word_of
from dp_middleware.vocabulary.tokenizers import LowerCaseTokenizer


def test_the_word_of_a_token():
    for token in ("The", " THE", "\u0120the", "\u2581The"):
        assert word_of(token, "") == "the"
    assert word_of("##Ing", "##") == "ing"
    for word in ("##ing", "##", " ", "\u00fc", "don't"):  # are left as they are
        assert word_of(word, "") == word_of(word.upper(), "") == word
    assert word_of("##", "##") == "##"


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


TOKENIZER = LowerCaseTokenizer()


@over(
    "text, tokens, joined",
    [
        ("It's well-known.", ["it", "'s", "well-known", "."], "it's well-known."),
        ("Don't pay $3.50 (now)!", ["do", "n't", "pay", "$", "3.50", "(", "now", ")", "!"], None),
        ("They’re in\tthe U.S.", ["they", "'re", "in", "the", "u", ".", "s", "."], None),
        ("", [], ""),
    ],
)
def test_tokens_by_hand(text, tokens, joined):
    assert [piece.token for piece in TOKENIZER.pieces(text)] == tokens
    if joined is not None:
        assert TOKENIZER.join(tokens) == joined
    assert TOKENIZER.join(["do", "n't", "(", "x", ")", ","]) == "don't (x),"


@given(st.text(max_size=40))
def test_places_are_those_of_the_text_and_nothing_but_blanks_is_left_out(text):
    end = 0
    for token, start, stop in TOKENIZER.pieces(text):
        assert token
        assert end <= start < stop <= len(text)
        end = stop
    words = "".join(c for c in text if c.isalnum())
    seen = "".join(text[start:stop] for _, start, stop in TOKENIZER.pieces(text))
    assert "".join(c for c in seen if c.isalnum()) == words
