"""What language models say of each position: logits for contextual mechanisms."""

from dp_middleware.contexts.base import Context
from dp_middleware.contexts.causal import CausalContext
from dp_middleware.contexts.masked import MaskedContext
from dp_middleware.contexts.streams import Stream, Streams

__all__ = ["CausalContext", "Context", "MaskedContext", "Stream", "Streams"]
