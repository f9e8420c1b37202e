"""A tiny random GPT-2."""

from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel


def gpt2(tokenizer: Any, *, positions: int, layers: int, spread: float) -> GPT2LMHeadModel:
    """For a tokenizer with a token for the end, always the same."""
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=positions,
        n_embd=32,
        n_layer=layers,
        n_head=2,
        initializer_range=spread,
        bos_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    torch.manual_seed(0)
    return GPT2LMHeadModel(config).eval()
