"""pydantic-ai: a model around another one, which is sent released text only."""

from __future__ import annotations

from dp_middleware.errors import MissingExtra

try:
    import pydantic_ai  # noqa: F401
except ModuleNotFoundError:
    raise MissingExtra("pydantic-ai-slim", "pydantic-ai") from None

from pydantic_ai_dp_middleware.model import DPModel

__all__ = ["DPModel"]
