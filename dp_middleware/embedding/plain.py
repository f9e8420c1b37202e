"""The default encoder on NumPy alone: nothing to import, and quick for a few short texts.

For searches, which may read a vector that is off by rounding; vectors of spaces come from
:mod:`~dp_middleware.embedding.service`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dp_middleware import _files
from dp_middleware.embedding.service import EmbeddingService
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.vocabulary.bert import default_bert
from dp_middleware.vocabulary.vocabulary import Vocabulary

Rows = NDArray[np.float32]

_WINDOW = 256  # tokens, the two special ones included
_HEADS = 12
_FLOOR = np.float32(1e-12)
_GELU = np.float32(math.sqrt(2 / math.pi))
_MOST_READ = 8192  # characters


class PlainEncoder:
    """Runs a BERT model (Devlin et al., 2019) with mean pooling, from a file of safetensors.

    Each text's vector is computed by itself, within 1e-3 of
    :class:`~dp_middleware.EmbeddingService`, as GELU is the formula with tanh.
    """

    def __init__(self, weights: Path) -> None:
        data = np.memmap(weights, np.uint8, "r")
        start = 8 + int.from_bytes(data[:8].tobytes(), "little")
        self._arrays: dict[str, Rows] = {}
        for name, one in json.loads(data[8:start].tobytes()).items():
            if one.get("dtype") == "F32":
                first, end = one["data_offsets"]
                flat = data[start + first : start + end].view(np.float32)
                self._arrays[name] = flat.reshape(one["shape"])
        self._root = np.float32(math.sqrt(self._arrays["embeddings.LayerNorm.bias"].size / _HEADS))
        self._layers = sum(name.endswith("intermediate.dense.bias") for name in self._arrays)

    @property
    def pieces(self) -> Rows:
        """Embeddings of the model's WordPieces, float32 (V, d)."""
        return self._arrays["embeddings.word_embeddings.weight"]

    def encode(self, texts: Sequence[str]) -> Rows:
        """Returns vectors of texts, float32 (n, d), rows of unit length."""
        bert = default_bert()
        ends = [bert.get_vocab()[sign] for sign in ("[CLS]", "[SEP]")]
        cut = [bert.encode(text[:_MOST_READ]).ids[: _WINDOW - 2] for text in texts]
        ids = [[ends[0], *own, ends[1]] for own in cut]
        stops = np.cumsum([0, *map(len, ids)]).tolist()
        spans = [slice(*pair) for pair in pairwise(stops)]
        rows = self.pieces[np.concatenate(ids)]
        places = np.concatenate([np.arange(len(own)) for own in ids])
        rows = rows + self._arrays["embeddings.position_embeddings.weight"][places]
        rows = rows + self._arrays["embeddings.token_type_embeddings.weight"][0]
        rows = self._normed(rows, "embeddings")
        for layer in range(self._layers):
            rows = self._layer(rows, spans, f"encoder.layer.{layer}")
        means = np.array([rows[span].mean(axis=0) for span in spans])
        lengths = np.linalg.norm(means, axis=1, keepdims=True)
        return np.asarray(means / np.maximum(lengths, _FLOOR))

    def _layer(self, rows: Rows, spans: Sequence[slice], name: str) -> Rows:
        """A layer over the tokens of all texts, of which each attends to those of its text."""
        query, key, value = (
            self._linear(rows, f"{name}.attention.self.{part}").reshape(len(rows), _HEADS, -1)
            for part in ("query", "key", "value")
        )
        mixed = np.empty_like(value)
        for span in spans:
            scores = query[span].swapaxes(0, 1) @ key[span].transpose(1, 2, 0)
            scores = np.exp((scores - scores.max(axis=-1, keepdims=True)) / self._root)
            scores /= scores.sum(axis=-1, keepdims=True)
            mixed[span] = (scores @ value[span].swapaxes(0, 1)).swapaxes(0, 1)
        attended = self._linear(mixed.reshape(rows.shape), f"{name}.attention.output.dense")
        rows = self._normed(rows + attended, f"{name}.attention.output")
        inner = self._linear(rows, f"{name}.intermediate.dense")
        inner *= 0.5 * (1 + np.tanh(_GELU * (inner + 0.044715 * inner * inner * inner)))
        return self._normed(rows + self._linear(inner, f"{name}.output.dense"), f"{name}.output")

    def _linear(self, rows: Rows, name: str) -> Rows:
        return np.asarray(rows @ self._arrays[f"{name}.weight"].T + self._arrays[f"{name}.bias"])

    def _normed(self, rows: Rows, name: str) -> Rows:
        centred = rows - rows.mean(axis=1, keepdims=True)
        centred /= np.sqrt(np.square(centred).mean(axis=1, keepdims=True) + _FLOOR)
        scaled: Rows = centred * self._arrays[f"{name}.LayerNorm.weight"]
        return scaled + self._arrays[f"{name}.LayerNorm.bias"]

    def space(self, vocabulary: Vocabulary, vectors: Literal["encoded"]) -> EmbeddingSpace:
        """Gives the vocabulary vectors of its entries; computed every time."""
        return EmbeddingSpace(vocabulary, self.encode(vocabulary.tokens))


@cache
def searcher() -> PlainEncoder | EmbeddingService | None:
    """Picks what encodes for a search: the model on disk, else a service, else nothing."""
    weights = Path(_files.encoder_source(_files.DEFAULT_ENCODER)) / "model.safetensors"
    if weights.is_file():
        return PlainEncoder(weights)
    return EmbeddingService() if find_spec("sentence_transformers") else None
