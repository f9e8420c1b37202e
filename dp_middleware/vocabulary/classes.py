"""Public classes of tokens, as a number or a month, and which tokens spell the same word."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dp_middleware.vocabulary.vocabulary import Vocabulary

SMALLEST_CLASS = 5  # a smaller class would name its members: they are counted among the words
WORD = "word"
UNKNOWN_LABEL = "unknown"

_LISTS = Path(__file__).parent / "data"
_LISTED = ("month", "weekday", "number word", "ordinal", "name")  # the first that has it
_BLANKS = re.compile(r"^[ Ġ▁]+")
_AROUND = " \t\r\nĠ▁"  # the last two stand for a blank in some vocabularies
_PIECE = "piece: "
_YEAR = re.compile(r"(?:19|20)\d\d", re.ASCII)
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th)", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d+(?:[.,]\d+)+")


def token_classes(vocabulary: Vocabulary) -> tuple[str, ...]:
    """Gives a public label per token, and one for the unknown symbol: for ``Adjacency.within``.

    A function of the vocabulary and of lists shipped with this library, never of a text. Case and
    a leading blank do not count. The first that fits: month, weekday, number word, ordinal, name
    (given names of several cultures), year (1900 to 2099), number of k digits, number with a
    separator, punctuation, word. Pieces that continue a word have classes of their own. A word
    with another sense than that of its list has the class of the list: wherever "may" stands, a
    month is released. Classes of fewer than 5 tokens are counted among the words (or word pieces).

    Of the V + 1 labels the unknown symbol's is last: that of a word, so that an unknown word looks
    like any other; where unknown tokens are dropped, one of its own.
    """
    labels = [_label(token, vocabulary.tokenizer.continuation) for token in vocabulary.tokens]
    for rest in (f"{_PIECE}{WORD}", WORD):
        sizes = Counter(labels)
        wider = {label: rest if label.startswith(_PIECE) else WORD for label in sizes}
        labels = [own if sizes[own] >= SMALLEST_CLASS else wider[own] for own in labels]
    return (*labels, UNKNOWN_LABEL if vocabulary.unknown == "drop" else WORD)


def _label(token: str, continuation: str) -> str:
    prefix = continuation or "##"
    if token.startswith(prefix) and token != prefix:
        return f"{_PIECE}{_kind(token.removeprefix(prefix))}"
    return _kind(_BLANKS.sub("", token), listed=True)


def _kind(token: str, *, listed: bool = False) -> str:
    word = token.casefold()
    if listed and word in _words():
        return _words()[word]
    if listed and _YEAR.fullmatch(word):
        return "year"
    if word.isdecimal():
        return f"number of {len(word)} digit{'s' if len(word) > 1 else ''}"
    if _ORDINAL.fullmatch(word):
        return "ordinal"
    if _NUMBER.fullmatch(word):
        return "number with a separator"
    return WORD if any(map(str.isalnum, word)) else "punctuation"


def listed(label: str) -> frozenset[str]:
    """Lists the words of a shipped list, such as ``"name"``; folded."""
    return frozenset(word for word, own in _words().items() if own == label)


@cache
def _words() -> dict[str, str]:
    """Listed words, folded, with the label of their list."""
    labels: dict[str, str] = {}
    for label in _LISTED:
        file = _LISTS / f"{label.replace(' ', '_')}s.txt"
        for line in file.read_text(encoding="utf-8").splitlines():
            if not line.startswith("#"):
                for word in line.casefold().split():
                    letters = unicodedata.normalize("NFKD", word)
                    plain = "".join(c for c in letters if not unicodedata.combining(c))
                    labels.setdefault(word, label)
                    labels.setdefault(plain, label)  # many vocabularies have no accents
    return labels


def word_of(token: str, continuation: str = "") -> str:
    """Finds the word of a token: no case, surrounding blanks or mark of a continued word.

    A token that is nothing else than these is its own word.
    """
    return token.strip(_AROUND).removeprefix(continuation).strip(_AROUND).casefold() or token


@lru_cache(maxsize=16)
def word_numbers(vocabulary: Vocabulary) -> NDArray[np.int64]:
    """Numbers each token's word, by :func:`word_of`, in the order of first tokens; int64 (V,)."""
    numbers: dict[str, int] = {}
    words = (word_of(token, vocabulary.tokenizer.continuation) for token in vocabulary.tokens)
    of_tokens = np.array([numbers.setdefault(w, len(numbers)) for w in words], dtype=np.int64)
    of_tokens.setflags(write=False)
    return of_tokens
