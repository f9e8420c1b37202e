"""LangChain adapters of ``dp_middleware``: raw text stays in front of the chain and its traces."""

from __future__ import annotations

from dp_middleware.errors import MissingExtra

try:
    import langchain_core  # noqa: F401
except ModuleNotFoundError:
    raise MissingExtra("langchain-core", "langchain") from None

from langchain_dp_middleware.head import PrivateHead

__all__ = ["PrivateHead"]
