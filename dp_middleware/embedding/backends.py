"""Backends, which turn texts into vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware import _files, _validate
from dp_middleware._waits import told
from dp_middleware.errors import needs

Encode = Callable[[list[str]], ArrayLike]


class Backend(Protocol):
    """Turns texts into vectors. Equal backends share a model, so they are hashable."""

    @property
    def batch(self) -> int:
        """Tells the most texts in one call."""

    def open(self) -> Encode:
        """Loads the model; returns a function from a list of texts to (n, d) numbers.

        Both are called by one thread at a time.
        """


_BATCH = 256
_ON_CPU = 8  # texts computed together: on a CPU the padding of more costs more than it gains


@dataclass(frozen=True)
class SentenceModel:
    """Loads a sentence-transformers model: in an installed package, a local folder or on the hub.

    ``device`` is ``"cpu"``, ``"cuda"``, ``"mps"`` or ``"auto"``, the fastest; ``batch`` the most
    texts in one call.
    """

    model: str
    device: str = field(default="auto", kw_only=True)
    batch: int = field(default=_BATCH, kw_only=True)

    def __post_init__(self) -> None:
        _validate.at_least(1, batch=self.batch)

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
        """Returns its ``encode``."""
        encode: Encode = self.inner.encode
        return encode
