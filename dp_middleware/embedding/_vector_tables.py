"""Vector tables of vocabularies: read off a model's weights, and kept on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dp_middleware import _files
from dp_middleware.embedding import grid
from dp_middleware.embedding.arrays import Floats, VectorSource
from dp_middleware.embedding.grid import unit_rows
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError, needs
from dp_middleware.vocabulary.vocabulary import Vocabulary

Table = NDArray[np.float32]
Kind = Literal["input", "raw", "encoded"]

_STEP = 256  # tokens per step of a progress bar


def named_space(
    model: str,
    precision: str,
    vocabulary: Vocabulary,
    kind: Kind,
    encode: Callable[[list[str]], Table],
) -> EmbeddingSpace:
    """The vocabulary with the vectors of a named model, which are on disk from the first time on.

    Their file is read when something is computed with them: the fingerprint of the space is kept
    beside it. Another file for other weights; one that is damaged or of another length is made
    again. A folder that cannot be written costs time only.
    """
    half = kind == "encoded" and precision != "float32"
    form = f"{kind}/{precision}" if half else kind
    key = f"{model}/{_revision(model)}/{vocabulary.fingerprint}/{form}"
    path = _files.cache_path("vectors", key, suffix=".safetensors")

    def read() -> Floats:
        table = _load(path, len(vocabulary))
        if table is None:
            if kind == "encoded":
                table = encode_tokens(vocabulary, encode)
            else:
                table = _input(model, vocabulary, kind)
            _store(path, table)
        return table.astype(np.float64) if kind == "raw" else unit_rows(table)

    beside = _beside(path, key)
    match _files.load(*beside) if beside else None:
        case {"fingerprint": str(fingerprint), "dimensions": int(dimensions)}:
            again = partial(_read_again, read, path, vocabulary, fingerprint)
            return EmbeddingSpace(vocabulary, VectorSource(again, dimensions, fingerprint))
    space = EmbeddingSpace(vocabulary, read())
    if beside := _beside(path, key):
        own = {"fingerprint": space.fingerprint, "dimensions": space.vectors.shape[1]}
        _files.store(own, *beside)
    return space


def _beside(path: Path, key: str) -> tuple[str, ...] | None:
    """Where the fingerprint is kept: by the state of the file and the code that reads it."""
    try:
        status = path.stat()
    except OSError:
        return None
    code = _files.folders_fingerprint("embedding", "vocabulary")
    return "spaces", key, f"{status.st_size} {status.st_mtime_ns}", code


def _read_again(
    read: Callable[[], Floats], path: Path, vocabulary: Vocabulary, fingerprint: str
) -> Floats:
    """The vectors of this space; a file of others is removed.

    Raises:
        ParameterError: They are of another space.
    """
    vectors = read()
    if grid.fingerprint(vocabulary.fingerprint, vectors) != fingerprint:
        path.unlink(missing_ok=True)
        raise ParameterError(
            f"expected the vectors of the space {fingerprint[:8]}, got others: their file "
            f"{path.name} was damaged or replaced, and is removed now; start again"
        )
    vectors.setflags(write=False)
    return vectors


def _load(path: Path, size: int) -> Table | None:
    """What was stored; ``None`` if it is absent, damaged or of another length."""
    with needs("models"):
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

    with suppress(OSError, KeyError, SafetensorError):
        table: Table = load_file(path)["vectors"]
        if len(table) == size:
            return table
    return None


def _store(path: Path, table: Table) -> None:
    with needs("models"):
        from safetensors.numpy import save

    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _files.unfinished(path) as file:
            file.write(save({"vectors": np.ascontiguousarray(table, dtype=np.float32)}))


def encode_tokens(vocabulary: Vocabulary, encode: Callable[[list[str]], Table]) -> Table:
    """Each token encoded as a text of its own; a progress bar, where there is a terminal."""
    from rich.console import Console
    from rich.progress import track

    texts = [(token.strip() or token).removeprefix("##") for token in vocabulary.tokens]
    console = Console(stderr=True)
    steps = track(
        range(0, len(texts), _STEP), "Encoding", console=console, disable=not console.is_terminal
    )
    return np.concatenate([encode(texts[start : start + _STEP]) for start in steps])


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
