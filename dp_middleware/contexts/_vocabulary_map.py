"""Which token of a language model stands for each token of a vocabulary."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dp_middleware.embedding.arrays import Ids
from dp_middleware.errors import ParameterError
from dp_middleware.vocabulary.vocabulary import Vocabulary

_BLANK_BYTE, _BLANK_PIECE = "Ġ", "▁"  # a blank before, in byte-level and SentencePiece tokens
_COMMON = 0.02  # share of tokens with the mark that makes it one: it may also be a letter
_CONTINUATION = "##"
_CLOSING = frozenset(".,;:!?)]}%'")  # WordPieces of their own, but written without a blank before


class _Form(NamedTuple):
    """A token's letters, and whether a word starts with it."""

    letters: str
    starts: bool


def model_ids(vocabulary: Vocabulary, tokenizer: Any) -> Ids:
    """Maps each token of the vocabulary to one of the model's, int64 (V,): positions stay aligned.

    The model's own token of the same letters that also starts (or continues) a word, and of a
    closing sign the one that follows without a blank; else the first piece into which the model's
    tokenizer splits the token, an approximation; else its unknown token.
    """
    own = _own_tokens(tokenizer)
    forms = _forms(vocabulary)
    if vocabulary.tokenizer.continuation and _mark(tokenizer):
        forms = [
            form._replace(starts=form.starts and form.letters not in _CLOSING) for form in forms
        ]
    numbers = [own.get(form) for form in forms]
    missing = [k for k, number in enumerate(numbers) if number is None]
    if missing:
        blank = " " if _mark(tokenizer) == _BLANK_BYTE else ""
        texts = [(blank if forms[k].starts else "") + forms[k].letters for k in missing]
        pieces = tokenizer(texts, add_special_tokens=False)["input_ids"]
        unknown = unknown_id(tokenizer)
        for k, parts in zip(missing, pieces, strict=True):
            numbers[k] = parts[0] if parts else unknown
    return np.array(numbers, dtype=np.int64)


def unknown_id(tokenizer: Any) -> int:
    """Returns what the model is fed for an unknown token, or raises ParameterError."""
    names = ("unk_token_id", "mask_token_id", "bos_token_id", "eos_token_id")
    numbers = [getattr(tokenizer, name, None) for name in names]
    known = [int(number) for number in numbers if number is not None]
    if not known:
        raise ParameterError("expected a tokenizer with an unknown, mask, start or end token")
    return known[0]


def _forms(vocabulary: Vocabulary) -> list[_Form]:
    """Three kinds of vocabulary: ``##x`` continues; a blank starts; or all are words."""
    continuation = vocabulary.tokenizer.continuation
    blanks = any(token.startswith(" ") for token in vocabulary.tokens)
    if continuation:
        return [_word_piece(token, continuation) for token in vocabulary.tokens]
    return [
        _Form(token.removeprefix(" "), token.startswith(" ")) if blanks else _Form(token, True)
        for token in vocabulary.tokens
    ]


def _word_piece(token: str, continuation: str) -> _Form:
    if token.startswith(continuation) and token != continuation:
        return _Form(token.removeprefix(continuation), False)
    return _Form(token, True)


def _own_tokens(tokenizer: Any) -> dict[_Form, int]:
    """The model's tokens by form, special ones left out, the smallest id first."""
    special = set(tokenizer.all_special_ids)
    entries = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    mark = _mark(tokenizer)
    own: dict[_Form, int] = {}
    for token, number in entries:
        if number in special:
            continue
        if not mark:
            form = _word_piece(token, _CONTINUATION)
        elif token.isascii():
            form = _Form(token, False)
        else:  # the mark, and letters that stand for bytes
            letters = tokenizer.convert_tokens_to_string([token]).removeprefix(" ")
            form = _Form(letters, token.startswith(mark))
        own.setdefault(form, number)
    return own


def _mark(tokenizer: Any) -> str:
    """What a token that starts a word begins with; empty for WordPieces."""
    tokens = tokenizer.get_vocab()
    for mark in (_BLANK_BYTE, _BLANK_PIECE):
        if sum(token.startswith(mark) for token in tokens) > _COMMON * len(tokens):
            return mark
    return ""
