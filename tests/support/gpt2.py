"""A tiny random GPT-2."""

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast


def gpt2(tokenizer, *, positions, layers, spread):
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


def letters():
    """A tiny random model and its tokenizer, of words of the letters b, c and d."""
    pieces = ["<end>", "Ċ", "Ġ", "b", "c", "d", "Ġb", "Ġc", "Ġd", "bc"]
    merges = [("Ġ", "b"), ("Ġ", "c"), ("Ġ", "d"), ("b", "c")]
    own = Tokenizer(models.BPE({piece: k for k, piece in enumerate(pieces)}, merges))
    own.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    own.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=own, eos_token="<end>")
    return gpt2(tokenizer, positions=16, layers=2, spread=0.3), tokenizer
