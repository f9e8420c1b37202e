"""What a pass over the rows of all inputs finds, by blocks or, of near rows, without any row.

Blocks are on the space's device, cut to the columns that say something; what the host sees of one
is O(V): the largest and the smallest number of each output.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dp_middleware._torch import torch
from dp_middleware.embedding import space as spaces
from dp_middleware.embedding.arrays import Floats, Ids, slices
from dp_middleware.embedding.space import EmbeddingSpace, on_host
from dp_middleware.mechanisms.base import ChannelMechanism, rows_of
from dp_middleware.mechanisms.landmarks import Survey
from dp_middleware.mechanisms.near_lists import NearRows
from dp_middleware.sampling import sampler
from dp_middleware.sampling.entropy import Words
from dp_middleware.vocabulary.vocabulary import UNKNOWN

UNIT = 2.0**-64
_NOWHERE = -1  # instead of a column: the output is impossible for all rows of the block


@dataclass(frozen=True, kw_only=True, eq=False)
class Block:
    """Holds rows of a few inputs."""

    ids: Ids  # (n,), the inputs
    rows: torch.Tensor  # float64 (n, C), on the device: logarithms, or integers in units of scale
    columns: Ids  # (m,), where each of m outputs is in the rows, or _NOWHERE
    bits: Ids | None = None  # (n,), 64 or 128, of the integers; None for logarithms
    scale: float = 1.0  # a power of two; 1 for logarithms
    flattest: float = 1.0  # smallest of the rows' largest probabilities; 1 for logarithms

    @cached_property
    def extremes(self) -> tuple[Floats, Floats]:
        """The largest and the smallest number of each column, (C,)."""
        high, low = self.rows.amax(dim=0), self.rows.amin(dim=0)
        return on_host(high) * self.scale, on_host(low) * self.scale

    def likeliest(self, shares: Floats) -> Floats:
        """The largest product of a row's share, (n,), and its number in each column, (C,)."""
        weights = _beside(self.rows, shares)
        return on_host((self.rows * weights[:, None]).amax(dim=0)) * self.scale

    def by_output(self, numbers: Floats, impossible: float) -> Floats:
        return np.asarray(np.append(numbers, impossible)[self.columns])  # the last: nowhere

    def smallest(self) -> Floats:
        """Each row's smallest probability above 0, or of all where it is no matter, (n,)."""
        if self.bits is not None and (self.bits == 64).all():
            least = float(self.extremes[1].min())
            if least > 0:
                return np.full(len(self.ids), least)
        possible = self.rows.where(self.rows > 0, np.inf)
        return on_host(possible.amin(dim=1)) * self.scale

    def holders(self, outputs: NDArray[np.bool_], *, largest: bool) -> Ids:
        """For each chosen output the first input that has its largest or smallest number."""
        chosen = self.columns[outputs]
        columns = chosen[chosen != _NOWHERE]
        holders = np.zeros(self.rows.shape[1] + 1, dtype=np.int64)  # where impossible, all of them
        if len(columns):
            rows = _columns_of(self.rows, columns)
            places = rows.argmax(dim=0) if largest else rows.argmin(dim=0)
            holders[columns] = places.cpu().numpy()
        return self.ids[holders[chosen]]

    def at(self, outputs: Ids) -> Floats:
        """The number of one output, or UNKNOWN, in each row, else 0, (n,)."""
        columns = np.where(outputs == UNKNOWN, _NOWHERE, self.columns[outputs])
        rows = np.flatnonzero(columns != _NOWHERE)
        numbers = np.zeros(len(columns))
        places = _beside(self.rows, rows), _beside(self.rows, columns[rows])
        numbers[rows] = on_host(self.rows[places]) * self.scale
        return numbers

    def part(self, chosen: NDArray[np.bool_]) -> Block:
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
        possible = on_host(rows.amax(dim=0)) != -np.inf  # NaN stays, and is refused
        columns = np.where(possible, np.cumsum(possible) - 1, _NOWHERE)
        rows = rows if possible.all() else _columns_of(rows, np.flatnonzero(possible))
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


def _columns_of(rows: torch.Tensor, columns: Ids) -> torch.Tensor:
    if rows.device.type == "cpu":  # a third of the time that torch takes
        return torch.from_numpy(rows.numpy().take(columns, axis=1))
    return rows.index_select(1, _beside(rows, columns))


