"""Which token of a language model stands for each token of a vocabulary."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dp_middleware.errors import ParameterError
from dp_middleware.vocabulary.vocabulary import Vocabulary

Ids = NDArray[np.int64]

_BLANK_BYTE, _BLANK_PIECE = "Ġ", "▁"  # a blank before, in byte-level and SentencePiece tokens
_COMMON = 0.02  # share of tokens with the mark that makes it one: it may also be a letter
_CONTINUATION = "##"


class _Form(NamedTuple):
    """A token's letters, and whether a word starts with it."""

    letters: str
    starts: bool


def model_ids(vocabulary: Vocabulary, tokenizer: Any) -> Ids:
    """The model's id for each token of the vocabulary, int64 (V,).

    The model's own token of the same letters that also starts (or continues) a word; where there
    is none, the first piece into which the model's tokenizer splits the token; where there is no
    piece, the model's unknown token. One model token per vocabulary token, so that positions
    stay aligned: a token that the model would split is an approximation.
    """
    own = _own_tokens(tokenizer)
    forms = _forms(vocabulary)
    found = [own.get(form) for form in forms]
    missing = [k for k, number in enumerate(found) if number is None]
    if missing:
        blank = " " if _mark(tokenizer) == _BLANK_BYTE else ""
        texts = [(blank if forms[k].starts else "") + forms[k].letters for k in missing]
        pieces = tokenizer(texts, add_special_tokens=False)["input_ids"]
        unknown = unknown_id(tokenizer)
        for k, parts in zip(missing, pieces, strict=True):
            found[k] = parts[0] if parts else unknown
    return np.array(found, dtype=np.int64)


def unknown_id(tokenizer: Any) -> int:
    """What the model is fed for a token outside the vocabulary.

    Raises:
        ParameterError: The tokenizer has no token for it.
    """
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
    forms = []
    for token in vocabulary.tokens:
        if continuation and token.startswith(continuation) and token != continuation:
            forms.append(_Form(token.removeprefix(continuation), False))
        elif blanks and not continuation:
            forms.append(_Form(token.removeprefix(" "), token.startswith(" ")))
        else:
            forms.append(_Form(token, True))
    return forms


def _own_tokens(tokenizer: Any) -> dict[_Form, int]:
    """The model's tokens by form, special ones left out, the smallest id first."""
    special = set(tokenizer.all_special_ids)
    entries = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    mark = _mark(tokenizer)
    own: dict[_Form, int] = {}
    for token, number in entries:
        if number in special:
            continue
        form = _marked_form(token, mark, tokenizer) if mark else _plain_form(token)
        own.setdefault(form, number)
    return own


def _mark(tokenizer: Any) -> str:
    """What a token that starts a word begins with; empty for WordPieces."""
    tokens = tokenizer.get_vocab()
    for mark in (_BLANK_BYTE, _BLANK_PIECE):
        if sum(token.startswith(mark) for token in tokens) > _COMMON * len(tokens):
            return mark
    return ""


def _plain_form(token: str) -> _Form:
    if token.startswith(_CONTINUATION) and token != _CONTINUATION:
        return _Form(token.removeprefix(_CONTINUATION), False)
    return _Form(token, True)


def _marked_form(token: str, mark: str, tokenizer: Any) -> _Form:
    starts = token.startswith(mark)
    if not token.isascii():  # the mark, and letters that stand for bytes
        token = tokenizer.convert_tokens_to_string([token]).removeprefix(" ")
    return _Form(token, starts)
