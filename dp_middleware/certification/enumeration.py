"""The exact loss over all adjacent pairs, in one streaming pass over blocks of rows.

For every output y, the largest and the smallest integer over the inputs x of a class decide the
loss: max ln P(y|x) - ln P(y|x'). Memory is O(V) beside one block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dp_middleware._torch import torch
from dp_middleware.certification import _blocks
from dp_middleware.certification._blocks import Block, Found
from dp_middleware.embedding.arrays import Floats, Ids, slices
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.mechanisms.base import ChannelMechanism
from dp_middleware.mechanisms.landmarks import Survey
from dp_middleware.mechanisms.near_lists import near_rows
from dp_middleware.privacy import Adjacency
from dp_middleware.sampling import sampler
from dp_middleware.vocabulary import frequencies
from dp_middleware.vocabulary.vocabulary import UNKNOWN

Number = TypeVar("Number", float, "torch.Tensor")

_SUM_DRIFT = 2.0**-50  # of a sum of probabilities, for each nat of |ln P|

RECOMPUTED = 1e-11
"""Tested bound: how far ln P may move when a row is computed by another processor or device.

Nats, for |ln P| up to 10, and in proportion above: of exponentials, logarithms and sums of them.
The certificate covers every table whose integers differ from ours by this factor and one unit; the
largest of a row, which takes what the others leave, by :func:`left_over_drift` more.
"""

BORDER = math.exp(sampler.WIDE_BELOW) * (1 - 1e-6)  # above it 64 bits may do on another device


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Holds the result of a pass; rows are those of inputs, -1 that of the unknown symbol."""

    epsilon: float  # largest loss over adjacent pairs, nats; infinite where supports differ
    token: int  # row of the numerator at which it is attained
    other: int  # row of the denominator
    output: int  # output at which it is attained
    rounding: float  # nats that integers and recomputation can add to ln P(y|x) - ln P(y|x')
    recovery: float  # success of the Bayes attacker, uniform prior over the V tokens
    retention: float  # mean probability that a token is released unchanged
    english: tuple[float, float] | None  # both for tokens as frequent as in English, if they are
    extreme: Ids = field(repr=False, compare=False)  # rows at the outputs of largest loss


def enumerate_pairs(
    mechanism: ChannelMechanism,
    space: EmbeddingSpace,
    adjacency: Adjacency,
    survey: Survey | None = None,
) -> Loss:
    """Computes the exact loss from the integers that are drawn from; a survey sees them.

    O(V^2) time; where draws are from short lists, that of a few hundred rows, to the same bit.
    """
    return _Pass(mechanism, space, integers=True, survey=survey).over(classes_of(space, adjacency))


def scout(
    mechanism: ChannelMechanism,
    space: EmbeddingSpace,
    adjacency: Adjacency,
    rows: Ids | None = None,
) -> Loss:
    """Computes the loss of unrounded rows, or of some, and no more: cheaper, and a lower bound."""
    classes = classes_of(space, adjacency)
    if rows is not None:
        classes = [members[np.isin(members, rows)] for members in classes]
    neighbours = [members for members in classes if len(members) > 1]
    return _Pass(mechanism, space, integers=False).over(neighbours)


def classes_of(space: EmbeddingSpace, adjacency: Adjacency) -> list[Ids]:
    """Lists inputs by class; an unlabelled unknown symbol is alone."""
    inputs = np.array([*range(len(space)), UNKNOWN], dtype=np.int64)
    if not space.vocabulary.has_unknown_symbol:
        inputs = inputs[:-1]
    if adjacency.classes is None:
        return [inputs]
    numbers = adjacency.numbers
    labels = np.array([*numbers, max(numbers) + 1])[: len(inputs)]
    members = np.argsort(labels, kind="stable")
    classes = np.split(inputs[members], np.cumsum(np.bincount(labels))[:-1])
    return [members for members in classes if members.size]


def left_over_drift(steepest: Number, size: int, largest: Number) -> Number:
    """Bounds how much further ln of a row's largest probability may move than the others, nats.

    The sum of these moves by a few units of float64 in the normaliser and in exponentials, and by
    one unit of the integers each. ``steepest`` is the largest |ln P| of the row, at least 1.
    """
    return (_SUM_DRIFT * steepest + size * 2.0**-64) / largest


