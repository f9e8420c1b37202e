"""Lower-case words and signs, as published word vectors have them."""

import pytest
from hypothesis import given, strategies as st

from dp_middleware.vocabulary.tokenizers import LowerCaseTokenizer

TOKENIZER = LowerCaseTokenizer()


@pytest.mark.parametrize(
    ("text", "tokens", "joined"),
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
