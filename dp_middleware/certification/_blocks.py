"""Blocks of rows on the space's device, cut to the columns that say something.

What the host sees of a block is O(V): the largest and the smallest number of each output.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import EmbeddingSpace, on_host
from dp_middleware.mechanisms.base import ChannelMechanism, rows_of
from dp_middleware.mechanisms.landmarks import Survey
from dp_middleware.sampling import sampler
from dp_middleware.vocabulary.vocabulary import UNKNOWN

NOWHERE = -1  # instead of a column: the output is impossible for all rows of the block


@dataclass(frozen=True, kw_only=True, eq=False)
class Block:
    """Holds rows of a few inputs."""

    ids: Ids  # (n,), the inputs
    rows: torch.Tensor  # float64 (n, C), on the device: logarithms, or integers in units of scale
    columns: Ids  # (m,), where each of m outputs is in the rows, or NOWHERE
    bits: Ids | None = None  # (n,), 64 or 128, of the integers; None for logarithms
    scale: float = 1.0  # a power of two; 1 for logarithms
    flattest: float = 1.0  # smallest of the rows' largest probabilities; 1 for logarithms

    @cached_property
    def extremes(self) -> tuple[Floats, Floats]:
        """Finds the largest and the smallest number of each column, (C,)."""
        high, low = self.rows.amax(dim=0), self.rows.amin(dim=0)
        return on_host(high) * self.scale, on_host(low) * self.scale

    def likeliest(self, shares: Floats) -> Floats:
        """Finds the largest product of a row's share, (n,), and its number in each column, (C,)."""
        weights = torch.from_numpy(shares).to(self.rows.device)
        return on_host((self.rows * weights[:, None]).amax(dim=0)) * self.scale

    def by_output(self, numbers: Floats, impossible: float) -> Floats:
        """Gives one of each column as one of each output, (m,)."""
        return np.asarray(np.append(numbers, impossible)[self.columns])  # the last: nowhere

    def smallest(self) -> Floats:
        """Finds each row's smallest probability above 0, or of all where it is no matter, (n,)."""
        if self.bits is not None and (self.bits == 64).all():
            least = float(self.extremes[1].min())
            if least > 0:
                return np.full(len(self.ids), least)
        possible = self.rows.where(self.rows > 0, np.inf)
        return on_host(possible.amin(dim=1)) * self.scale

    def holders(self, outputs: NDArray[np.bool_], *, largest: bool) -> Ids:
        """Finds for each chosen output the first input that has its largest or smallest number."""
        chosen = self.columns[outputs]
        asked = np.zeros(self.rows.shape[1] + 1, dtype=np.bool_)  # the last: nowhere
        asked[chosen] = True
        columns = np.flatnonzero(asked[:-1])
        holders = np.zeros(len(asked), dtype=np.int64)  # where impossible, all of them
        if len(columns):
            rows = _columns_of(self.rows, columns)
            places = rows.argmax(dim=0) if largest else rows.argmin(dim=0)
            holders[columns] = places.cpu().numpy()
        return self.ids[holders[chosen]]

    def at(self, outputs: Ids) -> Floats:
        """Gives the number of one output, or :data:`UNKNOWN`, in each row, else 0, (n,)."""
        columns = np.where(outputs == UNKNOWN, NOWHERE, self.columns[outputs])
        rows = np.flatnonzero(columns != NOWHERE)
        places = (_beside(self.rows, rows), _beside(self.rows, columns[rows]))
        numbers = np.zeros(len(columns))
        numbers[rows] = on_host(self.rows[places]) * self.scale
        return numbers

    def part(self, chosen: NDArray[np.bool_]) -> Block:
        """Takes some of the rows."""
        if chosen.all():
            return self
        rows = self.rows[_beside(self.rows, np.flatnonzero(chosen))]
        bits = None if self.bits is None else self.bits[chosen]
        return replace(self, ids=self.ids[chosen], rows=rows, bits=bits)