def _beside(rows: torch.Tensor, numbers: Ids | Floats) -> torch.Tensor:
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


class ListedRows:
    """Near rows with probabilities in place of integers, each rounded once, to float64."""

    def __init__(self, near: NearRows) -> None:
        self._lists, self._kinds = near.lists.astype(np.int64), near.kinds
        self._own, self._common = _probabilities(near.own)[near.kinds], _probabilities(near.common)
        self._unknown, self._largest = _probabilities(near.unknown), _probabilities(near.largest)

    def found(self, classes: list[Ids], place: Ids, shares: Floats | None) -> Found:
        """Finds, to the last bit, what a pass over rows of these classes finds.

        ``place`` (V,) are the places of tokens among the outputs, or UNKNOWN; ``shares`` (V,) those
        of tokens in English, if these count.
        """
        several = [members for members in classes if len(members) > 1]
        alone = [members for members in classes if len(members) == 1]
        order, everyone = np.concatenate([*several, *alone]), np.arange(len(place))
        found, start = Found(len(self._common)), 0
        largest = np.append(self._largest[self._kinds], self._largest[-1])[order]
        found.note(self._extremes(order)[1], UNIT, float(largest.min()))
        for members in several:
            found.worst += self._worst(members, start, 64 // len(several) + 1)
            start += len(members)
        found.best = self._extremes(everyone)[0]
        if shares is not None:
            found.likeliest = self._likeliest(shares)
        kept = self._column(place, everyone)
        for part in slices(len(order), spaces.BLOCK):
            tokens = order[part][order[part] != UNKNOWN]
            found.keep(tokens, kept[tokens], shares)
        return found

    def _extremes(self, ids: Ids) -> tuple[Floats, Floats]:
        """The largest and the smallest probability of each output over the inputs, (m,)."""
        tokens = ids[ids != UNKNOWN]
        listed, own = self._lists[tokens], self._own[tokens]
        unlisted = np.bincount(listed.ravel(), minlength=len(self._common)) < len(tokens)
        high, low = (np.where(unlisted, self._common, bound) for bound in (-np.inf, np.inf))
        np.maximum.at(high, listed, own)
        np.minimum.at(low, listed, own)
        if len(tokens) < len(ids):
            return np.maximum(high, self._unknown), np.minimum(low, self._unknown)
        return high, low

    def _column(self, outputs: Ids, ids: Ids) -> Floats:
        """The probability of one output, or else 0 for UNKNOWN, for each input."""
        found = np.where(ids == UNKNOWN, self._unknown[outputs], self._common[outputs])
        rows, slots = np.nonzero((self._lists[ids] == outputs[:, None]) & (ids != UNKNOWN)[:, None])
        found[rows] = self._own[ids[rows], slots]
        return np.where(outputs == UNKNOWN, 0.0, found)

    def _worst(self, members: Ids, start: int, count: int) -> list[tuple[float, int, int, int]]:
        """Pairs of a class that begins at a place of the order; ties as blocks have them."""
        high, low = moved_by(*self._extremes(members), UNIT)
        blocks = (start + np.arange(len(members))) // spaces.BLOCK
        worst = []
        for loss, output in steepest(high, low, count):
            numbers = self._column(np.full(len(members), output), members)
            more, less = moved_by(numbers, numbers, UNIT)
            firsts = [int((logs == logs.max()).argmax()) for logs in (more, -less)]
            inside = [np.flatnonzero(blocks == blocks[first]) for first in firsts]
            token = members[inside[0][numbers[inside[0]].argmax()]]
            other = members[inside[1][numbers[inside[1]].argmin()]]
            worst.append((loss, int(token), int(other), output))
        return worst

    def _likeliest(self, shares: Floats) -> Floats:
        """Of each output the largest product of a token's share and probability, (m,)."""
        order, first = np.argsort(-shares, kind="stable"), np.zeros(len(self._common), np.int64)
        for rank, listed in enumerate(self._lists[order]):  # whose list is the first without it
            later = listed[first[listed] == rank]
            if not len(later):
                break
            first[later] = rank + 1
        best: Floats = self._common * np.append(shares[order], 0.0)[first]
        np.maximum.at(best, self._lists, self._own * shares[:, None])
        return best


def _probabilities(integers: Words) -> Floats:
    """An only output has all 2^64, which is 0 modulo 2^64."""
    return np.where(integers == 0, 1.0, integers.astype(np.float64) * UNIT)
