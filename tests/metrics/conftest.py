"""An encoder that needs no model."""

from __future__ import annotations

import numpy as np
import pytest


class Letters:
    """Bags of letters as unit vectors; counts as a service."""

    model = "letters"

    def encode(self, texts):
        rows = np.zeros((len(texts), 64), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[0] = 0.5
            for letter in text:
                row[1 + ord(letter) % 63] += 1
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def letters():
    return Letters()
