"""Whole files and data sets: each row is released once, and paid once."""

from dp_middleware.corpora.chunks import ChunkFolder, chunk_key, release_chunk
from dp_middleware.corpora.columns import Columns

__all__ = ["ChunkFolder", "Columns", "chunk_key", "release_chunk"]
