"""Vector tables of vocabularies: read off a model's weights, and kept on disk."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dp_middleware import _files
from dp_middleware.embedding.grid import unit_rows
from dp_middleware.errors import ParameterError
from dp_middleware.vocabulary.vocabulary import Vocabulary

Table = NDArray[np.float32]


def input_table(model: str, vocabulary: Vocabulary) -> Table:
    """Rows of the model's input-embedding matrix, averaged over the WordPieces of a token."""
    matrix = unit_rows(_input_matrix(model)).astype(np.float32)
    source = _files.encoder_tokenizer(model)
    if vocabulary.tokenizer.name == f"wordpiece:{model}":
        own = source.get_vocab()
        return matrix[[own[token] for token in vocabulary.tokens]]
    texts = [token.strip() for token in vocabulary.tokens]
    pieces = source.encode_batch(texts, add_special_tokens=False)
    nothing = np.zeros(matrix.shape[1], dtype=np.float32)
    return np.stack([sum(matrix[p.ids], nothing) / max(1, len(p.ids)) for p in pieces])


def table_path(model: str, vocabulary: Vocabulary, kind: str) -> Path:
    """Where the table of a vocabulary is kept; changes with the model's weights."""
    key = f"{model}/{_revision(model)}/{vocabulary.fingerprint}/{kind}"
    name = hashlib.sha256(key.encode()).hexdigest()[:32]
    return _files.cache_dir() / "vectors" / f"{name}.safetensors"


def _input_matrix(model: str) -> Table:
    """The model's input-embedding matrix, read without loading the model."""
    from safetensors import safe_open

    with safe_open(_files.encoder_file(model, "model.safetensors"), "np") as file:
        names = [name for name in file.keys() if name.endswith("word_embeddings.weight")]  # noqa: SIM118
        if len(names) != 1:
            raise ParameterError(f'expected one word-embedding matrix in {model!r}; use "encoded"')
        return np.asarray(file.get_tensor(names[0]), dtype=np.float32)


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


def read_table(path: Path, rows: int) -> Table | None:
    """What was kept there; ``None`` if it is absent, damaged or of another length."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        table = load_file(path)["vectors"]
    except (OSError, KeyError, SafetensorError):
        return None
    return table if len(table) == rows else None


def write_table(path: Path, table: Table) -> None:
    """Written whole or not at all; a folder that cannot be written costs time only."""
    from safetensors.numpy import save_file

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        os.close(handle)
        save_file({"vectors": np.ascontiguousarray(table, dtype=np.float32)}, name)
        Path(name).replace(path)
    except OSError:
        return
