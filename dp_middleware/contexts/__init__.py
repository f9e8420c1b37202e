"""What language models say of each position: logits for contextual mechanisms."""

from dp_middleware.contexts.base import Context, Stream
from dp_middleware.contexts.causal import CausalContext
from dp_middleware.contexts.masked import MaskedContext

__all__ = ["CausalContext", "Context", "MaskedContext", "Stream"]
