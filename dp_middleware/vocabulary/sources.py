"""Tokens that others have published, with the tokenizer that reads them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from dp_middleware import _files, _validate
from dp_middleware.errors import ParameterError, needs
from dp_middleware.vocabulary.bert import Bert
from dp_middleware.vocabulary.tokenizers import TiktokenTokenizer, spellings
from dp_middleware.vocabulary.word_pieces import WordPieceTokenizer

_WORD = re.compile(r" ?[A-Za-z]+")
T = TypeVar("T")


def from_tiktoken(encoding: str, size: int | None) -> tuple[list[str], TiktokenTokenizer]:
    """Lists tokens of an encoding that are ASCII letters with an optional leading blank.

    ParameterError: the encoding has fewer of them than ``size``.
    """
    _files.use_bundled_tiktoken_files()
    with needs("models"):
        import tiktoken

    source = tiktoken.get_encoding(encoding)
    words = [token for token in spellings(source) if token and _WORD.fullmatch(token)]
    return first(words, size, encoding), TiktokenTokenizer(source)


def from_encoder(name: str, size: int | None) -> tuple[list[str], WordPieceTokenizer]:
    """Lists an encoder's WordPieces in its order, special and unused tokens left out.

    ParameterError: the encoder does not use WordPieces, or has fewer tokens than ``size``.
    """
    if name == _files.DEFAULT_ENCODER:
        source: Any = default_bert()
    else:
        source = _files.encoder_tokenizer(name)
        if type(source.model).__name__ != "WordPiece":
            raise ParameterError(f"expected a WordPiece encoder, got {name!r}; pass a word list")
    tokenizer = WordPieceTokenizer(name, source)
    return first([*tokenizer.texts.values()], size, name), tokenizer


@cache
def default_bert() -> Bert:
    """Reads the WordPieces of the default encoder, which come with the package."""
    listed = (Path(__file__).parent / "data" / "wordpieces.txt").read_text(encoding="utf-8")
    return Bert(listed.removesuffix("\n").split("\n"))


def first(tokens: list[T], size: int | None, source: str) -> list[T]:
    """Takes so many of them, all for ``None``, or raises ParameterError if there are fewer."""
    if size is not None:
        _validate.at_least(1, size=size)
        if size > len(tokens):
            raise ParameterError(f"expected size <= {len(tokens)} for {source}, got size={size}")
    return tokens[:size]
