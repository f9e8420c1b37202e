"""Embedding spaces and the service that makes them."""

from dp_middleware.embedding.glove import glove_space
from dp_middleware.embedding.service import EmbeddingService, default_space
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.embedding.usage import ServiceMetrics

__all__ = ["EmbeddingService", "EmbeddingSpace", "ServiceMetrics", "default_space", "glove_space"]
