"""Embedding spaces and the service that makes them."""

from dp_middleware.embedding.glove import glove_space
from dp_middleware.embedding.service import EmbeddingService, default_space
from dp_middleware.embedding.space import EmbeddingSpace

__all__ = ["EmbeddingService", "EmbeddingSpace", "default_space", "glove_space"]
