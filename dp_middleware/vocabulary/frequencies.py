"""How often tokens occur: in English, from a list of words, and in public texts."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from functools import cache, lru_cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dp_middleware import _files
from dp_middleware.errors import MissingExtra
from dp_middleware.vocabulary.vocabulary import Vocabulary

_DATA = Path(__file__).parent / "data"
_WORDS = _DATA / "english.txt"
_KEYWORDS = _DATA / "keywords.txt.gz"
_RULE = b"1"  # of :func:`english`: another one where the same words count otherwise
_MOST = 0.5  # share of the words of English text from which on a vocabulary is English


def english(vocabulary: Vocabulary) -> NDArray[np.float64]:
    """Counts occurrences of each token per word of English text, float64 (V,).

    Of the 30,000 most frequent words in lower case, 94 % of a text, each for all of its tokens.
    """
    listed, shares = _words()
    ends = np.cumsum([len(word) + 1 for word in listed])
    tokenizer = vocabulary.tokenizer
    pieces = tokenizer.pieces(" " + " ".join(listed))  # each after a blank, as within a text
    ids = np.array([vocabulary.id_of(piece.token or "") for piece in pieces], dtype=np.int64)
    known, word = ids >= 0, np.searchsorted(ends, [piece.end for piece in pieces])
    counts = np.bincount(ids[known], shares[word[known]], minlength=len(vocabulary))
    return np.asarray(counts, dtype=np.float64)


@lru_cache(8)
def is_english(vocabulary: Vocabulary) -> bool:
    """Tells whether at least half of the words of an English text are tokens of their own."""
    tokens = {token.removeprefix(" ") for token in vocabulary.tokens}
    listed, shares = _words()
    return float(shares[[word in tokens for word in listed]].sum()) >= _MOST


def in_texts(vocabulary: Vocabulary, texts: Sequence[str]) -> NDArray[np.float64]:
    """Computes each token's share among those of the texts, float64 (V,); 0 without any."""
    ids = np.concatenate([np.empty(0, dtype=np.int64), *map(vocabulary.encode, texts)])
    counts = np.bincount(ids[ids >= 0], minlength=len(vocabulary))
    return np.asarray(counts / max(1, counts.sum()))


@cache
def fingerprint() -> str:
    """Digests the words and the rule by which they count, SHA-256, hexadecimal."""
    return sha256(_WORDS.read_bytes() + _RULE).hexdigest()


@cache
def _words() -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """The words, and the share of each among those of a text."""
    decibels = _numbered(_WORDS.read_text(encoding="utf-8"))
    return tuple(decibels), np.power(10.0, -np.array([*decibels.values()]) / 10)


def _numbered(text: str) -> dict[str, int]:
    """The words of lines that begin with a number, with it."""
    lines = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {word: int(number) for number, *words in lines for word in words}


@cache
def keywords() -> dict[str, int]:
    """Reads counts of 160,000 English words in lower case, rarest last: no stop words or slurs."""
    return _numbered(gzip.decompress(_KEYWORDS.read_bytes()).decode("ascii"))


@cache
def keywords_fingerprint() -> str:
    """Digests the file of :func:`keywords`, SHA-256, hexadecimal."""
    return sha256(_KEYWORDS.read_bytes()).hexdigest()


def words() -> tuple[str, ...]:
    """Lists the 30,000 most frequent words of English in lower case."""
    return _words()[0]


@cache
def word_set() -> frozenset[str]:
    """Returns the same words, to be asked for."""
    return frozenset(words())


@lru_cache(8)
def codewords(vocabulary: Vocabulary) -> NDArray[np.bool_]:
    """Tells which are whole words, of an English vocabulary no names or obscenities, bool (V,)."""
    if not is_english(vocabulary):
        return vocabulary.whole_words
    lines = (_DATA / "codewords.txt").read_text(encoding="utf-8").splitlines()
    ordinary = {word for line in lines if not line.startswith("#") for word in line.split()}
    tokens = (token.removeprefix(" ").lower() for token in vocabulary.tokens)
    return np.asarray(vocabulary.whole_words & np.array([token in ordinary for token in tokens]))


@cache
def stop_words() -> frozenset[str]:
    """Reads English function words, scikit-learn's list."""
    return frozenset((_DATA / "stop_words.txt").read_text(encoding="utf-8").split())


@cache
def nltk_stop_words() -> frozenset[str]:
    """Reads NLTK's English stop words, of its data or llama-index-core; MissingExtra: of neither.

    Other words than scikit-learn's: no "bill" or "fire", but "don" and "t", pieces of "don't".
    """
    place = ("_static", "nltk_cache", "corpora", "stopwords")
    folder = _files.package_folder("llama_index.core", *place)
    if folder is not None and (folder / "english").is_file():
        return frozenset((folder / "english").read_text(encoding="utf-8").split())
    try:
        return frozenset(import_module("nltk.corpus").stopwords.words("english"))
    except (ImportError, LookupError):
        missing = "NLTK's list of stop words, which llama-index-core has,"
        raise MissingExtra(missing, "llama-index") from None
