"""Public weights of tokens, for which a codebook is chosen: uniform, English, of texts, any.

Utility alone depends on them: a codebook is public whatever it was chosen for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_middleware import _validate
from dp_middleware.embedding.arrays import Floats
from dp_middleware.errors import ParameterError
from dp_middleware.vocabulary import frequencies
from dp_middleware.vocabulary.vocabulary import Vocabulary

Prior = Literal["english", "uniform"] | ArrayLike | Sequence[str]

ENGLISH_FROM = 6.0
"""Epsilon from which on a codebook for English is better on text than one for all words alike."""

_FREQUENT = 1000.0  # a token beyond 1 in 1000 counts no more: what it says is little


def weighted(
    prior: Prior | None, vocabulary: Vocabulary, epsilon: float
) -> tuple[str, Callable[[], Floats]]:
    """Returns what identifies a prior, and what computes its weights, (V,), which sum to one.

    Prior and errors are those of :meth:`NearestResponse.tuned`; epsilon decides on the default.
    """
    if prior is None:
        real = epsilon >= ENGLISH_FROM and frequencies.is_english(vocabulary)
        prior = "english" if real else "uniform"
    if isinstance(prior, str):
        _validate.one_of(("english", "uniform"), prior=prior)
        if prior == "english":
            return f"english {_FREQUENT} {frequencies.fingerprint()}", lambda: _shares(
                damped(frequencies.english(vocabulary)), len(vocabulary)
            )
        prior = vocabulary.whole_words.astype(np.float64)
    elif _are_texts(prior):
        prior = damped(frequencies.in_texts(vocabulary, prior))  # type: ignore[arg-type]
    weights = _shares(prior, len(vocabulary))
    return sha256(weights.tobytes()).hexdigest(), lambda: weights


def damped(shares: Floats) -> Floats:
    """Computes p / (1 + 1000 p) for shares p of occurrences: what is very common says little."""
    return shares / (1 + _FREQUENT * shares)


def _are_texts(prior: object) -> bool:
    listed = isinstance(prior, Sequence) and len(prior) > 0
    return listed and all(isinstance(text, str) for text in prior)  # type: ignore[attr-defined]


def _shares(prior: object, size: int) -> Floats:
    """Weights that sum to one, float64 (V,)."""
    expected = f'prior as "english", "uniform", public texts or {size} finite weights >= 0'
    weights = array(prior, expected, "iuf").astype(np.float64)
    if len(weights) != size or not np.isfinite(weights).all():
        raise ParameterError(f"expected {expected}")
    if not weights.any():
        raise ParameterError("expected prior with a positive weight, got none for any token")
    weights /= weights.max()
    shares: Floats = weights / weights.sum()
    return shares


def array(values: object, expected: str, kinds: str) -> NDArray[Any]:
    """Makes an array (n,) of numbers of these kinds, or raises ParameterError: none, negative."""
    try:
        made = np.asarray(values)
    except ValueError:  # rows of different lengths
        made = np.empty(0)
    if made.ndim != 1 or not made.size or made.dtype.kind not in kinds:
        raise ParameterError(f"expected {expected}, at least one")
    if (made < 0).any():
        raise ParameterError(f"expected {expected}, none negative")
    return made
