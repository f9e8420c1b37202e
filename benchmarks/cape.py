"""Where the time of a CAPE release goes: the language model, the rows, the tables, the draws.

    python benchmarks/cape.py [--tokens 128] [--mechanism cape|cape-strict] [--unmasked]

A text of random tokens of the default space, a model of the size of BERT-base with random weights
(nothing is downloaded; the time does not depend on the weights). The baseline is the model: the
last line says which share of the whole it takes.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

import dp_middleware as dp
from dp_middleware import _files
from dp_middleware.contexts import MaskedContext
from dp_middleware.mechanisms.cape import DEFAULT_LOGIT_BOUND, Cape, CapeStrict
from dp_middleware.sampling import sampler

MECHANISMS = {"cape": Cape, "cape-strict": CapeStrict}
EPSILON = 6.0


def bert_base(unmasked: bool) -> MaskedContext:
    """BERT-base from its configuration, with the WordPieces of the default space's encoder."""
    tokenizer = AutoTokenizer.from_pretrained(_files.encoder_source("all-MiniLM-L6-v2"))
    network = BertForMaskedLM(BertConfig(vocab_size=len(tokenizer)))
    return MaskedContext((network, tokenizer), unmasked=unmasked)


def main() -> None:
    """Print seconds and shares as a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--mechanism", choices=list(MECHANISMS), default="cape")
    parser.add_argument("--unmasked", action="store_true")
    options = parser.parse_args()
    space, context = dp.default_space(), bert_base(options.unmasked)
    kind = MECHANISMS[options.mechanism]
    mechanism = kind(epsilon=EPSILON, logit_bound=DEFAULT_LOGIT_BOUND, context="raw")
    ids = np.random.default_rng(0).integers(0, len(space), options.tokens)
    mechanism.log_probs(ids[:1], space, context.logits(ids[:1], space))  # maps and tables

    marks = [time.perf_counter()]
    logits = context.logits(ids, space)
    marks.append(time.perf_counter())
    rows = mechanism.log_probs(ids, space, logits)
    marks.append(time.perf_counter())
    tables = sampler.tables(rows)
    marks.append(time.perf_counter())
    released = [int(table.draw(1, sampler.os_entropy)[0]) for table in tables]
    marks.append(time.perf_counter())
    assert len(released) == options.tokens

    seconds = np.diff(marks)
    print(f"{options.tokens} tokens, {options.mechanism}, {torch.get_num_threads()} threads\n")
    print("| part | seconds | share |\n|---|---|---|")
    for name, spent in zip(("model", "log_probs", "tables", "draws"), seconds, strict=True):
        print(f"| {name} | {spent:.3f} | {spent / seconds.sum():.1%} |")


if __name__ == "__main__":
    main()
