"""One encoder per model and device: sentence vectors, and vector tables for vocabularies."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dp_middleware import _models, _validate
from dp_middleware.embedding.space import EmbeddingSpace, unit_rows
from dp_middleware.errors import ParameterError
from dp_middleware.vocabulary import Vocabulary

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

DEFAULT_ENCODER = "all-MiniLM-L6-v2"
Vectors = Literal["input", "encoded"]

_BATCH = 256


class EmbeddingService:
    """A sentence encoder, loaded at first use and shared by its callers.

    The model is found in an installed offline package, in a local folder, or on the model hub.
    Texts to encode are private: nothing of them is cached or logged.

    Args:
        model: Name or folder of a sentence-transformers model.
        device: ``"cpu"``, ``"cuda"``, ``"mps"`` or ``"auto"``: the fastest there is.
    """

    def __init__(self, model: str = DEFAULT_ENCODER, device: str = "auto") -> None:
        self.model = model
        self.device = device
        self._lock = Lock()
        self._encoder: SentenceTransformer | None = None

    def __repr__(self) -> str:
        return f"EmbeddingService({self.model!r}, device={self.device!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {"model": self.model, "device": self.device}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of whole texts, float32 (n, d), rows of unit length."""
        return self._encode(texts, progress=False)

    def space(self, vocabulary: Vocabulary, vectors: Vectors = "input") -> EmbeddingSpace:
        """The vocabulary with unit vectors of this model; kept on disk.

        Args:
            vocabulary: V tokens.
            vectors: ``"input"``: rows of the model's input-embedding matrix, averaged over the
                WordPieces of a token; no encoding pass. ``"encoded"``: each token encoded as a
                text of its own; a progress bar the first time.
        """
        _validate.one_of(("input", "encoded"), vectors=vectors)
        path = self._table_path(vocabulary, vectors)
        table = _read(path)
        if table is None or len(table) != len(vocabulary):
            table = self._input(vocabulary) if vectors == "input" else self._encoded(vocabulary)
            _write(path, table)
        return EmbeddingSpace(vocabulary, unit_rows(table))

    def _encode(self, texts: Sequence[str], *, progress: bool) -> NDArray[np.float32]:
        with self._lock:
            if self._encoder is None:
                self._encoder = self._load()
            if not texts:
                return np.empty((0, self._encoder.get_embedding_dimension() or 0), np.float32)
            rows = self._encoder.encode(
                list(texts),
                batch_size=_BATCH,
                convert_to_numpy=True,
                normalize_embeddings=True,
                show_progress_bar=progress,
            )
        return np.asarray(rows, dtype=np.float32)

    def _load(self) -> SentenceTransformer:
        from sentence_transformers import SentenceTransformer

        device = None if self.device == "auto" else self.device
        return SentenceTransformer(_models.encoder_source(self.model), device=device)

    def _encoded(self, vocabulary: Vocabulary) -> NDArray[np.float32]:
        texts = [token.strip() or token for token in vocabulary.tokens]
        return self._encode([text.removeprefix("##") for text in texts], progress=True)

    def _input(self, vocabulary: Vocabulary) -> NDArray[np.float32]:
        matrix = unit_rows(_input_matrix(self.model)).astype(np.float32)
        source = _models.encoder_tokenizer(self.model)
        if vocabulary.tokenizer.name == f"wordpiece:{self.model}":
            own = source.get_vocab()
            return matrix[[own[token] for token in vocabulary.tokens]]
        texts = [token.strip() for token in vocabulary.tokens]
        pieces = source.encode_batch(texts, add_special_tokens=False)
        nothing = np.zeros(matrix.shape[1], dtype=np.float32)
        return np.stack([matrix[p.ids].mean(axis=0) if p.ids else nothing for p in pieces])

    def _table_path(self, vocabulary: Vocabulary, vectors: Vectors) -> Path:
        key = f"{self.model}/{_revision(self.model)}/{vocabulary.fingerprint}/{vectors}"
        name = hashlib.sha256(key.encode()).hexdigest()[:32]
        return _models.cache_dir() / "vectors" / f"{name}.safetensors"


@lru_cache(maxsize=1)
def default_space() -> EmbeddingSpace:
    """WordPieces of all-MiniLM-L6-v2 with their input embeddings: 29,523 tokens, d = 384.

    One object per process.
    """
    return EmbeddingService().space(Vocabulary.from_encoder(DEFAULT_ENCODER))


def _input_matrix(model: str) -> NDArray[np.float32]:
    """The model's input-embedding matrix, read without loading the model."""
    from safetensors import safe_open

    with safe_open(_models.encoder_file(model, "model.safetensors"), "np") as file:
        names = [name for name in file.keys() if name.endswith("word_embeddings.weight")]  # noqa: SIM118
        if len(names) != 1:
            raise ParameterError(f'expected one word-embedding matrix in {model!r}; use "encoded"')
        return np.asarray(file.get_tensor(names[0]), dtype=np.float32)


def _revision(model: str) -> str:
    """Changes with the weights: their size and their first and last megabyte."""
    path = _models.encoder_file(model, "model.safetensors")
    size, part = path.stat().st_size, 1 << 20
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        digest.update(file.read(part))
        file.seek(max(0, size - part))
        digest.update(file.read(part))
    return digest.hexdigest()[:16]


def _read(path: Path) -> NDArray[np.float32] | None:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return load_file(path)["vectors"]
    except (OSError, KeyError, SafetensorError):
        return None  # absent or damaged: computed again


def _write(path: Path, table: NDArray[np.float32]) -> None:
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
