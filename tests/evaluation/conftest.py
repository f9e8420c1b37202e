"""A toy space of the words of the samples, and an encoder that needs no model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dp_middleware as dp
from dp_middleware.evaluation import Texts, load

SAMPLES = Path(dp.__file__).parent / "evaluation" / "samples"


class Letters:
    """Bags of letters as unit vectors; counts what it is asked for."""

    model = "letters"

    def __init__(self):
        self.asked = []

    def encode(self, texts):
        self.asked += texts
        rows = np.ones((len(texts), 64), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for letter in text:
                row[ord(letter) % 64] += 1
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def letters():
    return Letters()


@pytest.fixture(scope="session")
def reviews() -> Texts:
    return load(SAMPLES / "reviews.jsonl")


@pytest.fixture(scope="session")
def health() -> Texts:
    return load(SAMPLES / "health.jsonl")


@pytest.fixture(scope="session")
def space(reviews):
    words = sorted({word for text in reviews.texts for word in text.split()})[:40]
    vectors = np.random.default_rng(0).normal(size=(len(words), 4))
    return dp.EmbeddingSpace(dp.Vocabulary(words), vectors)
