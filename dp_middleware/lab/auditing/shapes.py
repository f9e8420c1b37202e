"""The tests of an audit, for each shape of mechanism and for two texts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware.contexts import Context
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import EmbeddingSpace, on_host
from dp_middleware.errors import ParameterError
from dp_middleware.lab.auditing import pairs
from dp_middleware.lab.auditing.pairs import Outcome, Sampling, TextPair
from dp_middleware.mechanisms.base import ChannelMechanism, Mechanism, rows_of
from dp_middleware.mechanisms.drawing import drawer
from dp_middleware.mechanisms.text_mechanisms import ContextualMechanism, Encoder
from dp_middleware.sampling.sampler import Sampler
from dp_middleware.vocabulary.vocabulary import UNKNOWN

_ROWS = 48  # compared with each other


@dataclass(frozen=True)
class Doubt:
    """Holds a mechanism whose claim, nats or its own, is doubted, and how many draws test it."""

    mechanism: Mechanism
    space: EmbeddingSpace
    claim: float | None
    sampling: Sampling

    def between(self, token: int = UNKNOWN, other: int = UNKNOWN) -> float:
        """Gives the claim for two tokens, by default any; the unknown one is a diameter away."""
        if self.claim is not None:
            return self.claim
        claimed = self.mechanism.claimed_on(self.space)
        if self.mechanism.notion == "pure" or math.isinf(claimed):
            return claimed
        if UNKNOWN in (token, other):
            return claimed * self.space.diameter
        return claimed * float(self.space.distances([token])[0, other])

    def refuse_logits(self, logits: ArrayLike | None) -> None:
        """Raises if there are any."""
        if logits is not None:
            raise ParameterError(f"expected no logits=: {self.mechanism.name} has no use for them")

    def by_rows(self, logits: ArrayLike | None) -> list[Outcome]:
        """Tests a pair of rows, and retention under all alternatives in turn.

        A code of a contextual row is an alternative of ``logits`` times V plus a token; where a
        context is raw, equal tokens under different logits are neighbours.
        """
        mechanism, space, size = self.mechanism, self.space, len(self.space)
        chosen = np.empty((1, 0))
        if isinstance(mechanism, ContextualMechanism):
            chosen = _checked_logits(logits, mechanism.name, size)
        elif isinstance(mechanism, ChannelMechanism):
            self.refuse_logits(logits)
        else:
            raise ParameterError(f"expected a mechanism, got {type(mechanism).__name__}")

        def rows(codes: Ids) -> Floats:
            if isinstance(mechanism, ContextualMechanism):
                return mechanism.log_probs(codes % size, space, chosen[codes // size])
            return on_host(rows_of(mechanism, codes, space))

        alternatives, sampler, entropy = len(chosen), Sampler(rows), self.sampling.entropy
        said = np.unique(np.linspace(0, alternatives - 1, _ROWS // 2).astype(np.int64))
        codes = (size * said[:, None] + space.spread(_ROWS // len(said))).ravel()
        tokens, contexts = codes % size, codes // size
        neighbours = contexts[:, None] == contexts
        if isinstance(mechanism, ContextualMechanism) and mechanism.context == "raw":
            neighbours |= tokens[:, None] == tokens
        listed = tokens.tolist()
        claims = np.array([[self.between(x, other) for other in listed] for x in listed])

        def draw(row: int, count: int) -> Ids:
            return sampler.draw(np.full(count, codes[row]), entropy)

        def released(drawn: Ids) -> Ids:
            return sampler.draw(size * (np.arange(len(drawn)) % alternatives) + drawn, entropy)

        law = np.exp(rows(codes))
        pair = pairs.from_rows(law, tokens, claims, neighbours, draw, self.sampling)
        return [pair, self._retention(released)]

    def by_noise(self) -> list[Outcome]:
        """Tests a few pairs of tokens, and retention, all as texts of one token."""
        if len(self.space) < 2:
            return [Outcome(epsilon=0.0, claim=self.between(), draws=0)]
        one = drawer(self.mechanism, self.space)

        def released(drawn: Ids) -> Ids:
            return np.concatenate(one.draw(list(drawn[:, None]), self.sampling.entropy))

        candidates = [
            TextPair(texts=(np.array([x]), np.array([y])), tokens=(x, y), claim=self.between(x, y))
            for x, y in _spread_pairs(self.space)
        ]
        draw = lambda text, count: released(np.repeat(text, count))[:, None]  # noqa: E731
        pair = pairs.from_draws(candidates, draw, len(self.space), self.sampling)
        return [pair, self._retention(released)]

    def by_texts(self, texts: tuple[Any, Any], context: Context | None) -> Outcome:
        """Tests two texts, by what the mechanism's own way of drawing releases for them."""
        first, second, position = _adjacent(texts, self.space)
        source = drawer(self.mechanism, self.space, context)
        tokens, entropy = (int(first[position]), int(second[position])), self.sampling.entropy
        pair = TextPair(texts=(first, second), tokens=tokens, claim=self.between(*tokens))
        draw = lambda text, count: np.array(source.draw([text] * count, entropy))  # noqa: E731
        return pairs.from_draws([pair], draw, len(self.space), self.sampling)

    def by_whole_texts(self, texts: object, encoder: Encoder | None) -> Outcome:
        """Tests any two texts, by whole releases of the mechanism's own program."""
        given = texts if isinstance(texts, tuple) else ()
        if len(given) != 2 or not all(isinstance(text, str) for text in given):
            raise ParameterError(f"expected texts= as two strings for {self.mechanism.name}")
        source = drawer(self.mechanism, self.space, encoder=encoder)
        numbers: dict[str, int] = {}  # of releases, in order of appearance

        def released(text: Ids, count: int) -> Ids:
            drawn = source.draw([[given[text[0]]]] * count, self.sampling.entropy)
            return np.array([[numbers.setdefault(answer, len(numbers))] for (answer,) in drawn])

        pair = TextPair(texts=(np.array([0]), np.array([1])), tokens=(0, 1), claim=self.between())
        return replace(pairs.from_draws([pair], released, 1, self.sampling), tokens=None)

    def _retention(self, released: Callable[[Ids], Ids]) -> Outcome:
        """From the rate at which uniformly drawn tokens stay unchanged."""
        size, samples = len(self.space), self.sampling.samples
        words = np.frombuffer(self.sampling.entropy(8 * samples), dtype=np.uint64)
        tokens = (words % np.uint64(size)).astype(np.int64)  # bias below V / 2^64
        kept = int((released(tokens) == tokens).sum())
        rate = float(pairs.clopper_pearson(kept, samples, self.sampling.risk)[0])
        odds = rate * (size - 1) / (1 - rate)
        epsilon = math.log(odds) if odds > 1 else 0.0
        return Outcome(epsilon=epsilon, claim=self.between(), draws=samples)


