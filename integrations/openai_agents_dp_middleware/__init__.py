"""OpenAI Agents SDK: models are sent released text only, and tracing is left without data."""

from __future__ import annotations

from dp_middleware.errors import MissingExtra

try:
    import agents  # noqa: F401
except ModuleNotFoundError:
    raise MissingExtra("openai-agents", "openai-agents") from None

from openai_agents_dp_middleware._items import release_input
from openai_agents_dp_middleware.model import DPModel, private_run

__all__ = ["DPModel", "private_run", "release_input"]
