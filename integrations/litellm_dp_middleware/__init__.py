"""LiteLLM: a guardrail of its proxy that releases requests and restores answers."""

from __future__ import annotations

from dp_middleware.errors import MissingExtra

try:
    import litellm  # noqa: F401
except ModuleNotFoundError:
    raise MissingExtra("litellm[proxy]", "litellm") from None

from litellm_dp_middleware.guardrail import DPGuardrail

__all__ = ["DPGuardrail"]
