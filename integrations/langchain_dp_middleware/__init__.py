"""LangChain adapters of ``dp_middleware``: raw text stays in front of the chain and its traces."""
# ruff: noqa: F401 - names for type checkers; __getattr__ loads them

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dp_middleware.errors import MissingExtra

try:
    import langchain_core
except ModuleNotFoundError:
    raise MissingExtra("langchain-core", "langchain") from None

_HOME = {
    "DPAgentMiddleware": "agents",  # needs langchain
    "check_agent": "check",  # needs langchain
    "check_chain": "chain_check",
    "Finding": "_findings",
    "untraced": "tracing",
    "DPChatModel": "chat_model",
    "DPDocumentTransformer": "documents",
    "DPEmbeddings": "embeddings",
    "DPRetriever": "retriever",
    "DPSanitizer": "sanitizer",
    "InferDPTChatModel": "inferdpt",
    "PrivRewriteRunnable": "privrewrite",
    "PrivateHead": "head",
    "ServiceEmbeddings": "service_embeddings",
    "note_answer": "_answers",
}

__all__ = [*_HOME]  # noqa: PLE0604

if TYPE_CHECKING:
    from langchain_dp_middleware._findings import Finding
    from langchain_dp_middleware._messages import note_answer
    from langchain_dp_middleware.agents import DPAgentMiddleware
    from langchain_dp_middleware.chain_check import check_chain
    from langchain_dp_middleware.chat_model import DPChatModel
    from langchain_dp_middleware.check import check_agent
    from langchain_dp_middleware.documents import DPDocumentTransformer
    from langchain_dp_middleware.embeddings import DPEmbeddings
    from langchain_dp_middleware.head import PrivateHead
    from langchain_dp_middleware.inferdpt import InferDPTChatModel
    from langchain_dp_middleware.privrewrite import PrivRewriteRunnable
    from langchain_dp_middleware.retriever import DPRetriever
    from langchain_dp_middleware.sanitizer import DPSanitizer
    from langchain_dp_middleware.service_embeddings import ServiceEmbeddings
    from langchain_dp_middleware.tracing import untraced


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'langchain_dp_middleware' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"langchain_dp_middleware.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
