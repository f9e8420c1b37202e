"""The probabilities that a channel draws with, streamed: blocks of rows, some of the columns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import ArrayLike

from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.base import ChannelMechanism, Mechanism, rows_of
from dp_middleware.sampling import sampler

_SUM_ERROR = 1e-9


def channel(mechanism: Mechanism) -> ChannelMechanism:
    """The mechanism, if it has a row per token.

    Raises:
        ParameterError: It has none.
    """
    if isinstance(mechanism, ChannelMechanism):
        return mechanism
    name = getattr(mechanism, "name", type(mechanism).__name__)
    raise ParameterError(
        f"expected a channel, whose law depends on one token only, got {name}: its exact Bayes "
        "attack is not available; use embedding_inversion, masked_token or llm_inference"
    )


def prior_of(prior: ArrayLike | None, space: EmbeddingSpace) -> Floats:
    """Checked prior over the tokens, float64 (V,); ``None``: uniform.

    Raises:
        ParameterError: Another shape, negative or not finite, or its sum is not one.
    """
    if prior is None:
        return np.full(len(space), 1.0 / len(space))
    weights = np.asarray(prior, dtype=np.float64)
    if weights.shape != (len(space),):
        raise ParameterError(f"expected a prior of shape ({len(space)},), got {weights.shape}")
    if not (weights >= 0).all() or abs(weights.sum() - 1.0) > _SUM_ERROR:  # NaN is not >= 0
        raise ParameterError(
            f"expected a prior of probabilities that sum to one, got a sum of {weights.sum():g}; "
            "divide counts by their sum"
        )
    return np.asarray(weights / weights.sum())


def outputs_of(mechanism: ChannelMechanism, space: EmbeddingSpace) -> Ids:
    """Tokens that can be released at all, ascending."""
    possible = mechanism.possible(space)
    return np.arange(len(space)) if possible is None else possible


def blocks(
    mechanism: ChannelMechanism, space: EmbeddingSpace, inputs: Ids, outputs: Ids
) -> Iterator[tuple[Ids, torch.Tensor]]:
    """(ids, P(outputs | ids)): the integers that are drawn from over their total, float64 (k, m).

    Args:
        mechanism: A channel.
        space: V tokens with vectors.
        inputs: Rows wanted, int64.
        outputs: Columns wanted, int64 (m,), some of :func:`outputs_of`.

    Returns:
        On the space's device.
    """
    every = outputs_of(mechanism, space)
    possible = space.on_device(every)
    columns = space.on_device(np.searchsorted(every, outputs))
    for start in range(0, len(inputs), space.block):
        ids = inputs[start : start + space.block]
        rows = rows_of(mechanism, ids, space)
        rounded = sampler.integer_rows(rows if len(every) == len(space) else rows[:, possible])
        weights = rounded.weights
        wanted = weights if len(outputs) == len(every) else weights[:, columns]
        yield ids, wanted.mul_(rounded.units)


class Leaders:
    """The ``count`` largest values of each column so far, with the ids of their rows.

    Of equal values the first stay; a value of zero never leads.

    Attributes:
        values: float64 (count, m), descending.
        ids: int64 (count, m), -1 where fewer rows had a value.
    """

    def __init__(self, count: int, columns: int, device: torch.device) -> None:
        self.values = torch.zeros(count, columns, dtype=torch.float64, device=device)
        self.ids = torch.full((count, columns), -1, dtype=torch.int64, device=device)

    def update(self, ids: torch.Tensor, block: torch.Tensor) -> None:
        """Take in rows: only columns in which one of them leads are sorted again."""
        moved = torch.nonzero(block.amax(dim=0) > self.values[-1])[:, 0]
        if not len(moved):
            return
        owners = ids[:, None].expand(-1, len(moved))
        values = torch.cat([self.values[:, moved], block[:, moved]])
        names = torch.cat([self.ids[:, moved], owners])
        ordered, order = values.sort(dim=0, descending=True, stable=True)
        count = len(self.values)
        self.values[:, moved] = ordered[:count]
        self.ids[:, moved] = names.gather(0, order[:count])


def leaders(
    mechanism: ChannelMechanism, space: EmbeddingSpace, prior: Floats, outputs: Ids, count: int
) -> Leaders:
    """For each output y the ``count`` inputs x of largest prior(x) P(y|x), in one pass."""
    likeliest = Leaders(count, len(outputs), space.device)
    for ids, block in blocks(mechanism, space, np.flatnonzero(prior), outputs):
        shares = space.on_device(prior[ids])
        likeliest.update(space.on_device(ids), block.mul_(shares[:, None]))
    likeliest.values, likeliest.ids = likeliest.values.cpu(), likeliest.ids.cpu()
    return likeliest
