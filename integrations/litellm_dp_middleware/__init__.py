"""LiteLLM: a guardrail of its proxy that releases requests and restores answers."""

from dp_middleware.errors import needs

with needs("litellm", "litellm[proxy]"):
    import litellm  # noqa: F401

from litellm_dp_middleware.guardrail import DPGuardrail

__all__ = ["DPGuardrail"]
