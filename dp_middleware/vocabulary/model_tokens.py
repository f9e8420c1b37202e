"""A language model's own tokens as a vocabulary: byte-level, SentencePiece or WordPieces."""

from __future__ import annotations

from typing import Any

from dp_middleware.errors import ParameterError
from dp_middleware.vocabulary.bert import WordPieceTokenizer
from dp_middleware.vocabulary.tokenizers import LibraryTokenizer, first
from dp_middleware.vocabulary.vocabulary import Vocabulary

_KINDS = ("ByteLevel", "Metaspace", "Sequence")  # decoders whose tokens keep their leading blank


def vocabulary_of(
    name: str, tokenizer: Any, size: int | None = None
) -> tuple[Vocabulary, list[int]]:
    """Makes a vocabulary of a model's tokens that are text, with the model's id of each.

    Special and added tokens, blanks, and parts of characters are left out; ``size``: the first so
    many. ParameterError: a slow tokenizer, one of another kind, or of fewer tokens.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ParameterError(f"expected a fast tokenizer, got {type(tokenizer).__name__}")
    own = type(backend).from_str(backend.to_str())  # the model's stays as it is
    own.no_truncation()
    own.no_padding()
    own.encode_special_tokens = True
    if type(own.model).__name__ == "WordPiece":
        reader: LibraryTokenizer = WordPieceTokenizer(name, own)
    elif type(own.decoder).__name__ in _KINDS:
        reader = LibraryTokenizer(f"model:{name}", own, _spellings(own))
    else:
        raise ParameterError(
            "expected a tokenizer of bytes, SentencePiece or WordPieces, got another; make "
            "dp.Vocabulary(tokens, tokenizer=...) for it"
        )
    spelt = reader.texts
    numbers = {token: n for n, token in sorted(spelt.items(), reverse=True)}  # the first of equals
    chosen = first(sorted(numbers.values()), size, "this model")
    return Vocabulary([spelt[n] for n in chosen], tokenizer=reader), chosen


def _spellings(tokenizer: Any) -> list[str | None]:
    """The string of each token that is whole characters, no added one; ``""`` for blanks."""
    from tokenizers.decoders import ByteLevel

    added = set(tokenizer.get_added_tokens_decoder())
    is_bytes, numbers = type(tokenizer.decoder).__name__ == "ByteLevel", tokenizer.get_vocab()
    reader, spelt = ByteLevel(), list[str | None]([None] * (1 + max(numbers.values())))
    for token, number in numbers.items():
        if number in added:
            continue
        text = reader.decode([token]) if is_bytes else token.replace("▁", " ")
        if "\ufffd" not in text and not (token.startswith("<0x") and token.endswith(">")):
            spelt[number] = text if text.strip() else ""
    return spelt
