"""LlamaIndex adapters of ``dp_middleware``: what leaves or is traced was released before."""

from __future__ import annotations

from dp_middleware.errors import needs

with needs("llama-index", "llama-index-core"):
    import llama_index.core  # noqa: F401

from dp_middleware.models.recorders import quiet_recorders
from llama_index_dp_middleware._blocks import epsilon, subject, unrecorded
from llama_index_dp_middleware.embedding import DPEmbedding, ServiceEmbedding
from llama_index_dp_middleware.engine import DPQueryEngine, DPQueryTransform
from llama_index_dp_middleware.llm import DPLLM
from llama_index_dp_middleware.nodes import DPNodePostprocessor, DPTransform

# fmt: off
__all__ = [
    "DPLLM", "DPEmbedding", "DPNodePostprocessor", "DPQueryEngine", "DPQueryTransform",
    "DPTransform", "ServiceEmbedding", "epsilon", "quiet_recorders", "subject", "unrecorded",
]
# fmt: on