def block_of(
    mechanism: ChannelMechanism,
    space: EmbeddingSpace,
    ids: Ids,
    outputs: Ids,
    *,
    integers: bool,
    survey: Survey | None = None,
) -> Block:
    """Computes rows of inputs at outputs, ascending, of which no other is possible for any input.

    ``integers`` says whether rows are rounded; a ``survey`` takes in integers, of all outputs.
    """
    rows = rows_of(mechanism, ids, space, None if survey is None else survey.log_rows)
    if len(outputs) < len(space):
        rows = _columns_of(rows, outputs)
    columns = np.arange(len(outputs))
    if not mechanism.full_support:
        rows, columns = _possible(rows)
    if not integers:
        return Block(ids=ids, rows=rows, columns=columns)
    rounded = sampler.integer_rows(rows)
    if survey is not None:
        survey.take(ids, rounded)
    bits: Ids = rounded.bits.cpu().numpy()
    flattest = float((rounded.largest * rounded.units[:, 0]).amin())
    rows, scale = rounded.weights, 2.0 ** -int(bits[0])
    if (bits != bits[0]).any():
        rows, scale = rows.mul_(rounded.units), 1.0
    return Block(ids=ids, rows=rows, columns=columns, bits=bits, scale=scale, flattest=flattest)


def _possible(rows: torch.Tensor) -> tuple[torch.Tensor, Ids]:
    """Without columns that are impossible for all rows, and where each of them is now."""
    possible = on_host(rows.amax(dim=0)) != -np.inf  # NaN stays, and is refused
    if possible.all():
        return rows, np.arange(len(possible))
    columns = np.full(len(possible), NOWHERE)
    kept = np.flatnonzero(possible)
    columns[kept] = np.arange(len(kept))
    return _columns_of(rows, kept), columns


def _columns_of(rows: torch.Tensor, columns: Ids) -> torch.Tensor:
    """Some columns of all rows."""
    if rows.device.type == "cpu":  # a third of the time that torch takes
        return torch.from_numpy(rows.numpy().take(columns, axis=1))
    return rows.index_select(1, _beside(rows, columns))


def _beside(rows: torch.Tensor, numbers: Ids) -> torch.Tensor:
    """On the device of the rows."""
    return torch.from_numpy(numbers).to(rows.device)


class Found:
    """Collects what a pass over the rows of all inputs finds; of m outputs."""

    def __init__(self, outputs: int) -> None:
        self.worst = [(0.0, UNKNOWN, UNKNOWN, 0)]  # of outputs: loss, token, other, output
        self.smallest = np.inf  # integer
        self.steepest = 1.0  # largest |ln P|
        self.flattest = 1.0  # smallest of the rows' largest probabilities
        self.best = np.zeros(outputs)  # the largest probability of each output
        self.likeliest = np.zeros(outputs)  # the largest of a token's share in English and it
        self.kept = 0.0  # sum over tokens of the probability of the token itself
        self.kept_in_english = 0.0  # the same by shares

    def note(self, smallest: Floats, units: Floats | float, flattest: float) -> None:
        """Takes in the smallest probabilities of some rows, and what their integers stand for."""
        self.smallest = min(self.smallest, float((smallest / units).min()))
        self.steepest = max(self.steepest, -float(np.log(smallest.min())))
        self.flattest = min(self.flattest, flattest)

    def keep(self, tokens: Ids, own: Floats, shares: Floats | None) -> None:
        """Takes in the probability with which each of some tokens stays as it is."""
        self.kept += float(own.sum())
        if shares is not None:
            self.kept_in_english += float(shares[tokens] @ own)


def moved_by(high: Floats, low: Floats, unit: float) -> tuple[Floats, Floats]:
    """Computes ln of what probabilities may be on another machine: a unit more or less, if any."""
    with np.errstate(divide="ignore"):
        return (
            np.log(np.where(high > 0, high + unit, 0.0)),
            np.log(np.where(low > 0, np.maximum(low - unit, unit), 0.0)),
        )


def steepest(high: Floats, low: Floats, count: int) -> list[tuple[float, int]]:
    """Lists the largest differences of logarithms, and where they are, the largest first."""
    losses = np.subtract(high, low, out=np.zeros_like(high), where=high > -np.inf)
    count = min(count, len(losses))
    outputs = np.argpartition(-losses, count - 1)[:count]
    outputs = outputs[np.argsort(-losses[outputs], kind="stable")]
    return list(zip(losses[outputs].tolist(), outputs.tolist(), strict=True))
