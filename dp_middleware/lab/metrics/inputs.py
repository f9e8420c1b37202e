"""What all metrics need: checked texts, their words, optional libraries, the default encoder."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dp_middleware.embedding import EmbeddingService
from dp_middleware.errors import ParameterError, library

Chat = Callable[[list[dict[str, str]]], str]


class SentenceEncoder(Protocol):
    """Says what the metrics need of an :class:`EmbeddingService`."""

    def encode(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """Returns vectors of whole texts, float32 (n, d), rows of unit length."""


@lru_cache(maxsize=1)
def default_encoder() -> EmbeddingService:
    """Returns the bundled encoder, loaded once per process."""
    return EmbeddingService()


def check_texts(texts: Sequence[str]) -> list[str]:
    """Returns the texts as a list of at least one, or raises ParameterError."""
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise ParameterError("expected a list of texts, each a str")
    if not texts:
        raise ParameterError("expected at least one text, got none")
    return list(texts)


def check_pairs(first: Sequence[str], second: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns two lists of texts that belong together one by one, or raises ParameterError."""
    if len(first) != len(second):
        raise ParameterError(f"expected as many texts on both sides: {len(first)}, {len(second)}")
    return check_texts(first), check_texts(second)


_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # kana, Chinese characters
_UNSEEN = "\u200b-\u200f\u2060-\u2064\ufe00-\ufe0f\ufeff"  # joiners, variation selectors
_WORD = re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}])[^\W_])+|[^\x00-\x7f\w\s{_UNSEEN}]")
_PIECE = re.compile(rf"[{_UNSPACED}]|[^\s{_UNSPACED}]+")


def words(text: str) -> list[str]:
    """Finds runs of letters and digits in lower case; beyond ASCII also each symbol."""
    return _WORD.findall(text.lower())


def rouge_scorer() -> Any:
    """Makes a scorer of ROUGE-L for :func:`words`; MissingExtra: no ``rouge-score``."""
    scorers = library("rouge_score.rouge_scorer", "eval")
    return scorers.RougeScorer(["rougeL"], tokenizer=SimpleNamespace(tokenize=words))


def pieces(text: str) -> list[str]:
    """Finds what stands between blanks."""
    return _PIECE.findall(text)
