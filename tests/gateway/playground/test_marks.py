"""The pieces of a text are the text, and each is marked as what became of it."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import dp_middleware as dp
from dp_middleware.gateway.playground import marks
from dp_middleware.gateway.playground.marks import Drawn

SENTENCE = "do not can ' t stop playing , ( x ) . 50 % naïve 東京 they re"
SPELLINGS = tuple(SENTENCE.split())


def vocabulary(kind):
    if kind == "blanks":
        return dp.Vocabulary(sorted({*SPELLINGS}))
    if kind == "wordpiece":
        whole = dp.Vocabulary.from_encoder()
    else:
        whole = dp.Vocabulary.from_tiktoken("cl100k_base")
    ids = whole.encode(" ".join(SPELLINGS) + " unbelievable dog cat").tolist()
    tokens = [whole.tokens[number] for number in dict.fromkeys(ids) if number >= 0]
    return dp.Vocabulary(tokens, tokenizer=whole.tokenizer)


def sanitizer_of(kind, **options):
    words = vocabulary(kind)
    space = dp.EmbeddingSpace(words, np.random.default_rng(1).normal(size=(len(words), 4)))
    return dp.Sanitizer(dp.TokenExponential(epsilon=2.0), space, **options)


@pytest.fixture(scope="module", params=["blanks", "wordpiece", "tiktoken"])
def sanitizer(request):
    return sanitizer_of(request.param)


def marked(sanitizer, text):
    drawn = Drawn.of(sanitizer, text)
    words = sanitizer.space.vocabulary
    stays = {row.token: row.retention for row in sanitizer.explain(text).alternatives}
    original = marks.of_original(text, drawn.spans, drawn.tokens, words, stays)
    released = marks.of_release(drawn.release.text, drawn.tokens, words)
    return original, released, drawn.tokens, drawn.release


TEXTS = st.lists(st.sampled_from([*SPELLINGS, "unknown", "😀", "\n", "a" * 120])).map(" ".join)


@settings(max_examples=40)
@given(text=st.one_of(TEXTS, st.text(max_size=30)))
def test_all_pieces_together_are_the_texts(sanitizer, text):
    original, released, draft, release = marked(sanitizer, text)
    assert "".join(piece.text for piece in original) == text
    assert "".join(piece.text for piece in released) == release.text
    became = [x == y for x, y in zip(draft.ids, draft.outputs, strict=True)]
    for pieces in (original, released):
        assert sum(p.what == "stayed" for p in pieces) <= sum(became)  # tokens may share a sign
        if sanitizer.space.vocabulary.tokenizer.name == "blanks":
            assert [p.what == "stayed" for p in pieces if p.what != "blank"] == became


def test_what_a_policy_keeps_is_kept():
    sanitizer = sanitizer_of("blanks", policy=dp.KeepPolicy.words(["not"], label="no"))
    original, released, _, _ = marked(sanitizer, "do not stop not")
    for pieces in (original, released):
        assert [piece.text for piece in pieces if piece.what == "kept"] == ["not", "not"]


def test_names_in_any_case_but_no_english_words():
    text = "WILL SMITH will go, Will said"
    pieces = marks.of_names(text, ["Will", "Smith"])
    assert [p.text for p in pieces if p.what == "pseudonym"] == ["WILL", "SMITH", "Will"]
    assert "".join(piece.text for piece in pieces) == text
    assert marks.of_names("", ["x"]) == []


def test_what_was_drawn_hides_what_it_holds():
    drawn = Drawn.of(sanitizer_of("blanks"), "do stop")
    assert len(drawn.tokens.ids) == 2
    assert "stop" not in repr(drawn).replace(repr(drawn.release), "")
    with pytest.raises(TypeError):
        drawn.__reduce_ex__(2)
