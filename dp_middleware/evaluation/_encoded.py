"""An encoder that remembers, so that each text of a measurement is encoded once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dp_middleware.metrics._inputs import Encoder

Vector = NDArray[np.float32]


class Encoded:
    """Vectors of an encoder, kept in memory as long as this object.

    Args:
        service: Asked for what is not known, all of it at once.
        known: Vectors by text. Private, if the texts are.

    Attributes:
        backend: Of the service, whose name results give.
        rows: What is known by now.
    """

    def __init__(self, service: Encoder, known: Mapping[str, Vector] | None = None) -> None:
        self.backend = getattr(service, "backend", service)
        self.rows: dict[str, Vector] = dict(known or {})
        self._service = service

    def encode(self, texts: Sequence[str]) -> Vector:
        """Vectors of whole texts, float32 (n, d)."""
        missing = [text for text in dict.fromkeys(texts) if text not in self.rows]
        if missing:
            self.rows.update(zip(missing, self._service.encode(missing), strict=True))
        return np.stack([self.rows[text] for text in texts])
