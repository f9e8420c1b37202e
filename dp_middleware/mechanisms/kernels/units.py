"""Public words and phrases of which texts are put together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

import numpy as np

from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.kernels.priors import damped
from dp_middleware.vocabulary.frequencies import stop_words

_WORD = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")
_SENTENCE = re.compile(r"[.!?;:\n]+")
_LONGEST = 3  # words of a phrase
_MOST = 40_000


@cache
def english() -> tuple[str, ...]:
    """Reads words and phrases of Open English WordNet, the most useful first.

    Made by ``benchmarks/units.py``, which says how; the file names its source and licence.
    """
    source = files("dp_middleware.mechanisms") / "data" / "english_units.txt"
    lines = source.read_text(encoding="utf-8").splitlines()
    return tuple(line for line in lines if not line.startswith("#"))


def checked(units: Iterable[object]) -> tuple[str, ...]:
    """Returns units as they are, or raises ParameterError: no texts, blank or listed twice."""
    listed = () if isinstance(units, str) else tuple(units)
    texts = tuple(unit for unit in listed if isinstance(unit, str) and unit.strip())
    if not texts or len(texts) < len(listed):
        raise ParameterError("expected a codebook as a sequence of texts that are not blank")
    if len(set(texts)) < len(texts):
        raise ParameterError(
            f"expected distinct units in a codebook, got {len(set(texts))} of {len(texts)}"
        )
    return texts


def from_texts(texts: Iterable[str]) -> tuple[str, ...]:
    """Lists content words and phrases of public texts, by how much they tell.

    A phrase has two or three words, the first and the last of them content words, and occurs more
    than once. ParameterError: one str, or no words at all.
    """
    if isinstance(texts, str):
        raise ParameterError("expected a collection of public texts, got one str")
    words: Counter[str] = Counter()
    phrases: Counter[str] = Counter()
    function_words = stop_words()
    for text in texts:
        for sentence in _SENTENCE.split(text):
            tokens = [match.lower() for match in _WORD.findall(sentence)]
            words.update(token for token in tokens if token not in function_words)
            for length in range(2, _LONGEST + 1):
                for start in range(len(tokens) - length + 1):
                    phrase = tokens[start : start + length]
                    if phrase[0] not in function_words and phrase[-1] not in function_words:
                        phrases[" ".join(phrase)] += 1
    if not words:
        raise ParameterError("expected public texts with words, got none")
    counts = words | Counter({phrase: count for phrase, count in phrases.items() if count > 1})
    shares = np.array(list(counts.values())) / words.total()
    weights = dict(zip(counts, damped(shares).tolist(), strict=True))
    return tuple(sorted(weights, key=lambda unit: (-weights[unit], unit))[:_MOST])
