"""How often tokens occur: the list of English words, and counts in texts."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

import dp_middleware as dp
from dp_middleware.vocabulary import frequencies
from dp_middleware.vocabulary.tokenizers import TextPiece


def test_shares_in_english_and_in_texts():
    vocabulary = dp.Vocabulary(["knee", "the", "zebra", "qqq"])
    shares = frequencies.english(vocabulary)
    assert shares[1] == 10**-1.3  # one word in twenty
    assert shares[1] > shares[0] > shares[2] > shares[3] == 0
    bpe = dp.Vocabulary.from_tiktoken("cl100k_base", size=2000, unknown="raise")
    shares = frequencies.english(bpe)
    assert shares[bpe.id_of(" the")] == pytest.approx(10**-1.3, rel=1e-3)
    assert shares.sum() > 0.5
    found = frequencies.in_texts(vocabulary, ["knee the knee", "cough the"])
    assert found == pytest.approx([0.5, 0.5, 0.0, 0.0])
    assert not frequencies.in_texts(vocabulary, ["cough"]).any()


class Letters:
    """Each letter is a token."""

    name, continuation = "letters", ""

    def pieces(self, text):
        return [TextPiece(c, place, place + 1) for place, c in enumerate(text) if c != " "]

    def join(self, tokens):
        return "".join(tokens)


def test_a_word_of_several_tokens_counts_for_each_of_them():
    words, shares = frequencies._words()
    found = frequencies.english(dp.Vocabulary(["e", "q", "?"], tokenizer=Letters()))
    expected = [sum(np.array([w.count(c) for w in words]) * shares) for c in "eq"]
    assert found == pytest.approx([*expected, 0.0])


def test_an_english_vocabulary_has_half_of_the_words():
    words, shares = frequencies._words()
    assert 0.9 < shares.sum() < 1
    assert len(set(words)) == len(words) == 30_000
    half = int(np.searchsorted(np.cumsum(shares), 0.5)) + 1
    assert frequencies.is_english(dp.Vocabulary([f" {word}" for word in words[:half]]))
    assert not frequencies.is_english(dp.Vocabulary(words[: half - 2]))
    assert not frequencies.is_english(dp.Vocabulary(["der", "die", "das", "Knie"]))


def test_stop_words_are_those_of_scikit_learn():
    """They are read from its file, which is no part of its interface."""
    assert frequencies.stop_words() == ENGLISH_STOP_WORDS
