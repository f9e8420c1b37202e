"""What language models say of each position: logits for contextual mechanisms."""

from dp_middleware.contexts.causal import CausalContext
from dp_middleware.contexts.masked import MaskedContext
from dp_middleware.contexts.models import Context, Stream

__all__ = ["CausalContext", "Context", "MaskedContext", "Stream"]
