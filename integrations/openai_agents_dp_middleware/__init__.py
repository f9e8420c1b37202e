"""OpenAI Agents SDK: models are sent released text only, and tracing is left without data."""

from dp_middleware.errors import needs

with needs("openai-agents", "openai-agents"):
    import agents  # noqa: F401

from openai_agents_dp_middleware.model import DPModel, private_run

__all__ = ["DPModel", "private_run"]
