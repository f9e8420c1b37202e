"""Trial passes that tell whether a model reads more of its input than is counted."""

from __future__ import annotations

from typing import Any

import numpy as np

from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Ids

_LENGTHS = (2, 32)  # tokens of a trial pass; one token weighs most in a short text
_TRIALS = 2
_TOLERANCE = 1e-5  # of the largest logit; passes of one shape differ by less


def trials(network: Any, window: int) -> list[tuple[Ids, Ids]]:
    """Pairs of a text of one token and a text of many, of equal length; of public tokens."""
    rng, size = np.random.default_rng(0), int(network.config.vocab_size)
    lengths = _TRIALS * sorted({min(length, window) for length in _LENGTHS} - {0, 1})
    return [(np.full(n, rng.integers(size)), rng.integers(size, size=n)) for n in lengths]


def trial_passed(network: Any, ids: Ids) -> Any:
    """Passes texts of one length through a network, int64 (n, T)."""
    with torch.inference_mode():
        inputs = torch.from_numpy(ids).to(network.device)
        mask = torch.ones_like(inputs)
        return network(input_ids=inputs, attention_mask=mask, return_dict=True)


def trial_logits(network: Any, ids: Ids) -> Any:
    """Computes logits of such a pass, float32 (n, T, V)."""
    return trial_passed(network, ids).logits.float()


def differ(first: Any, second: Any) -> bool:
    """Tells whether logits differ, also where either is not finite."""
    largest = float(first.abs().max())
    return not float((first - second).abs().max()) <= _TOLERANCE * largest
