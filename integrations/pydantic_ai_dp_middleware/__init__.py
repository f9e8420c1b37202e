"""pydantic-ai: a model around another one, which is sent released text only."""

from dp_middleware.errors import needs

with needs("pydantic-ai", "pydantic-ai-slim"):
    import pydantic_ai  # noqa: F401

from pydantic_ai_dp_middleware.model import DPModel

__all__ = ["DPModel"]
