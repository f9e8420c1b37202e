"""Whole files and data sets: each row is released once, and paid once."""

from importlib.util import find_spec

from dp_middleware.errors import MissingExtra

if find_spec("pyarrow") is None:
    raise MissingExtra("pyarrow", "corpora")

from dp_middleware.corpora.chunks import ChunkFolder, chunk_key, release_chunk
from dp_middleware.corpora.columns import Columns
from dp_middleware.corpora.files import restore_file, sanitize_file
from dp_middleware.corpora.jobs import Report
from dp_middleware.corpora.numbered import NumberedRows

__all__ = [
    "ChunkFolder",
    "Columns",
    "NumberedRows",
    "Report",
    "chunk_key",
    "release_chunk",
    "restore_file",
    "sanitize_file",
]
