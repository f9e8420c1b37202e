"""Tokens of language models as vocabularies: what counts as one, and that texts are read alike."""

from types import SimpleNamespace

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

import dp_middleware as dp
from dp_middleware.vocabulary.model_tokens import vocabulary_of

TEXT = "the cat sat on the mat and the naïve cat sat again"


@pytest.fixture(scope="module")
def sentence_pieces():
    """As Gemma's: blanks become a mark, unknown characters bytes."""
    own = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    own.normalizer = normalizers.Replace(" ", "▁")
    own.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    own.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    special = ["<pad>", "<unk>", *(f"<0x{k:02X}>" for k in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=special, show_progress=False)
    own.train_from_iterator([TEXT] * 9, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=own, unk_token="<unk>", pad_token="<pad>")


def test_sentence_pieces_keep_their_blank(sentence_pieces):
    vocabulary, ids = vocabulary_of("small", sentence_pieces)
    tokens = vocabulary.tokens
    assert not any("▁" in token or token.startswith("<") or not token.strip() for token in tokens)
    assert sorted(ids) == ids
    spelt = [piece.replace("▁", " ") for piece in sentence_pieces.convert_ids_to_tokens(ids)]
    assert list(tokens) == spelt
    encoded = vocabulary.encode(TEXT)
    assert len(encoded) > 9
    assert [ids[k] for k in encoded] == sentence_pieces(TEXT)["input_ids"]
    assert vocabulary.decode(encoded) == TEXT
    unknown = vocabulary.encode("the 漢")
    assert -1 in unknown
    assert vocabulary_of("small", sentence_pieces, 5)[0].tokens == tokens[:5]
    own = sentence_pieces.backend_tokenizer  # the model's stays as it is
    own.enable_truncation(3)
    try:
        assert len(vocabulary_of("small", sentence_pieces)[0].encode(TEXT)) > 3
        assert own.truncation is not None
    finally:
        own.no_truncation()


def test_other_tokenizers_are_refused():
    with pytest.raises(dp.ParameterError, match="fast tokenizer"):
        vocabulary_of("slow", SimpleNamespace())
    words = Tokenizer(models.WordLevel({"the": 0}, unk_token="the"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    with pytest.raises(dp.ParameterError, match="SentencePiece or WordPieces"):
        vocabulary_of("words", SimpleNamespace(backend_tokenizer=words))
