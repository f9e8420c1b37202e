"""What attacks and metrics take, checked texts and models, and make: a number with its interval.

Below about 20 texts a bootstrap interval is a rough guide; of a single text nothing is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_middleware import _validate
from dp_middleware.embedding import EmbeddingService
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.errors import ParameterError, library
from dp_middleware.models.chat import ChatModel, chat_model

CONFIDENCE = 0.95  # of every interval made here
OVER_TEXTS = "interval: 95 %, texts are independent of each other, tokens of one text are not"
UNKNOWN_LEFT_OUT = "tokens outside the vocabulary are left out"
BY_WORD = "counted by word: case, blanks around a token and marks of continued words do not count"
MISSED = np.iinfo(np.int64).max  # rank of a token that the attacker does not name at all
Ends = tuple[float, float]
Top = int | Sequence[int]
"""How many guesses count as one success; the first, the smallest, is the rate."""
Chat = Callable[[list[dict[str, str]]], str]

_DRAWS = 2000
_RESAMPLES = 1000  # of a statistic that is computed on one resample at a time
_SEED = 0  # an interval is a function of its data
_AT_ONCE = 1 << 22  # resampled texts held
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # kana, Chinese characters
_UNSEEN = "\u200b-\u200f\u2060-\u2064\ufe00-\ufe0f\ufeff"  # joiners, variation selectors
_WORD = re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}])[^\W_])+|[^\x00-\x7f\w\s{_UNSEEN}]")
PIECE = re.compile(rf"[{_UNSPACED}]|[^\s{_UNSPACED}]+")
_TAILS = ((1 - CONFIDENCE) / 2, 1 - (1 - CONFIDENCE) / 2)


@dataclass(frozen=True, kw_only=True)
class Result:
    """Holds what the results of attacks and metrics have in common: numbers only, never text.

    Attributes:
        low: Lower end of the interval; equal to the number where that is exact.
        high: Upper end.
        confidence: Coverage of the interval; 1.0 where the number is exact.
        trials: How many texts, tokens or runs the interval is over; 0 where the number is exact.
        by_id: The same number where another token of the same word is another outcome, or ``None``.
        assumptions: What the number relies on, in sentences.
        details: Further numbers by name, such as ``"top 5"``; ready for JSON.
    """

    low: float
    high: float
    confidence: float
    trials: int
    by_id: float | None = None
    assumptions: tuple[str, ...] = ()
    details: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class MetricResult(Result):
    """Holds what a metric gives: its name, and a value in its own unit."""

    metric: str
    value: float


@dataclass(frozen=True, kw_only=True)
class AttackResult(Result):
    """Says how often an attack, such as ``"bayes"``, succeeds: the share of tokens or n-grams."""

    attack: str
    rate: float


def exactly(number: float) -> dict[str, Any]:
    """Makes the fields of a :class:`Result` without sampling error."""
    return {"low": number, "high": number, "confidence": 1.0, "trials": 0}


def of_law(
    metric: str, value: float, *assumptions: str, by_id: float | None = None, **details: float
) -> MetricResult:
    """Makes the result of an exact value."""
    own = exactly(value) | {"assumptions": assumptions, "details": details, "by_id": by_id}
    return MetricResult(metric=metric, value=value, **own)


def over_texts(interval: Ends, texts: int) -> dict[str, Any]:
    """Makes the fields of a :class:`Result` for a 95 % interval over so many texts."""
    return {"low": interval[0], "high": interval[1], "confidence": CONFIDENCE, "trials": texts}


def resampled_interval(draw: Callable[[np.random.Generator], float]) -> Ends:
    """Returns the middle 95 % of a statistic of resampled texts, drawn with the generator."""
    generator = np.random.default_rng(_SEED)
    low, high = np.quantile([draw(generator) for _ in range(_RESAMPLES)], _TAILS)
    return float(low), float(high)


def ratio_interval(numerators: ArrayLike, denominators: ArrayLike) -> Ends:
    """Bootstraps an interval for sum(numerators) / sum(denominators), one of each a text."""
    above, below = (np.asarray(x, dtype=np.float64) for x in (numerators, denominators))
    generator, ratios = np.random.default_rng(_SEED), list[Floats]()
    rows = max(1, _AT_ONCE // len(above))
    for start in range(0, _DRAWS, rows):
        drawn = generator.integers(0, len(above), (min(rows, _DRAWS - start), len(above)))
        ratios.append(above[drawn].sum(axis=1) / below[drawn].sum(axis=1))
    low, high = np.quantile(np.concatenate(ratios), _TAILS)
    return float(low), float(high)


def rate_interval(hits: ArrayLike, trials: ArrayLike) -> Ends:
    """Returns an interval for a rate from successes and trials, int (m,), of texts.

    Clopper-Pearson of texts of one trial each, and at a rate of 0 or 1; else a bootstrap.
    """
    successes, counts = np.asarray(hits), np.asarray(trials)
    if len(counts) == 1 < counts[0]:
        return 0.0, 1.0
    whole = (successes > 0).sum()  # texts with a success
    if (counts == 1).all() or not whole or (successes == counts).all():
        return exact_interval(int(whole), len(counts))
    return ratio_interval(successes, counts)


def exact_interval(hits: int, trials: int) -> Ends:
    """Computes Clopper and Pearson's interval for the rate of independent trials."""
    from scipy.stats import binomtest

    interval = binomtest(hits, trials).proportion_ci(CONFIDENCE)
    return float(interval.low), float(interval.high)


