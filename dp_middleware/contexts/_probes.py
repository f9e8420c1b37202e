"""Trial passes that tell whether a model reads more of its input than is counted."""

from __future__ import annotations

from typing import Any

import numpy as np

from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Ids
from dp_middleware.errors import ParameterError

_LENGTHS = (2, 32)  # tokens; one token weighs most in a short text
_TRIALS = 2
_TOLERANCE = 1e-5  # of the largest logit; passes of one shape differ by less


def check_sequences_are_apart(network: Any, window: int, name: str) -> None:
    """Refuses a model whose logits for a sequence depend on the other one of its batch.

    A scale shared by the whole batch, as of dynamically quantised activations, is moved by most
    texts: one text of one repeated token is passed beside itself and beside a varied one.
    """
    for steady, varied in trials(network, window):
        first, second = (
            _logits(network, np.stack([steady, other]))[0] for other in (steady, varied)
        )
        if differ(first, second):
            raise ParameterError(
                f"expected a model that computes each sequence independently, got {name!r}, whose "
                "logits depend on the whole batch; dynamically quantised models do that: use the "
                "model in floating point"
            )


def check_causal(network: Any, window: int, name: str) -> None:
    """Refuses a model whose logits at a position depend on a later token."""
    for steady, varied in trials(network, window):
        for text in (steady, varied):
            other = np.append(text[:-1], varied[len(varied) // 2])
            first, second = (_logits(network, ids[None])[0, :-1] for ids in (text, other))
            if differ(first, second):
                raise ParameterError(
                    f"expected a causal model, got {name!r}, whose logits depend on later tokens; "
                    "see dp.MaskedContext"
                )


def trials(network: Any, window: int) -> list[tuple[Ids, Ids]]:
    """Pairs of a text of one token and a text of many, of equal length; of public tokens."""
    rng = np.random.default_rng(0)
    size = int(network.config.vocab_size)
    lengths = sorted({min(length, window) for length in _LENGTHS} - {0, 1})
    return [
        (np.full(length, rng.integers(size)), rng.integers(size, size=length))
        for length in lengths
        for _ in range(_TRIALS)
    ]


def _logits(network: Any, ids: Ids) -> Any:
    with torch.inference_mode():
        inputs = torch.from_numpy(ids).to(network.device)
        mask = torch.ones_like(inputs)
        return network(input_ids=inputs, attention_mask=mask, return_dict=True).logits.float()


def differ(first: Any, second: Any) -> bool:
    """Tells whether logits differ, also where either is not finite."""
    largest = float(first.abs().max())
    return not float((first - second).abs().max()) <= _TOLERANCE * largest


def linear_head(network: Any, window: int) -> Any:
    """Returns the linear layer from the base model's hidden states to the network's logits.

    ``None`` if there is none, or if trial passes tell that there is more to it (scales, caps).
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
    """Copies weight (V, d) and bias (V,) or ``None`` of some of the layer's outputs."""
    places = torch.from_numpy(tokens).to(head.weight.device)
    with torch.no_grad():
        return head.weight[places], None if head.bias is None else head.bias[places]
