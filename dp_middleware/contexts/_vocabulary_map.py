"""Which token of a language model stands for each token of a vocabulary."""

from __future__ import annotations

from typing import Any

import numpy as np

from dp_middleware.embedding.arrays import Ids
from dp_middleware.errors import ParameterError
from dp_middleware.vocabulary.vocabulary import Vocabulary

_BLANK_BYTE, _BLANK_PIECE = "Ġ", "▁"  # a blank before, in byte-level and SentencePiece tokens
_COMMON = 0.02  # share of tokens with the mark that makes it one: it may also be a letter
_CONTINUATION = "##"
_CLOSING = frozenset(".,;:!?)]}%'")  # WordPieces of their own, but written without a blank before

_Form = tuple[str, bool]  # a token's letters, and whether a word starts with it


def model_ids(vocabulary: Vocabulary, tokenizer: Any) -> Ids:
    """Maps each token of the vocabulary to one of the model's, int64 (V,): positions stay aligned.

    The model's own token of the same letters that also starts (or continues) a word, and of a
    closing sign the one that follows without a blank; else the first piece into which the model's
    tokenizer splits the token, an approximation; else its unknown token.
    """
    own, mark = _own_tokens(tokenizer), _mark(tokenizer)
    if continuation := vocabulary.tokenizer.continuation:
        forms = [_word_piece(token, continuation) for token in vocabulary.tokens]
    elif any(token.startswith(" ") for token in vocabulary.tokens):  # a blank starts a word
        forms = [(token.removeprefix(" "), token[0] == " ") for token in vocabulary.tokens]
    else:
        forms = [(token, True) for token in vocabulary.tokens]
    if continuation and mark:
        forms = [(letters, starts and letters not in _CLOSING) for letters, starts in forms]
    missing = [form for form in forms if form not in own]
    if missing:
        blank = " " if mark == _BLANK_BYTE else ""
        texts = [(blank if starts else "") + letters for letters, starts in missing]
        pieces = tokenizer(texts, add_special_tokens=False)["input_ids"]
        unknown = unknown_id(tokenizer)
        own |= {form: (*ids, unknown)[0] for form, ids in zip(missing, pieces, strict=True)}
    return np.array([own[form] for form in forms], dtype=np.int64)


def unknown_id(tokenizer: Any) -> int:
    """Returns what the model is fed for an unknown token, or raises ParameterError."""
    names = ("unk_token_id", "mask_token_id", "bos_token_id", "eos_token_id")
    numbers = [getattr(tokenizer, name, None) for name in names]
    known = [int(number) for number in numbers if number is not None]
    if not known:
        raise ParameterError("expected a tokenizer with an unknown, mask, start or end token")
    return known[0]


def _word_piece(token: str, continuation: str) -> _Form:
    letters = token.removeprefix(continuation)
    return (letters, False) if letters and letters != token else (token, True)


def _own_tokens(tokenizer: Any) -> dict[_Form, int]:
    """The model's tokens by form, special ones left out, the smallest id first."""
    special, mark = set(tokenizer.all_special_ids), _mark(tokenizer)
    own: dict[_Form, int] = {}
    for token, number in sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1]):
        if number in special:
            continue
        if not mark:
            form = _word_piece(token, _CONTINUATION)
        elif token.isascii():
            form = token, False
        else:  # the mark, and letters that stand for bytes
            letters = tokenizer.convert_tokens_to_string([token])
            form = letters.removeprefix(" "), token.startswith(mark)
        own.setdefault(form, number)
    return own


def _mark(tokenizer: Any) -> str:
    """What a token that starts a word begins with; empty for WordPieces."""
    tokens = tokenizer.get_vocab()
    for mark in (_BLANK_BYTE, _BLANK_PIECE):
        if sum(token.startswith(mark) for token in tokens) > _COMMON * len(tokens):
            return mark
    return ""
