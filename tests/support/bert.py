"""A tiny random BERT, as it is or with the WordPieces of a real encoder."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

from dp_middleware import _files


def bert(
    tokenizer: Any, *, positions: int = 64, width: int = 16, layers: int = 1, spread: float = 0.4
) -> BertForMaskedLM:
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


def save_bert(folder: Path, **options: Any) -> str:
    """Save one as transformers saves models; the folder's name."""
    tokenizer = AutoTokenizer.from_pretrained(_files.encoder_source("all-MiniLM-L6-v2"))
    bert(tokenizer, **options).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)
