"""How good texts are: repetition in them, distance to human ones, likeness to others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_middleware import _files
from dp_middleware._files import DEFAULT_ENCODER
from dp_middleware.embedding.arrays import Floats
from dp_middleware.errors import ParameterError, library, withheld
from dp_middleware.lab.metrics.inputs import (
    SentenceEncoder,
    check_pairs,
    check_texts,
    default_encoder,
    pieces,
    rouge_scorer,
    words,
)
from dp_middleware.lab.metrics.results import MetricResult, of_mean, over_texts, resampled_interval

ORDERS = (2, 3, 4)  # lengths of the n-grams of :func:`diversity`
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
    human: Sequence[str], generated: Sequence[str], *, service: SentenceEncoder | None = None
) -> MetricResult:
    """Computes MAUVE (Pillutla et al. 2021): how close two sets of texts are, 0 to 1.

    From ``mauve-text`` (extra ``mauve``: its licence is the GPL 3), imported only here. Its
    features are GPT-2's by default; here they are sentence vectors, so figures are not comparable
    with InferDPT's. Made for thousands of texts: with few, read the interval, a bootstrap over
    texts with the buckets held fixed: a tenth of the smaller set, at least two.

    Raises:
        MissingExtra: ``mauve-text`` is not installed.
        ParameterError: Fewer than two texts in a set.
    """
    sets = check_texts(human), check_texts(generated)
    sizes = [len(texts) for texts in sets]
    if min(sizes) < 2:
        raise ParameterError(f"expected at least two texts in each set, got {min(sizes)}")
    count = max(2, round(min(sizes) / 10))
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

    ``mauve-text`` sorts the points by one coordinate: of equal histograms it makes 0.75, not 1.
    """
    from scipy.special import rel_entr

    mixed = _WEIGHTS[:, None] * p + (1 - _WEIGHTS)[:, None] * q
    x, y = (np.exp(-_SCALING * rel_entr(own, mixed).sum(axis=1)) for own in (q, p))
    x, y = np.concatenate([[1.0], x, [0.0]]), np.concatenate([[0.0], y, [1.0]])
    return float(np.trapezoid(x, y))


def _count(words: list[str]) -> tuple[list[int], list[int]]:
    """Distinct n-grams and all n-grams of a text, for each n."""
    grams = [[tuple(words[k : k + n]) for k in range(len(words) - n + 1)] for n in ORDERS]
    return [len(set(of_n)) for of_n in grams], [len(of_n) for of_n in grams]


def rouge_l(raw: Sequence[str], released: Sequence[str]) -> MetricResult:
    """Computes ROUGE-L (Lin 2004): F1 of the longest common subsequence of words, mean over texts.

    From ``rouge-score``, without stemming. Words are runs of letters and digits in lower case, as
    there; beyond ASCII also each Chinese or Japanese character, and each symbol. Two texts without
    any word are alike (1); one without is unlike any other (0).

    Raises:
        MissingExtra: ``rouge-score`` is not installed.
        ParameterError: No texts, or not as many on both sides.
    """
    raw, released = check_pairs(raw, released)
    scorer = rouge_scorer()
    scores = [
        scorer.score(reference, text)["rougeL"] if words(reference) or words(text) else (1.0,) * 3
        for reference, text in zip(raw, released, strict=True)
    ]
    precision, recall, f1 = np.array(scores, dtype=np.float64).T
    details = {"precision": float(precision.mean()), "recall": float(recall.mean())}
    return of_mean("rouge-l", f1, (0.0, 1.0), "words in lower case, not stemmed", details)


def bert_score(
    raw: Sequence[str],
    released: Sequence[str],
    *,
    model: str = DEFAULT_ENCODER,
    layers: int | None = None,
) -> MetricResult:
    """Computes BERTScore (Zhang et al. 2020): F1 of greedily matched contextual vectors, mean.

    From ``bert-score``, without idf weights and without rescaling. The default model is the bundled
    encoder: compare figures of one model only. ``layers`` counts to the last one of a folder, and
    for a model of the hub to the one that ``bert-score`` recommends. Texts are cut to the model's
    window; two blank ones are alike (1), one is unlike any other (0).

    Raises:
        MissingExtra: ``bert-score`` is not installed.
        ParameterError: No texts, not as many on both sides, or the model cannot be loaded.
    """
    raw, released = check_pairs(raw, released)
    source = _files.encoder_source(model) if model == DEFAULT_ENCODER else model
    blank = np.array([[not a.strip(), not b.strip()] for a, b in zip(raw, released, strict=True)])
    scores = np.zeros((len(raw), 3))
    scores[blank.all(axis=1)] = 1.0
    chosen = np.flatnonzero(~blank.any(axis=1))
    if chosen.size:
        columns = _bert_scorer(source, layers).score(
            [released[k] for k in chosen], [raw[k] for k in chosen]
        )
        scores[chosen] = np.stack([column.numpy() for column in columns], axis=1)
    precision, recall, f1 = np.minimum(scores, 1.0).T  # float32 rounds above 1
    details = {"precision": float(precision.mean()), "recall": float(recall.mean())}
    assumption = f"contextual vectors of {model}, no idf, not rescaled"
    return of_mean("bertscore", f1, (-1.0, 1.0), assumption, details)


def sbert_cosine(
    raw: Sequence[str], released: Sequence[str], *, service: SentenceEncoder | None = None
) -> MetricResult:
    """Computes the cosine of sentence vectors (Reimers and Gurevych 2019), mean over texts."""
    return _cosine("sbert cosine", raw, released, service)


def coherence(
    prompts: Sequence[str], continuations: Sequence[str], *, service: SentenceEncoder | None = None
) -> MetricResult:
    """Tells how well continuations fit raw prompts: cosine of their sentence vectors, the mean.

    InferDPT takes it from work on contrastive search, where SimCSE makes the vectors; here a
    Sentence-BERT model does, so figures are not comparable with the paper's.
    """
    return _cosine("coherence", prompts, continuations, service)


def alignment(
    references: Sequence[str],
    continuations: Sequence[str],
    *,
    service: SentenceEncoder | None = None,
) -> MetricResult:
    """Tells how close answers stay to those without privacy: cosine of their sentence vectors."""
    return _cosine("alignment", references, continuations, service)


def _cosine(
    metric: str, first: Sequence[str], second: Sequence[str], service: SentenceEncoder | None
) -> MetricResult:
    first, second = check_pairs(first, second)
    encoder = service if service is not None else default_encoder()
    one, other = (encoder.encode(texts).astype(np.float64) for texts in (first, second))
    cosines = np.clip(np.einsum("nd,nd->n", one, other), -1.0, 1.0)
    backend = getattr(encoder, "backend", encoder)
    model = getattr(backend, "model", None)  # a class's name is the same in every process, too
    name = model if isinstance(model, str) else type(backend).__name__
    assumption = f"cosine of sentence vectors of {name}; papers may have another encoder's"
    return of_mean(metric, cosines, (-1.0, 1.0), assumption, {})


@lru_cache(maxsize=1)
def _bert_scorer(source: str, layers: int | None) -> Any:
    """A scorer with its model; it keeps no text."""
    scorers = library("bert_score", "eval")
    with withheld(
        f"expected a BERT-like model for bert-score, and could not load {source!r} ({{}}); give "
        "the folder of one on this computer"
    ):
        if layers is None and source not in scorers.utils.model2layers:
            from transformers import AutoConfig

            layers = int(AutoConfig.from_pretrained(source).num_hidden_layers)
        return scorers.BERTScorer(model_type=source, num_layers=layers)
