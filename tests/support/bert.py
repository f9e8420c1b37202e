"""A tiny random BERT, as it is or with the WordPieces of a real encoder."""

import torch
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

from dp_middleware import _files


def bert(tokenizer, *, positions=64, width=16, layers=1, spread=0.4):
    """For a tokenizer, always the same."""
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=2 * width,
        max_position_embeddings=positions,
        initializer_range=spread,
    )
    torch.manual_seed(0)
    return BertForMaskedLM(config).eval()


def save_bert(folder, **options):
    tokenizer = AutoTokenizer.from_pretrained(_files.encoder_source("all-MiniLM-L6-v2"))
    bert(tokenizer, **options).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)