def _checked_logits(logits: ArrayLike | None, name: str, size: int) -> Floats:
    if logits is None:
        raise ParameterError(f"expected logits= for {name}, (m, V), or texts= and context=")
    values = np.asarray(logits)
    is_table = values.ndim == 2 and values.shape[1] == size and values.size
    if values.dtype.kind not in "fiu" or not is_table:
        raise ParameterError(f"expected logits of shape (m, {size}), floats, got {values.shape}")
    return values.astype(np.float64)


def _spread_pairs(space: EmbeddingSpace) -> list[tuple[int, int]]:
    """Of some tokens the farthest pair, the nearest distinct one, and one between."""
    tokens = space.spread(_ROWS)
    firsts, seconds = np.triu_indices(len(tokens), 1)
    distances = space.distances(tokens)[firsts, tokens[seconds]]
    order = np.argsort(distances, kind="stable")
    order = order[distances[order] > 0] if distances.any() else order
    chosen = dict.fromkeys(int(order[k]) for k in (-1, 0, len(order) // 2))
    return [(int(tokens[firsts[k]]), int(tokens[seconds[k]])) for k in chosen]


def _adjacent(texts: tuple[Any, Any], space: EmbeddingSpace) -> tuple[Ids, Ids, int]:
    """Both texts as int64 (n,), and the position at which they differ."""
    if len(texts) != 2:
        raise ParameterError(f"expected texts= as two texts, got {len(texts)}")
    first, second = (np.asarray(text) for text in texts)
    for ids in (first, second):
        numbers = ids.dtype.kind in "iu"
        space.checked(np.where(ids == UNKNOWN, 0, ids) if numbers else ids)
    if len(first) != len(second):
        raise ParameterError(f"expected texts= of one length, got {len(first)} and {len(second)}")
    changed = np.flatnonzero(first != second)
    if len(changed) != 1:
        raise ParameterError(f"expected texts= that differ at one position, got {len(changed)}")
    return first.astype(np.int64), second.astype(np.int64), int(changed[0])
