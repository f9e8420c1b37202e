"""Backends, which turn texts into vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_middleware import _files
from dp_middleware._waits import told
from dp_middleware.embedding.grid import unit_rows
from dp_middleware.errors import DPMiddlewareError, EmbeddingError, ParameterError, needs

Encode = Callable[[list[str]], ArrayLike]
Rows = NDArray[np.float32]

_ON_CPU = 8  # texts computed together: on a CPU the padding of more costs more than it gains


class Backend(Protocol):
    """Turns texts into vectors. Equal backends share a model, so they are hashable."""

    @property
    def batch(self) -> int:
        """Tells the most texts in one call."""

    def open(self) -> Encode:
        """Loads the model; returns a function from texts to (n, d) numbers, for one thread."""


@dataclass(frozen=True)
class SentenceModel:
    """Loads a sentence-transformers model, of an installed package, a local folder or the hub."""

    model: str
    device: str = field(default="auto", kw_only=True)  # as for EmbeddingService
    batch: ClassVar[int] = 256

    def open(self) -> Encode:
        """Loads the model."""
        with needs("models"):
            from sentence_transformers import SentenceTransformer

        device = None if self.device == "auto" else self.device
        _files.encoder_file(self.model, "config.json")  # says what to do if there is none
        with told("loading the encoder"):
            source = _files.encoder_source(self.model)
            encoder = SentenceTransformer(source, device=device).float()
        at_once = _ON_CPU if encoder.device.type == "cpu" else self.batch

        def encode(texts: list[str]) -> ArrayLike:
            rows = encoder.encode(
                texts, batch_size=at_once, convert_to_tensor=True, show_progress_bar=False
            )
            return np.asarray(rows.cpu().numpy())

        return encode


class Given:
    """Wraps an object of the caller's own with ``encode(texts)``; equal if it is the same one."""

    batch = 256

    def __init__(self, inner: Any) -> None:
        self.inner, self.model = inner, type(inner).__name__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.inner is self.inner

    def __hash__(self) -> int:
        return hash((type(self), id(self.inner)))

    def open(self) -> Encode:
        """Returns its ``encode``."""
        return cast(Encode, self.inner.encode)


def check_texts(texts: Sequence[str]) -> list[str]:
    """Returns the texts, of the type ``str`` itself, or raises ParameterError."""
    if isinstance(texts, str):
        raise ParameterError("expected a list of texts, got one str")
    listed = list(texts)
    for text in listed:
        if not issubclass(type(text), str):
            raise ParameterError(f"expected texts of type str, got {type(text).__name__}")
    # A subclass may compare and hash as it likes.
    return [text if type(text) is str else str.__str__(text) for text in listed]


def opened(backend: Backend) -> Encode:
    """Opens a backend; it has seen no text yet, so the words of an error may be shown."""
    try:
        return backend.open()
    except Exception as error:
        kind = "" if isinstance(error, DPMiddlewareError) else f"{type(error).__name__}: "
        failed = f"the embedding model cannot be loaded: {kind}{error}"
    raise EmbeddingError(failed)


def checked_rows(vectors: ArrayLike, count: int, width: int | None) -> Rows:
    """Makes rows of unit length, float32 (count, d); zero rows stay zero."""
    rows = np.asarray(vectors, dtype=np.float64)
    if rows.ndim != 2 or len(rows) != count or width not in (None, rows.shape[1]):
        raise EmbeddingError(
            f"expected {count} vectors of {width or 'equal'} length, got an array of {rows.shape}"
        )
    if not np.isfinite(rows).all():
        raise EmbeddingError("expected finite numbers in vectors, got NaN or infinity")
    return unit_rows(rows).astype(np.float32)
