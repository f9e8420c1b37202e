"""Makes what tells roughly which English units are near a text, without encoding the units.

    python benchmarks/unit_map.py

From the mean of the word embeddings of a unit's WordPieces to the vector that all-MiniLM-L6-v2
(Apache License 2.0) has for it: least squares over the units that ship, in bytes; and the length
of what the map gives for each unit. Encodes all units at first, in two minutes on two cores.
"""

from __future__ import annotations

import numpy as np

import dp_middleware as dp
from dp_middleware.embedding.plain import PlainEncoder, searcher
from dp_middleware.mechanisms.kernels import units
from dp_middleware.vocabulary.vocabulary import Vocabulary


def main() -> None:
    """Write the file."""
    encoder, listed = searcher(), units.english()
    assert isinstance(encoder, PlainEncoder)
    exact = dp.EmbeddingService().space(Vocabulary(listed), "encoded").vectors
    pieces = units.Pieces(listed)
    means = np.stack([pieces.means(column) for column in encoder.pieces.T], axis=1)
    inputs = np.hstack([means, np.full((len(means), 1), units.CONSTANT)])
    ridge = inputs.T @ inputs + 1e-2 * np.eye(inputs.shape[1])
    linear = np.linalg.solve(ridge, inputs.T @ exact)
    scale = np.abs(linear).max(axis=1, keepdims=True) / 127
    rounded = np.rint(linear / scale).astype(np.int8)
    lengths = np.linalg.norm(inputs @ (rounded * scale), axis=1)
    bytes_ = np.clip(np.rint(lengths / lengths.max() * 255), 1, 255).astype(np.uint8)
    np.savez_compressed(units.FILE, map=rounded, scale=scale.astype(np.float32), lengths=bytes_)


if __name__ == "__main__":
    main()
