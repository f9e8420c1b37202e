"""The exact loss over all adjacent pairs, in one streaming pass over blocks of rows.

For every output y, the largest and the smallest integer over the inputs x of a class decide the
loss: max ln P(y|x) - ln P(y|x'). Memory is O(V) beside one block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dp_middleware._torch import torch
from dp_middleware.certification._blocks import Block, block_of
from dp_middleware.certification._listed import ListedBlock, ListedRows
from dp_middleware.embedding import space as spaces
from dp_middleware.embedding.arrays import Floats, Ids
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

Products, distances and what is cut by them are the same everywhere; exponentials, logarithms and
sums of them are not. Nats, for |ln P| up to 10, and in proportion above. The certificate covers
every table whose integers differ from ours by this factor and one unit; the largest of a row, which
takes what the others leave, by :func:`left_over_drift` more.
"""

BORDER = math.exp(sampler.WIDE_BELOW) * (1 - 1e-6)
"""A row with a smallest probability above this may have 64 bits on another device."""


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Holds the result of a pass.

    Attributes:
        epsilon: Largest loss over adjacent pairs, nats; ``inf`` where supports differ.
        token: Row of the numerator at which it is attained; -1 is the unknown symbol.
        other: Row of the denominator.
        output: Output at which it is attained.
        rounding: Nats that integers and recomputation can add to ln P(y|x) - ln P(y|x').
        recovery: Success of the Bayes attacker, uniform prior over the V tokens.
        retention: Mean probability that a token is released unchanged.
        english: Both, recovery first, for tokens that are as frequent as in English text; ``None``
            if the vocabulary is not English.
        extreme: Rows that attain the extremes of the outputs of largest loss.
    """

    epsilon: float
    token: int
    other: int
    output: int
    rounding: float
    recovery: float
    retention: float
    english: tuple[float, float] | None
    extreme: Ids = field(repr=False, compare=False)


def enumerate_pairs(
    mechanism: ChannelMechanism,
    space: EmbeddingSpace,
    adjacency: Adjacency,
    survey: Survey | None = None,
) -> Loss:
    """Computes the exact loss from the integers that are drawn from; a survey sees them.

    O(V^2) time; where draws are from short lists, from these integers in the time of a few hundred
    rows, with the same result to the last bit.
    """
    return _Pass(mechanism, space, integers=True, survey=survey).over(classes_of(space, adjacency))


def scout(
    mechanism: ChannelMechanism,
    space: EmbeddingSpace,
    adjacency: Adjacency,
    rows: Ids | None = None,
) -> Loss:
    """Computes the loss of unrounded rows, over some rows only if given.

    Cheaper, and up to rounding a lower bound of the exact loss. Recovery and retention are not
    computed.
    """
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

    It is what the others leave, and their sum moves by a few units of float64 in the normaliser and
    in exponentials, and by one unit of the integers each. ``steepest`` is the largest |ln P| of the
    row, at least 1.
    """
    return (_SUM_DRIFT * steepest + size * 2.0**-64) / largest


class _Extremes:
    """ln of the largest and smallest probability of each output over the rows of one class."""

    def __init__(self, outputs: int) -> None:
        self._high, self._low = np.full(outputs, -np.inf), np.full(outputs, np.inf)
        self._highest, self._lowest = (np.full(outputs, UNKNOWN) for _ in range(2))

    def update(self, block: Block | ListedBlock, unit: float | None) -> None:
        """Take in rows of probabilities in multiples of ``unit``, or of logarithms (``None``).

        Recomputed elsewhere, an integer may be one unit higher or lower, but never below one.
        """
        high, low = block.extremes
        if unit is not None:
            with np.errstate(divide="ignore"):
                high = np.log(np.where(high > 0, high + unit, 0.0))
                low = np.log(np.where(low > 0, np.maximum(low - unit, unit), 0.0))
        high, low = (block.by_output(logs, -np.inf) for logs in (high, low))
        more, less = high > self._high, low < self._low
        self._high[more], self._low[less] = high[more], low[less]
        self._highest[more] = block.holders(more, largest=True)
        self._lowest[less] = block.holders(less, largest=False)

    def worst(self, count: int) -> list[tuple[float, int, int, int]]:
        """(loss, token, other, output) for the outputs of largest loss, largest first."""
        reached = self._high > -np.inf
        losses = np.subtract(self._high, self._low, out=np.zeros_like(self._high), where=reached)
        count = min(count, len(losses))
        outputs = np.argpartition(-losses, count - 1)[:count]
        outputs = outputs[np.argsort(-losses[outputs], kind="stable")]
        rows = zip(
            losses[outputs], self._highest[outputs], self._lowest[outputs], outputs, strict=True
        )
        return [(float(loss), int(x), int(other), int(y)) for loss, x, other, y in rows]


class _Recovered:
    """What the Bayes attacker recovers and what stays as it is, for a prior of tokens.

    Attributes:
        best: float64 (m,), of each output the largest product of prior and probability.
        kept: Sum over tokens of prior times the probability of the token itself.
    """

    def __init__(self, place: Ids, outputs: int, prior: Floats | None) -> None:
        self._place, self._prior = place, prior  # None: 1 for each token
        self.best, self.kept = np.zeros(outputs), 0.0

    def update(self, tokens: Block | ListedBlock) -> None:
        """Take in rows of probabilities."""
        own = tokens.at(self._place[tokens.ids])
        if self._prior is None:
            best = tokens.extremes[0]
            self.kept += float(own.sum())
        else:
            shares = self._prior[tokens.ids]
            best = tokens.likeliest(shares)
            self.kept += float(shares @ own)
        np.maximum(self.best, tokens.by_output(best, 0.0), out=self.best)


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
        self._mechanism, self._space, self._integers = mechanism, space, integers
        self._survey = survey
        possible = mechanism.possible(space)
        self._outputs = np.arange(len(space)) if possible is None else possible
        self._place = np.full(len(space), UNKNOWN)  # of a token among the outputs
        self._place[self._outputs] = np.arange(len(self._outputs))
        self._uniform = _Recovered(self._place, len(self._outputs), None)
        self._english: _Recovered | None = None
        if integers and frequencies.is_english(space.vocabulary):
            shares = frequencies.english(space.vocabulary)
            self._english = _Recovered(self._place, len(self._outputs), shares / shares.sum())
        rows = near_rows(mechanism, space) if integers else None
        self._listed = None if rows is None else ListedRows(rows)
        self._smallest = np.inf  # integer
        self._steepest = 1.0  # largest |ln P|
        self._flattest = 1.0  # smallest of the rows' largest probabilities

    def over(self, classes: list[Ids]) -> Loss:
        """Stream blocks of rows; tokens without a neighbour share blocks at the end."""
        several = [members for members in classes if len(members) > 1]
        alone = [members for members in classes if len(members) == 1]
        order = np.concatenate([*several, *alone, np.empty(0, dtype=np.int64)]).astype(np.int64)
        labels = np.repeat(np.arange(len(several) + 1), [*map(len, several), len(alone)])
        worst = [(0.0, UNKNOWN, UNKNOWN, 0)]
        per_class = 64 // max(1, len(several)) + 1
        extremes: dict[int, _Extremes] = {}
        size = (
            spaces.BLOCK if self._listed is not None else self._space.block
        )  # lists need no device
        for start in range(0, len(order), size):
            ids, own = order[start : start + size], labels[start : start + size]
            block = self._block(ids)
            units = self._units(block)
            for label in np.unique(own[own < len(several)]).tolist():
                if label not in extremes:
                    worst += [pair for done in extremes.values() for pair in done.worst(per_class)]
                    extremes = {label: _Extremes(len(self._outputs))}
                for unit in set(units[own == label]):
                    part = block.part((own == label) & (units == unit))
                    extremes[label].update(part, unit)
        worst += [pair for done in extremes.values() for pair in done.worst(per_class)]
        return self._loss(worst)

    def _block(self, ids: Ids) -> Block | ListedBlock:
        if self._listed is not None:
            return ListedBlock(ids=ids, rows=self._listed)
        return block_of(
            self._mechanism,
            self._space,
            ids,
            self._outputs,
            integers=self._integers,
            survey=self._survey,
        )

    def _units(self, block: Block | ListedBlock) -> NDArray[np.object_]:
        """By how much each row may move where it is recomputed; statistics are taken in."""
        if block.bits is None:
            return np.full(len(block.ids), None, dtype=object)
        known = block.ids != UNKNOWN
        if known.any():
            tokens = block.part(known)
            self._uniform.update(tokens)
            if self._english is not None:
                self._english.update(tokens)
        units = 2.0 ** -block.bits.astype(np.float64)
        smallest = block.smallest()
        # a row this close to the border may have 64 bits elsewhere
        units = np.where(smallest > BORDER, 2.0**-64, units)
        self._smallest = min(self._smallest, float((smallest / units).min()))
        self._steepest = max(self._steepest, -float(np.log(smallest.min())))
        self._flattest = min(self._flattest, block.flattest)
        return units.astype(object)

    def _loss(self, worst: list[tuple[float, int, int, int]]) -> Loss:
        loss, token, other, output = max(worst, key=lambda pair: pair[0])
        size, english = len(self._space), self._english
        recomputed = RECOMPUTED * max(1.0, 0.1 * self._steepest)
        recomputed += left_over_drift(self._steepest, size, self._flattest)
        rows = {row for _, *pair, _ in worst for row in pair}
        return Loss(
            epsilon=loss + 2 * recomputed,
            token=token,
            other=other,
            output=int(self._outputs[output]),
            rounding=3.0 / self._smallest + 2 * recomputed,
            recovery=float(self._uniform.best.sum() / size),
            retention=self._uniform.kept / size,
            english=None if english is None else (float(english.best.sum()), english.kept),
            extreme=np.array(sorted(rows), dtype=np.int64),
        )
