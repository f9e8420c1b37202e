"""Which tokens spell the same word: what attacks and metrics count by."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dp_middleware.vocabulary.vocabulary import Vocabulary

_BLANKS = " \t\r\nĠ▁"  # the last two stand for a blank in some vocabularies


def word_of(token: str, continuation: str = "") -> str:
    """Finds the word of a token: no case, surrounding blanks or mark of a continued word.

    A token such as ``" The"`` or ``"##ing"`` that is nothing else than these is its own word.
    ``continuation`` is the tokenizer's mark, ``""`` if there is none.
    """
    return token.strip(_BLANKS).removeprefix(continuation).strip(_BLANKS).casefold() or token


@lru_cache(maxsize=16)
def word_numbers(vocabulary: Vocabulary) -> NDArray[np.int64]:
    """Numbers each token's word, int64 (V,), read-only.

    Words are numbered from 0 in the order of their first tokens, so two tokens have the same number
    if and only if :func:`word_of` gives the same for both.
    """
    numbers: dict[str, int] = {}
    words = (word_of(token, vocabulary.tokenizer.continuation) for token in vocabulary.tokens)
    of_tokens = np.array([numbers.setdefault(w, len(numbers)) for w in words], dtype=np.int64)
    of_tokens.setflags(write=False)
    return of_tokens
