"""A toy space of the words of the samples."""

from pathlib import Path

import numpy as np
import pytest

import dp_middleware as dp
from dp_middleware.lab.evaluation import load

SAMPLES = Path(dp.__file__).parent / "lab" / "evaluation" / "samples"


@pytest.fixture(scope="session")
def reviews():
    return load(SAMPLES / "reviews.jsonl")


@pytest.fixture(scope="session")
def health():
    return load(SAMPLES / "health.jsonl")


@pytest.fixture(scope="session")
def space(reviews):
    words = sorted({word for text in reviews.texts for word in text.split()})[:40]
    vectors = np.random.default_rng(0).normal(size=(len(words), 4))
    return dp.EmbeddingSpace(dp.Vocabulary(words), vectors)
