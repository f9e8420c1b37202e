"""A language model's own tokens as a vocabulary: byte-level, SentencePiece or WordPieces."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_middleware import _validate
from dp_middleware.errors import ParameterError
from dp_middleware.vocabulary.tokenizers import (
    NumberedTokenizer,
    Piece,
    clean,
    numbers_of,
    sections,
)
from dp_middleware.vocabulary.vocabulary import Vocabulary
from dp_middleware.vocabulary.word_pieces import WordPieceTokenizer

_BLANK_PIECE = "▁"
_KINDS = ("ByteLevel", "Metaspace", "Sequence")  # decoders whose tokens keep their leading blank


class ModelTokenizer(NumberedTokenizer):
    """Byte-level or SentencePiece tokens of a model; token strings keep their leading blank.

    Args:
        name: Of the model.
        tokenizer: Of the ``tokenizers`` library; special tokens are read as text.
    """

    continuation = ""

    def __init__(self, name: str, tokenizer: Any) -> None:
        self.name = f"model:{name}"
        self._tokenizer = tokenizer
        self.spellings = _spellings(tokenizer)

    def numbers(self, text: str) -> NDArray[np.int64]:
        """Those of a text in reading order."""
        return numbers_of(self._tokenizer, text)

    def pieces(self, text: str) -> list[Piece]:
        """Tokens of a text with their places; blanks carry no word and are left out."""
        offsets, parts = zip(*sections(clean(text)), strict=True)
        encodings = self._tokenizer.encode_batch(parts, add_special_tokens=False)
        pieces = [
            Piece(self.spellings[number], offset + start, offset + end)
            for offset, encoding in zip(offsets, encodings, strict=True)
            for number, (start, end) in zip(encoding.ids, encoding.offsets, strict=True)
        ]
        return [piece for piece in pieces if piece.token != ""]


def vocabulary_of(
    name: str, tokenizer: Any, size: int | None = None
) -> tuple[Vocabulary, list[int]]:
    """A model's tokens that are text, and the model's id of each.

    Special and added tokens, blanks, and parts of characters are left out.

    Args:
        name: Of the model.
        tokenizer: Of the ``transformers`` library, a fast one.
        size: The first so many of them, in the model's order; ``None``: all.

    Raises:
        ParameterError: A slow tokenizer, one of another kind, or of fewer tokens.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ParameterError(f"expected a fast tokenizer, got {type(tokenizer).__name__}")
    own = type(backend).from_str(backend.to_str())  # the model's stays as it is
    own.no_truncation()
    own.no_padding()
    own.encode_special_tokens = True
    if type(own.model).__name__ == "WordPiece":
        reader: ModelTokenizer | WordPieceTokenizer = WordPieceTokenizer(name, own)
        added = {token.content for token in own.get_added_tokens_decoder().values()}
        left_out = added | {own.model.unk_token}
        spelt = {n: token for token, n in own.get_vocab().items() if token not in left_out}
        spelt = {n: token for n, token in spelt.items() if not token.startswith("[unused")}
    elif type(own.decoder).__name__ in _KINDS:
        reader = ModelTokenizer(name, own)
        spelt = {n: token for n, token in enumerate(reader.spellings) if token}
    else:
        raise ParameterError(
            "expected a tokenizer of bytes, SentencePiece or WordPieces, got another; make "
            "dp.Vocabulary(tokens, tokenizer=...) for it"
        )
    numbers = {token: n for n, token in sorted(spelt.items(), reverse=True)}  # the first of equals
    chosen = sorted(numbers.values())
    if size is not None:
        _validate.at_least(1, size=size)
        if size > len(chosen):
            raise ParameterError(f"expected size <= {len(chosen)} for this model, got size={size}")
    chosen = chosen[:size]
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
        text = reader.decode([token]) if is_bytes else token.replace(_BLANK_PIECE, " ")
        if "\ufffd" not in text and not (token.startswith("<0x") and token.endswith(">")):
            spelt[number] = text if text.strip() else ""
    return spelt
