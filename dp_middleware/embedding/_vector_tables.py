"""Vector tables of vocabularies: read off a model's weights, and kept on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dp_middleware import _files
from dp_middleware._waits import told
from dp_middleware.embedding import arrays, grid
from dp_middleware.embedding.arrays import Floats, VectorSource
from dp_middleware.embedding.grid import unit_rows
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError, needs
from dp_middleware.vocabulary.vocabulary import Vocabulary

Table = NDArray[np.float32]
Kind = Literal["input", "raw", "encoded"]

_STEP = 256  # tokens encoded together: on that the last bits of their vectors depend


def named_space(
    model: str, vocabulary: Vocabulary, kind: Kind, encode: Callable[[list[str]], Table]
) -> EmbeddingSpace:
    """Makes the vocabulary's space with a named model's vectors, on disk from the first time on.

    Their file is read when something is computed with them: the fingerprint of the space is kept
    beside it. Another file for other weights; one that is damaged is made again. A folder that
    cannot be written costs time only.
    """
    key = f"{model}/{_revision(model)}/{vocabulary.fingerprint}/{kind}"
    path = _files.cache_path("vectors", key, suffix=".npz")
    beside = ("spaces", key, _files.code_fingerprint())

    def made() -> dict[str, Table]:
        encoded = kind == "encoded"
        table = encode_tokens(vocabulary, encode) if encoded else _input(model, vocabulary, kind)
        return {"vectors": table}

    def read() -> Floats:
        table = arrays.kept(path, made)["vectors"]
        return table.astype(np.float64) if kind == "raw" else unit_rows(table)

    def read_again() -> Floats:
        vectors = read()
        if grid.fingerprint(vocabulary.fingerprint, vectors) != fingerprint:
            _files.cache_path(*beside).unlink(missing_ok=True)
            raise ParameterError(
                f"expected the vectors of the space {fingerprint[:8]}, got others: their file was "
                "replaced; start again"
            )
        vectors.setflags(write=False)
        return vectors

    match _files.load(*beside):
        case {"fingerprint": str(fingerprint), "dimensions": int(dimensions)}:
            return EmbeddingSpace(vocabulary, VectorSource(read_again, dimensions, fingerprint))
    space = EmbeddingSpace(vocabulary, read())
    _files.store({"fingerprint": space.fingerprint, "dimensions": space.vectors.shape[1]}, *beside)
    return space


def encode_tokens(vocabulary: Vocabulary, encode: Callable[[list[str]], Table]) -> Table:
    """Encodes each token as a text of its own."""
    texts = [(token.strip() or token).removeprefix("##") for token in vocabulary.tokens]
    with told(f"encoding {len(texts):,} tokens"):
        parts = [encode(texts[start : start + _STEP]) for start in range(0, len(texts), _STEP)]
    return np.concatenate(parts)


def _input(model: str, vocabulary: Vocabulary, kind: Kind) -> Table:
    """Rows of the model's input-embedding matrix, averaged over the WordPieces of a token.

    They are made of unit length first, unless they are wanted raw.
    """
    with needs("models"):
        from safetensors import safe_open

    with safe_open(_files.encoder_file(model, "model.safetensors"), "np") as file:
        names = [name for name in file.keys() if name.endswith("word_embeddings.weight")]  # noqa: SIM118
        if len(names) != 1:
            raise ParameterError(f'expected one word-embedding matrix in {model!r}; use "encoded"')
        matrix: Table = file.get_tensor(names[0]).astype(np.float32)
    if kind != "raw":
        matrix = unit_rows(matrix).astype(np.float32)
    source = _files.encoder_tokenizer(model)
    if vocabulary.tokenizer.name == f"wordpiece:{model}":
        own = source.get_vocab()
        return matrix[[own[token] for token in vocabulary.tokens]]
    texts = [token.strip() for token in vocabulary.tokens]
    pieces = source.encode_batch(texts, add_special_tokens=False)
    nothing = np.zeros(matrix.shape[1], dtype=np.float32)
    return np.stack([sum(matrix[p.ids], nothing) / max(1, len(p.ids)) for p in pieces])


def _revision(model: str) -> str:
    """Changes with the weights: their size and their first and last megabyte."""
    path = _files.encoder_file(model, "model.safetensors")
    size, part = path.stat().st_size, 1 << 20
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        digest.update(file.read(part))
        file.seek(max(0, size - part))
        digest.update(file.read(part))
    return digest.hexdigest()[:16]
