"""Checks of texts that are the same for all metrics, optional libraries and the default encoder."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dp_middleware.embedding import EmbeddingService
from dp_middleware.errors import MissingExtra, ParameterError


class Encoder(Protocol):
    """What the metrics need of an :class:`EmbeddingService`."""

    def encode(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """Vectors of whole texts, float32 (n, d), rows of unit length."""


@lru_cache(maxsize=1)
def default_encoder() -> EmbeddingService:
    """The bundled encoder, loaded once per process."""
    return EmbeddingService()


def check_texts(texts: Sequence[str]) -> list[str]:
    """At least one text.

    Raises:
        ParameterError: No list of texts, or an empty one.
    """
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise ParameterError("expected a list of texts, each a str")
    if not texts:
        raise ParameterError("expected at least one text, got none")
    return list(texts)


def check_pairs(first: Sequence[str], second: Sequence[str]) -> tuple[list[str], list[str]]:
    """Two lists of texts that belong together one by one.

    Raises:
        ParameterError: As :func:`check_texts`, or of different lengths.
    """
    if len(first) != len(second):
        raise ParameterError(
            f"expected as many texts on both sides, got {len(first)} and {len(second)}"
        )
    return check_texts(first), check_texts(second)


def library(module: str, package: str, extra: str = "eval") -> Any:
    """An optional library, imported where it is used.

    Raises:
        MissingExtra: It is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtra(package, extra) from None
