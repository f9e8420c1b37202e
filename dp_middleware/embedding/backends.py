"""Backends, which turn texts into vectors, and one model for all threads of a process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, ClassVar, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_middleware import _files, _forks
from dp_middleware._quiet import call_unrecorded
from dp_middleware._waits import told
from dp_middleware.embedding.arrays import slices
from dp_middleware.embedding.grid import unit_rows
from dp_middleware.errors import DPMiddlewareError, EmbeddingError, ParameterError, needs

Encode = Callable[[list[str]], ArrayLike]


class Backend(Protocol):
    """Turns texts into vectors. Equal backends share a model, so they are hashable."""

    @property
    def batch(self) -> int:
        """Tells the most texts in one call."""

    def open(self) -> Encode:
        """Loads the model; returns a function from texts to (n, d) numbers, for one thread."""


_BATCH = 256
_ON_CPU = 8  # texts computed together: on a CPU the padding of more costs more than it gains


@dataclass(frozen=True)
class SentenceModel:
    """Loads a sentence-transformers model: in an installed package, a local folder or on the hub.

    ``device`` is ``"cpu"``, ``"cuda"``, ``"mps"`` or ``"auto"``, the fastest.
    """

    model: str
    device: str = field(default="auto", kw_only=True)
    batch: ClassVar[int] = _BATCH

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
    """Wraps an object of the caller's own with ``encode(texts)``.

    Two of these are equal if they are around the same object, so its services share it, and its
    calls come one at a time. ``model`` is the name of its class.
    """

    batch = _BATCH

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


Rows = NDArray[np.float32]

_WARM = ["a warm and public sentence"]


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


class SharedModel:
    """Opens a backend at its first use, and lets one thread at a time call it.

    A call has no texts of other callers in it, from whose lengths its rows would move by rounding.
    A long one is cut into batches, texts of like length together, which saves padding; others get
    their turn between two. Equal texts of a batch are computed once; nothing is kept of them.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._encode: Encode | None = None
        self._computing = False
        self._width: int | None = None
        self.after_fork()
        _forks.renewed[id(self)] = self

    def after_fork(self) -> None:
        """Makes a new lock; a model that the parent was using may be in any state."""
        if self._computing:
            self._encode, self._computing = None, False
        self._lock = Lock()

    def encode(self, texts: list[str]) -> Rows:
        """Returns unit rows, float32 (n, d); EmbeddingError: the model failed; it holds no text."""
        if not texts:
            return np.empty((0, self._width or self.encode(_WARM).shape[1]), np.float32)
        order = sorted(range(len(texts)), key=lambda k: -len(texts[k]))
        batches = [order[part] for part in slices(len(order), self.backend.batch)]
        rows = np.concatenate([self._rows([texts[k] for k in batch]) for batch in batches])
        table = np.empty_like(rows)
        table[order] = rows
        return table

    def _rows(self, texts: list[str]) -> Rows:
        numbers: dict[str, int] = {}
        places = [numbers.setdefault(text, len(numbers)) for text in texts]
        with self._lock:
            self._computing = True
            try:
                if self._encode is None:
                    self._encode = _opened(self.backend)
                vectors = call_unrecorded(Context(), self._encode, list(numbers))
                rows = _checked(vectors, len(numbers), self._width)
            except (Exception, SystemExit) as error:  # whatever it is, it may quote texts
                failed = f"the embedding model failed with {type(error).__name__}"
                if isinstance(error, EmbeddingError):
                    failed = str(error)
            else:
                self._width = rows.shape[1]
                return rows[places]
            finally:
                self._computing = False
        raise EmbeddingError(failed)


def _opened(backend: Backend) -> Encode:
    """Opens a backend; it has seen no text yet, so the words of an error may be shown."""
    try:
        return backend.open()
    except Exception as error:
        kind = "" if isinstance(error, DPMiddlewareError) else f"{type(error).__name__}: "
        failed = f"the embedding model cannot be loaded: {kind}{error}"
    raise EmbeddingError(failed)


def _checked(vectors: ArrayLike, count: int, width: int | None) -> Rows:
    """Rows of unit length, float32 (count, d); zero rows stay zero."""
    rows = np.asarray(vectors, dtype=np.float64)
    if rows.ndim != 2 or len(rows) != count or width not in (None, rows.shape[1]):
        raise EmbeddingError(
            f"expected {count} vectors of {width or 'equal'} length, got an array of {rows.shape}"
        )
    if not np.isfinite(rows).all():
        raise EmbeddingError("expected finite numbers in vectors, got NaN or infinity")
    return unit_rows(rows).astype(np.float32)
