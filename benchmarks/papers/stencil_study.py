"""What STENCIL's study measures: what an attacker names, and which labels survive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from common import Floats, Shape, in_all
from numpy.typing import NDArray
from probing import Labelled
from protocol import Ids, release

import dp_middleware as dp
from dp_middleware.mechanisms import Mechanism

TOP = 5  # guesses of the attacker
BLOCK = 1024  # of its searches at a time
RESAMPLED = 400  # times the texts of a comparison, for its standard error


class Outcome(NamedTuple):
    """Of each of n texts: tokens that the attacker names, tokens drawn for, is the label right."""

    hits: NDArray[np.int64]
    drawn: NDArray[np.int64]
    right: NDArray[np.bool_]

    def point(self, weights: Floats | None = None) -> tuple[float, float]:
        """Share of tokens named and of labels read, with a weight for each text, or without."""
        weights = np.ones(len(self.right)) if weights is None else weights
        shares = weights @ self.hits / (weights @ self.drawn), weights @ self.right / weights.sum()
        return float(shares[0]), float(shares[1])


Curve = Sequence[Outcome]


@dataclass(frozen=True, kw_only=True)
class Study:
    """What is measured on; the attacker goes by the cosine.

    Stop words and words outside the vocabulary, of which ``unknown`` is the share, are kept.
    """

    space: dp.EmbeddingSpace
    policy: dp.KeepPolicy
    unknown: float

    @classmethod
    def keeping(cls, space: dp.EmbeddingSpace, sets: Sequence[Labelled]) -> Study:
        """A study that keeps what the paper's does."""
        texts = [text for data in sets for text in [*data.texts, *data.questions]]
        tokens = [
            (text[t.start : t.end], t.id)
            for text in texts
            for t in space.vocabulary.occurrences(text)
        ]
        unknown = [word.strip().lower() for word, number in tokens if number == -1]
        kept = dp.KeepPolicy.words(sorted(set(unknown)), label="unknown words")
        kept |= dp.KeepPolicy.nltk_stop_words()
        return cls(space=space, policy=kept, unknown=len(unknown) / len(tokens))

    def outcome(self, mechanism: Mechanism, data: Labelled) -> Outcome:
        """Of one release of the texts, and of the questions."""
        parts = [
            release(mechanism, self.space, texts, seed, policy=self.policy)
            for seed, texts in enumerate((data.texts, data.questions))
            if texts
        ]
        hits = [[self._named(*pair) for pair in zip(p.raw, p.drawn, strict=True)] for p in parts]
        return Outcome(
            hits=np.sum(hits, axis=0),
            drawn=np.sum([[len(ids) for ids in part.raw] for part in parts], axis=0),
            right=data.right(*(part.texts for part in parts)),
        )

    def _named(self, raw: Ids, drawn: Ids) -> int:
        """How many raw tokens are among the :data:`TOP` of largest cosine with what was sent."""
        scores = self._unit[drawn] @ self._unit.T
        known = raw >= 0
        own = scores[np.arange(len(raw)), raw]
        return int(((scores > own[:, None]).sum(axis=1) < TOP)[known].sum())

    @cached_property
    def _unit(self) -> NDArray[np.float32]:
        rows = self.space.vectors.astype(np.float32)
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def advantage(first: Curve, second: Curve, weights: Floats | None = None) -> float:
    """Mean accuracy of one curve above another where as much is named.

    At each point of either that lies within the other, which is a broken line; NaN if none does.
    """
    curves = [sorted(each.point(weights) for each in curve) for curve in (first, second)]
    gaps = []
    for sign, points, others in ((1, *curves), (-1, *reversed(curves))):
        places, accuracies = zip(*others, strict=True)
        for place, accuracy in points:
            if places[0] <= place <= places[-1]:
                gaps.append(sign * (accuracy - np.interp(place, places, accuracies)))
    return float(np.mean(gaps)) if gaps else np.nan


def better(claim: str, cases: Mapping[str, tuple[Curve, Curve]], *, equal: bool = False) -> Shape:
    """A shape that holds if the first curve is above the second in all cases, or ``equal``, on it.

    In points of accuracy, with errors of resampled texts, the same for both curves.
    """
    generator, found = np.random.default_rng(0), {}
    for case, (first, second) in cases.items():
        count = len(first[0].right)
        draws = generator.multinomial(count, np.full(count, 1 / count), size=RESAMPLED)
        own = [advantage(first, second, draw) for draw in draws]
        error = np.nan if np.isnan(own).all() else np.nanstd(own)
        found[case] = 100 * advantage(first, second), 196 * float(error)
    return in_all(claim, found, equal=equal)
