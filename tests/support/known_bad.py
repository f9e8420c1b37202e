"""Laws that break their claim on purpose, a small context, and spaces that show it."""

import copy
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from support.spaces import space_of

import dp_middleware as dp
from dp_middleware.contexts import Context
from dp_middleware.frameworks._selection import Selection
from dp_middleware.mechanisms.contextual_response import ContextualResponse, mix
from dp_middleware.mechanisms.kernels import nearest as _nearest, noise as _noise
from dp_middleware.mechanisms.stencil import DChiStencil, window_means
from dp_middleware.mechanisms.text_mechanisms import NoiseMechanism
from dp_middleware.sampling import sampler


@dataclass(frozen=True, kw_only=True)
class LeavesOutTheOriginal(DChiStencil):
    """DChiStencil with the rule of Stencil: x itself is never released for x."""

    name: ClassVar[str] = "leaves-out-the-original"

    def perturb(self, ids, space, entropy):
        numbers = space.checked(ids)
        means = window_means(space.points[numbers], self.window, self.sigma)
        noise = _noise.random_vectors(len(means), means.shape[1], self.eta, entropy)
        return _nearest.nearest(space, means + noise, numbers)


@dataclass(frozen=True, kw_only=True)
class FreshWorkers(NoiseMechanism):
    """Each token of a text is released by a worker of its own, epsilon-LDP by itself."""

    name: ClassVar[str] = "fresh-workers"
    notion: ClassVar[str] = "pure"

    epsilon: float

    def perturb(self, ids, space, entropy):
        one = dp.TokenExponential(epsilon=self.epsilon)
        tables = space.derived(
            ("tables", one), lambda: sampler.tables(one.log_probs(np.arange(len(space)), space))
        )
        pairs = zip(space.checked(ids), self.workers(len(ids), entropy), strict=True)
        return np.array([tables[token].draw(1, worker)[0] for token, worker in pairs])

    def workers(self, count, entropy):
        return [entropy] * count

    def lipschitz(self, length):
        raise NotImplementedError("its claim is a pure one")


@dataclass(frozen=True, kw_only=True)
class ForkedWorkers(FreshWorkers):
    """One generator is seeded, well, and then forked: all workers draw the same numbers."""

    name: ClassVar[str] = "forked-workers"

    def workers(self, count, entropy):
        parent = np.random.default_rng(list(entropy(16)))
        return [copy.deepcopy(parent).bytes for _ in range(count)]


@dataclass(frozen=True, kw_only=True)
class Renormalised(Selection):
    """The choice of PrivRewrite as misread: the mean vector of x is scaled to length 1.

    On :data:`LINE` one token of two that nearly cancel turns it round.
    """

    vectors: np.ndarray

    def utilities(self, ids, similarities):
        vectors = np.vstack([self.vectors, np.zeros(self.vectors.shape[1])])
        length = np.linalg.norm(vectors[ids].mean(axis=0))
        means = similarities[ids].mean(axis=0) / (length if length > 0 else 1.0)
        return ((means + self.alpha) / (1 + self.alpha)).clip(0, 1)


# Two tokens nearly cancel, and the third decides on which side they end.
LINE = space_of([[0.95], [-0.9], [-1.0]])


class FirstTokenContext(Context):
    """Says of even tokens that they fit if the first token is even, else the odd ones."""

    window = 1000

    def logits(self, ids, space):
        rows = np.zeros((len(ids), len(space)))
        if len(ids):
            rows[1:] = _fitting(ids[0], space)
        return rows

    def start(self, space):
        return _FirstReleased(space)


class _FirstReleased:
    def __init__(self, space):
        self._space, self._first = space, None

    def logits(self):
        if self._first is None:
            return np.zeros((1, len(self._space)))
        return _fitting(self._first, self._space)[None]

    def append(self, number):
        self._first = number if self._first is None else self._first


def _fitting(first, space):
    return 1.0 * (np.arange(len(space)) % 2 == first % 2)


def two_groups(size=6, dimensions=40):
    """Tight groups far apart: what a nearest-list mechanism tells apart at once."""
    group = np.random.default_rng(0).normal(scale=0.05, size=(size, dimensions))
    return space_of(np.vstack([group + 1.0, group - 1.0]))


def on_the_circle(*angles):
    return space_of(np.column_stack([np.cos(angles), np.sin(angles)]))


@dataclass(frozen=True, kw_only=True)
class RawPrefix(ContextualResponse):
    name: ClassVar[str] = "raw-prefix"

    @property
    def context(self):
        return "raw"


@dataclass(frozen=True, kw_only=True)
class SizeFromRawPrefix(RawPrefix):
    """One public order of codewords, here by index, but their number is that of the raw prefix."""

    name: ClassVar[str] = "size-from-raw-prefix"

    def _codebook(self, logits, unigram, allowed):
        return np.arange(len(super()._codebook(logits, unigram, allowed)))


@dataclass(frozen=True, kw_only=True)
class NoFloor(ContextualResponse):
    """The nearest codeword is e^epsilon times likelier than before, by the model's own shares."""

    name: ClassVar[str] = "no-floor"

    def log_probs(self, ids, space, logits):
        rows = super().log_probs(ids, space, logits)
        for row, said in zip(rows, np.asarray(logits, dtype=float), strict=True):
            codebook = row > -np.inf
            shares = mix(said, self.mixture, self._unigram(space))
            row[codebook] += np.log(shares[codebook])
        return sampler.log_softmax(rows)