def of_mean(
    metric: str, values: ArrayLike, scale: Ends, assumption: str, details: dict[str, float]
) -> MetricResult:
    """Averages one number per text; ``scale`` holds the values it can take."""
    numbers = np.asarray(values, dtype=np.float64)
    several = len(numbers) > 1
    interval = ratio_interval(numbers, np.ones_like(numbers)) if several else scale
    told = {"assumptions": (assumption,), "details": details} | over_texts(interval, len(numbers))
    return MetricResult(metric=metric, value=float(numbers.mean()), **told)


def of_rate(
    metric: str, right: NDArray[np.bool_], assumption: str, details: dict[str, float]
) -> MetricResult:
    """Computes the share of texts for which something holds, with the exact binomial interval."""
    interval = exact_interval(int(right.sum()), len(right))
    told = {"assumptions": (assumption,), "details": details} | over_texts(interval, len(right))
    return MetricResult(metric=metric, value=float(right.mean()), **told)


def sizes(top: Top) -> tuple[int, ...]:
    """Returns how many guesses count as one success, ascending, or raises ParameterError."""
    asked = tuple(top) if isinstance(top, Sequence) else (top,)
    for count in asked or (0,):
        _validate.at_least(1, top=count)
    return tuple(sorted({int(count) for count in asked}))


def of_ranks(
    attack: str,
    ranks: Sequence[Ids],
    top: tuple[int, ...],
    assumptions: tuple[str, ...],
    details: dict[str, float],
) -> AttackResult:
    """Makes a result of the places of true words among guesses; ParameterError: there are none.

    ``ranks`` hold int64 (n,) for each text, or (2, n) with those of tokens, from 1 or
    :data:`MISSED`; ``top`` is from :func:`sizes`.
    """
    texts = [places for own in ranks if (places := np.atleast_2d(own)).size]
    if not texts:
        raise ParameterError("expected texts with a token of the vocabulary, got none to attack")
    counts = np.array([places.shape[1] for places in texts])
    hits = {k: np.array([int((places[0] <= k).sum()) for places in texts]) for k in top}
    rates = {f"top {k}": float(hits[k].sum() / counts.sum()) for k in top}
    if len(texts[0]) > 1:
        exact = np.concatenate([places[1] for places in texts])
        rates |= {f"top {k} by id": float((exact <= k).mean()) for k in top}
    return AttackResult(
        attack=attack,
        rate=rates[f"top {top[0]}"],
        **over_texts(rate_interval(hits[top[0]], counts), len(texts)),
        assumptions=(*assumptions, BY_WORD, UNKNOWN_LEFT_OUT, OVER_TEXTS),
        details={**rates, "tokens": float(counts.sum()), **details},
        by_id=rates.get(f"top {top[0]} by id"),
    )


class SentenceEncoder(Protocol):
    """Says what the metrics need of an :class:`EmbeddingService`."""

    def encode(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """Returns vectors of whole texts, float32 (n, d), rows of unit length."""


@lru_cache(maxsize=1)
def default_encoder() -> EmbeddingService:
    """Returns the bundled encoder, loaded once per process."""
    return EmbeddingService()


def asked(model: Any) -> ChatModel:
    """Makes a chat model of a function; its errors quote no text, its answers may be blank."""
    return replace(chat_model(model), may_be_blank=True)


def check_texts(texts: Sequence[str]) -> list[str]:
    """Returns the texts as a list of at least one, or raises ParameterError."""
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise ParameterError("expected a list of texts, each a str")
    if not texts:
        raise ParameterError("expected at least one text, got none")
    return list(texts)


def check_pairs(first: Sequence[str], second: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns two lists of texts that belong together one by one, or raises ParameterError."""
    if len(first) != len(second):
        raise ParameterError(f"expected as many texts on both sides: {len(first)}, {len(second)}")
    return check_texts(first), check_texts(second)


def words(text: str) -> list[str]:
    """Finds runs of letters and digits in lower case; beyond ASCII also each symbol."""
    return _WORD.findall(text.lower())


def rouge_scorer() -> Any:
    """Makes a scorer of ROUGE-L for :func:`words`; MissingExtra: no ``rouge-score``."""
    scorers = library("rouge_score.rouge_scorer", "eval")
    return scorers.RougeScorer(["rougeL"], tokenizer=SimpleNamespace(tokenize=words))
