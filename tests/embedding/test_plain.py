"""The encoder on NumPy: the vectors of the service, but for rounding and its GELU."""

import json
import subprocess
import sys

import numpy as np
import pytest

import dp_middleware as dp
from dp_middleware.embedding import plain

TEXTS = ["", " ", "coffin", "What causes Coffin-Lowry syndrome?", "naïve café 漢字 😀", "a " * 900]


@pytest.fixture(scope="module")
def encoder():
    found = plain.searcher()
    if not isinstance(found, plain.PlainEncoder):
        pytest.skip("no model on disk")
    return found


def test_vectors_are_those_of_the_service(encoder):
    pytest.importorskip("sentence_transformers")
    rows = dp.EmbeddingService(device="cpu").encode(TEXTS)
    ours = encoder.encode(TEXTS)
    assert (ours.dtype, ours.shape) == (np.float32, rows.shape)
    assert np.abs(np.linalg.norm(ours, axis=1) - 1).max() < 1e-6
    assert np.linalg.norm(ours - rows, axis=1).max() < 5e-3


def test_a_row_is_of_its_text_alone(encoder):
    together = encoder.encode(TEXTS)
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    assert np.abs(together - alone).max() < 1e-5


@pytest.mark.parametrize("epsilon", [25.0, 50.0])
def test_a_first_release_takes_little_and_no_torch(epsilon):
    """A first release may take 3 CPU seconds, in a process of its own."""
    code = f"""
import json, sys, time
import dp_middleware as dp
release = dp.document_sanitizer({epsilon}).release("What causes Coffin-Lowry syndrome?")
print(json.dumps([time.process_time(), "torch" in sys.modules, release.certificate.epsilon]))
"""
    runs = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        runs.append(json.loads(done.stdout))
    assert min(seconds for seconds, _, _ in runs) < 3
    assert [run[1:] for run in runs] == [[False, epsilon]] * 2


def test_without_a_model_a_service_or_nothing_searches(monkeypatch, tmp_path):
    monkeypatch.setattr(plain._files, "encoder_source", lambda name: str(tmp_path))
    monkeypatch.setattr(plain, "find_spec", lambda name: None)
    assert plain.searcher.__wrapped__() is None
    monkeypatch.setattr(plain, "find_spec", lambda name: object())
    assert isinstance(plain.searcher.__wrapped__(), dp.EmbeddingService)
