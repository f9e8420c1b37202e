"""A causal model's output layer for the tokens of one space, of a vocabulary that may be huge."""

from __future__ import annotations

from typing import Any

from dp_middleware._torch import torch
from dp_middleware.contexts._probes import differ, trials
from dp_middleware.embedding.arrays import Ids


def linear_head(network: Any, window: int) -> Any:
    """The linear layer that turns the base model's hidden states into the network's logits.

    ``None`` if there is no such layer, or if trial passes tell that there is more to it, as where
    logits are scaled or capped.
    """
    body = getattr(network, "base_model", network)
    head = getattr(network, "get_output_embeddings", lambda: None)()
    if body is network or type(head) is not torch.nn.Linear or head.weight.is_meta:
        return None
    texts = [varied for _, varied in trials(network, window)]
    return head if texts and all(_is_all(network, body, head, text) for text in texts) else None


def _is_all(network: Any, body: Any, head: Any, text: Ids) -> bool:
    """Whether the layer, applied to the body's hidden states, says what the network says."""
    inputs = torch.from_numpy(text)[None].to(network.device)
    options = {"attention_mask": torch.ones_like(inputs), "return_dict": True}
    with torch.inference_mode():
        states = getattr(body(input_ids=inputs, **options), "last_hidden_state", None)
        if states is None or states.shape[-1] != head.in_features:
            return False
        found, logits = head(states), network(input_ids=inputs, **options).logits
        return found.shape == logits.shape and not differ(logits.float(), found.float())


def outputs_of(head: Any, tokens: Ids) -> tuple[Any, Any]:
    """Weight (V, d) and bias (V,) or ``None`` of some of the layer's outputs, copied."""
    places = torch.from_numpy(tokens).to(head.weight.device)
    with torch.no_grad():
        return head.weight[places], None if head.bias is None else head.bias[places]
