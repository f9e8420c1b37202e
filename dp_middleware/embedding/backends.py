"""Backends, which turn texts into vectors, and checks of the vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_middleware import _files, _validate
from dp_middleware._torch import torch
from dp_middleware._waits import told
from dp_middleware.embedding.grid import unit_rows
from dp_middleware.errors import DPMiddlewareError, EmbeddingError, needs

Rows = NDArray[np.float32]
Encode = Callable[[list[str]], ArrayLike]


class Backend(Protocol):
    """What turns texts into vectors. Equal backends share a model, so they are hashable."""

    @property
    def batch(self) -> int:
        """Most texts in one call."""

    def open(self) -> Encode:
        """Load the model; returns a function from a list of texts to (n, d) numbers.

        Both are called by one thread at a time.
        """


def check_rows(vectors: ArrayLike, count: int, width: int | None) -> Rows:
    """Rows of unit length, float32 (count, d); zero rows stay zero.

    Args:
        vectors: From a backend, for ``count`` texts.
        count: How many there should be.
        width: d, if it is known.

    Raises:
        EmbeddingError: Another shape, or numbers that are not finite.
    """
    rows = np.asarray(vectors, dtype=np.float64)
    if rows.ndim != 2 or len(rows) != count or width not in (None, rows.shape[1]):
        raise EmbeddingError(
            f"expected {count} vectors of {width or 'equal'} length, got an array of {rows.shape}"
        )
    if not np.isfinite(rows).all():
        raise EmbeddingError("expected finite numbers in vectors; try a higher precision")
    return unit_rows(rows).astype(np.float32)


def open_backend(backend: Backend) -> Encode:
    """Open a backend.

    Raises:
        EmbeddingError: It cannot be opened.
    """
    try:
        return backend.open()
    except Exception as error:  # it has seen no text yet, so its words may be shown
        kind = "" if isinstance(error, DPMiddlewareError) else f"{type(error).__name__}: "
        failed = f"the embedding model cannot be loaded: {kind}{error}"
    raise EmbeddingError(failed)


def wordless(error: BaseException) -> str:
    """The message of our own error; of another only its type, as it may quote text."""
    if isinstance(error, EmbeddingError):
        return str(error)
    return f"the embedding model failed with {type(error).__name__}"


Precision = Literal["float32", "float16", "bfloat16"]

_BATCH = 256
_ON_CPU = 8  # texts computed together: on a CPU the padding of more costs more than it gains


@dataclass(frozen=True)
class SentenceModel:
    """A sentence-transformers model: in an installed package, a local folder or on the hub.

    Attributes:
        model: Its name or folder.
        device: ``"cpu"``, ``"cuda"``, ``"mps"`` or ``"auto"``: the fastest there is.
        precision: Of weights and arithmetic; pooled vectors are divided by their length in
            float64. ``"float16"`` and ``"bfloat16"`` halve the memory and are meant for GPUs.
            For all-MiniLM-L6-v2 on texts of 4 to 40 words, unit vectors were at most 0.0017 and
            0.013 away from the float32 ones (cosines above 1 - 2e-6 and 1 - 9e-5). Measured in
            the CPU's half-precision arithmetic; a GPU rounds in another order.
        batch: Most texts in one call.

    Raises:
        ParameterError: No such precision.
    """

    model: str
    _: KW_ONLY
    device: str = "auto"
    precision: Precision = "float32"
    batch: int = _BATCH

    def __post_init__(self) -> None:
        _validate.one_of(("float32", "float16", "bfloat16"), precision=self.precision)
        _validate.at_least(1, batch=self.batch)

    def open(self) -> Encode:
        """Load the model."""
        with needs("models"):
            from sentence_transformers import SentenceTransformer

        device = None if self.device == "auto" else self.device
        _files.encoder_file(self.model, "config.json")  # says what to do if there is none
        with told("loading the encoder"):
            encoder = SentenceTransformer(_files.encoder_source(self.model), device=device)
        encoder = encoder.to(dtype=getattr(torch, self.precision))
        at_once = _ON_CPU if encoder.device.type == "cpu" else self.batch

        def encode(texts: list[str]) -> ArrayLike:
            rows = encoder.encode(
                texts, batch_size=at_once, convert_to_tensor=True, show_progress_bar=False
            )
            return np.asarray(rows.float().cpu().numpy())

        return encode


class Given:
    """An object of the caller's own with ``encode(texts)``, such as a sentence-transformers model.

    Two of these are equal if they are around the same object, so its services share it, and its
    calls come one at a time.

    Attributes:
        inner: The object.
        model: Name of its class.
        batch: Most texts in one call.
    """

    def __init__(self, inner: Any, batch: int = _BATCH) -> None:
        _validate.at_least(1, batch=batch)
        self.inner = inner
        self.model = type(inner).__name__
        self.batch = batch

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.inner is self.inner

    def __hash__(self) -> int:
        return hash((type(self), id(self.inner)))

    def open(self) -> Encode:
        """Its ``encode``."""
        encode: Encode = self.inner.encode
        return encode
