"""How good a set of generated texts is: repetition within texts, distance to human text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dp_middleware import _validate
from dp_middleware.embedding.arrays import Floats
from dp_middleware.errors import ParameterError, library
from dp_middleware.lab.metrics.inputs import SentenceEncoder, check_texts, default_encoder, pieces
from dp_middleware.lab.metrics.results import MetricResult, over_texts, resampled_interval

ORDERS = (2, 3, 4)
"""Lengths of the n-grams of :func:`diversity`."""

_SCALING = 5  # of mauve-text, as in the paper
_WEIGHTS = np.linspace(1e-6, 1 - 1e-6, 25)  # of mauve-text


def diversity(texts: Sequence[str]) -> MetricResult:
    """Multiplies, over n = 2, 3, 4, the share of distinct n-grams.

    The measure of contrastive search; InferDPT prints a sum over n, but figures below 1. N-grams
    are distinct within a text, and both counts are summed over texts before the division. Words are
    cut at blanks; a Chinese or Japanese character is one. Where no text has an n-gram of some
    length its share is 1. No texts: ParameterError.
    """
    counts = np.array([_count(pieces(text)) for text in check_texts(texts)], dtype=np.float64)
    distinct, total = counts[:, 0], counts[:, 1]

    def shares_of(texts: NDArray[np.int64]) -> Floats:
        some, every = distinct[texts].sum(axis=0), total[texts].sum(axis=0)
        shares: Floats = np.divide(some, every, out=np.ones_like(some), where=every > 0)
        return shares

    places = np.arange(len(counts))
    interval = resampled_interval(
        lambda draws: float(shares_of(draws.choice(places, len(places))).prod())
    )
    own = shares_of(places)
    return MetricResult(
        metric="diversity",
        value=float(own.prod()),
        **over_texts(interval if len(counts) > 1 else (0.0, 1.0), len(counts)),
        assumptions=("n-grams of words between blanks, distinct within a text",),
        details={f"distinct {n}-grams": k for n, k in zip(ORDERS, own.tolist(), strict=True)},
    )


def mauve(
    human: Sequence[str],
    generated: Sequence[str],
    *,
    service: SentenceEncoder | None = None,
    buckets: int | None = None,
) -> MetricResult:
    """Computes MAUVE (Pillutla et al. 2021): how close two sets of texts are, 0 to 1.

    From ``mauve-text`` (extra ``mauve``: its licence is the GPL 3), imported only here. Its
    features are GPT-2's by default; here they are sentence vectors, so figures are not comparable
    with InferDPT's. Made for thousands of texts: with few, read the interval, a bootstrap over
    texts with the buckets held fixed: by default a tenth of the smaller set, at least two.

    Raises:
        MissingExtra: ``mauve-text`` is not installed.
        ParameterError: Fewer than two texts in a set, or more buckets than texts in both.
    """
    sets = check_texts(human), check_texts(generated)
    sizes = [len(texts) for texts in sets]
    count = _bucket_count(sizes, buckets)
    code = library("mauve.compute_mauve", "mauve", "mauve-text")
    encoder = service if service is not None else default_encoder()
    features = [encoder.encode(texts).astype(np.float64) for texts in sets]
    with np.errstate(invalid="ignore", divide="ignore"):  # all vectors equal: no variance
        report = code.compute_mauve(*features, num_buckets=count)
    p, q = report.p_hist, report.q_hist
    low, high = resampled_interval(
        lambda draws: mauve_of(
            *(draws.multinomial(n, h) / n for n, h in zip(sizes, (p, q), strict=True))
        )
    )
    value = mauve_of(p, q)
    interval = (min(low, value), max(high, value))  # resampled histograms differ more than these
    return MetricResult(
        metric="mauve",
        value=value,
        **over_texts(interval, sum(sizes)),
        assumptions=("features are sentence vectors, not GPT-2's; buckets fixed for the interval",),
        details={"buckets": float(count), "mauve star": float(report.mauve_star)},
    )


def mauve_of(p: Floats, q: Floats) -> float:
    """Computes MAUVE of two histograms: the area under their divergence curve.

    The points are those of ``mauve-text``, in the order of their weights. The library sorts them by
    one coordinate, which for equal histograms leaves ties in an order that gives 0.75; it is 1.
    """
    from scipy.special import rel_entr

    mixed = _WEIGHTS[:, None] * p + (1 - _WEIGHTS)[:, None] * q
    x, y = (np.exp(-_SCALING * rel_entr(own, mixed).sum(axis=1)) for own in (q, p))
    x, y = np.concatenate([[1.0], x, [0.0]]), np.concatenate([[0.0], y, [1.0]])
    return float(np.trapezoid(x, y))


def _bucket_count(sizes: list[int], buckets: int | None) -> int:
    if min(sizes) < 2:
        raise ParameterError(f"expected at least two texts in each set, got {min(sizes)}")
    count = buckets if buckets is not None else max(2, round(min(sizes) / 10))
    _validate.at_least(2, buckets=count)
    if count > sum(sizes):
        raise ParameterError(f"expected at most {sum(sizes)} buckets, one a text, got {count}")
    return count


def _count(words: list[str]) -> tuple[list[int], list[int]]:
    """Distinct n-grams and all n-grams of a text, for each n."""
    grams = [[tuple(words[k : k + n]) for k in range(len(words) - n + 1)] for n in ORDERS]
    return [len(set(of_n)) for of_n in grams], [len(of_n) for of_n in grams]