class _Extremes:
    """ln of the largest and smallest probability of each output over the rows of one class."""

    def __init__(self, outputs: int) -> None:
        self._high, self._low = np.full(outputs, -np.inf), np.full(outputs, np.inf)
        self._highest, self._lowest = (np.full(outputs, UNKNOWN) for _ in range(2))

    def update(self, block: Block, unit: float | None) -> None:
        """Takes in rows of probabilities in multiples of ``unit``, or of logarithms (``None``)."""
        logs = block.extremes if unit is None else _blocks.moved_by(*block.extremes, unit)
        high, low = (block.by_output(numbers, -np.inf) for numbers in logs)
        more, less = high > self._high, low < self._low
        self._high[more], self._low[less] = high[more], low[less]
        self._highest[more] = block.holders(more, largest=True)
        self._lowest[less] = block.holders(less, largest=False)

    def worst(self, count: int) -> list[tuple[float, int, int, int]]:
        """(loss, token, other, output) for the outputs of largest loss, largest first."""
        return [
            (loss, int(self._highest[output]), int(self._lowest[output]), output)
            for loss, output in _blocks.steepest(self._high, self._low, count)
        ]


class _Pass:
    """One streaming pass; collects what :class:`Loss` reports."""

    def __init__(
        self,
        mechanism: ChannelMechanism,
        space: EmbeddingSpace,
        *,
        integers: bool,
        survey: Survey | None = None,
    ) -> None:
        self._mechanism, self._space, self._survey = mechanism, space, survey
        self._integers = integers
        possible = mechanism.possible(space)
        self._outputs = np.arange(len(space)) if possible is None else possible
        self._place = np.full(len(space), UNKNOWN)  # of a token among the outputs
        self._place[self._outputs] = np.arange(len(self._outputs))
        self._shares: Floats | None = None
        if integers and frequencies.is_english(space.vocabulary):
            shares = frequencies.english(space.vocabulary)
            self._shares = shares / shares.sum()
        self._found = Found(len(self._outputs))

    def over(self, classes: list[Ids]) -> Loss:
        """Streams blocks of rows; tokens without a neighbour share blocks at the end."""
        near = near_rows(self._mechanism, self._space) if self._integers else None
        if near is not None:
            return self._loss(_blocks.ListedRows(near).found(classes, self._place, self._shares))
        several = [members for members in classes if len(members) > 1]
        alone = [members for members in classes if len(members) == 1]
        order = np.concatenate([*several, *alone, np.empty(0, dtype=np.int64)]).astype(np.int64)
        labels = np.repeat(np.arange(len(several) + 1), [*map(len, several), len(alone)])
        per_class = 64 // max(1, len(several)) + 1
        worst, extremes = self._found.worst, dict[int, _Extremes]()
        terms = self._mechanism, self._space
        at = partial(_blocks.block_of, *terms, integers=self._integers, survey=self._survey)
        for part in slices(len(order), self._space.block):
            own, block = labels[part], at(order[part], self._outputs)
            units = self._units(block)
            for label in np.unique(own[own < len(several)]).tolist():
                if label not in extremes:
                    worst += [pair for done in extremes.values() for pair in done.worst(per_class)]
                    extremes = {label: _Extremes(len(self._outputs))}
                for unit in set(units[own == label]):
                    rows = block.part((own == label) & (units == unit))
                    extremes[label].update(rows, unit)
        worst += [pair for done in extremes.values() for pair in done.worst(per_class)]
        return self._loss(self._found)

    def _units(self, block: Block) -> NDArray[np.object_]:
        """By how much each row may move where it is recomputed; statistics are taken in."""
        if block.bits is None:
            return np.full(len(block.ids), None, dtype=object)
        known, found = block.ids != UNKNOWN, self._found
        if known.any():
            tokens = block.part(known)
            found.best = np.maximum(found.best, tokens.by_output(tokens.extremes[0], 0.0))
            if self._shares is not None:
                likeliest = tokens.by_output(tokens.likeliest(self._shares[tokens.ids]), 0.0)
                found.likeliest = np.maximum(found.likeliest, likeliest)
            found.keep(tokens.ids, tokens.at(self._place[tokens.ids]), self._shares)
        smallest = block.smallest()
        # a row this close to the border may have 64 bits elsewhere
        units = np.where(smallest > BORDER, _blocks.UNIT, 2.0 ** -block.bits.astype(np.float64))
        found.note(smallest, units, block.flattest)
        return units.astype(object)

    def _loss(self, found: Found) -> Loss:
        loss, token, other, output = max(found.worst, key=lambda pair: pair[0])
        size, english = len(self._space), (float(found.likeliest.sum()), found.kept_in_english)
        recomputed = RECOMPUTED * max(1.0, 0.1 * found.steepest)
        recomputed += left_over_drift(found.steepest, size, found.flattest)
        rows = {row for _, *pair, _ in found.worst for row in pair}
        return Loss(
            epsilon=loss + 2 * recomputed,
            token=token,
            other=other,
            output=int(self._outputs[output]),
            rounding=3.0 / found.smallest + 2 * recomputed,
            recovery=float(found.best.sum() / size),
            retention=found.kept / size,
            english=None if self._shares is None else english,
            extreme=np.array(sorted(rows), dtype=np.int64),
        )
