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
from dp_middleware.lab.metrics import results
from dp_middleware.lab.metrics.results import MetricResult, SentenceEncoder, of_mean, words

ORDERS = (2, 3, 4)  # lengths of the n-grams of :func:`diversity`
_SCALING = 5  # of mauve-text, as in the paper
_WEIGHTS = np.linspace(1e-6, 1 - 1e-6, 25)  # of mauve-text


def diversity(texts: Sequence[str]) -> MetricResult:
    """Multiplies, over n = 2, 3, 4, the share of distinct n-grams, as contrastive search does.

    InferDPT prints a sum over n, but figures below 1. N-grams are distinct within a text, and both
    counts are summed over texts before the division; without any the share is 1. Words are cut at
    blanks; a Chinese or Japanese character is one. No texts: ParameterError.
    """
    pieces = [*map(results.PIECE.findall, results.check_texts(texts))]
    grams = [[[*zip(*(own[k:] for k in range(n)), strict=False)] for n in ORDERS] for own in pieces]
    total = np.array([[*map(len, some)] for some in grams], dtype=np.float64)
    distinct = np.array([[len(set(of_n)) for of_n in some] for some in grams], dtype=np.float64)

    def shares_of(texts: NDArray[np.int64]) -> Floats:
        some, every = distinct[texts].sum(axis=0), total[texts].sum(axis=0)
        shares: Floats = np.divide(some, every, out=np.ones_like(some), where=every > 0)
        return shares

    places = np.arange(len(pieces))
    interval = results.resampled_interval(
        lambda draws: float(shares_of(draws.choice(places, len(places))).prod())
    )
    own = shares_of(places)
    return MetricResult(
        metric="diversity",
        value=float(own.prod()),
        **results.over_texts(interval if len(pieces) > 1 else (0.0, 1.0), len(pieces)),
        assumptions=("n-grams of words between blanks, distinct within a text",),
        details={f"distinct {n}-grams": k for n, k in zip(ORDERS, own.tolist(), strict=True)},
    )


def mauve(
    human: Sequence[str], generated: Sequence[str], *, service: SentenceEncoder | None = None
) -> MetricResult:
    """Computes MAUVE (Pillutla et al. 2021): how close two sets of texts are, 0 to 1.

    From ``mauve-text`` (extra ``mauve``: its licence is the GPL 3), imported only here, with
    sentence vectors in place of GPT-2's features. Made for thousands of texts: with few, read the
    interval, a bootstrap over texts with the buckets, a tenth of the smaller set, held fixed.

    Raises:
        MissingExtra: ``mauve-text`` is not installed.
        ParameterError: Fewer than two texts in a set.
    """
    sets = results.check_texts(human), results.check_texts(generated)
    sizes = [len(texts) for texts in sets]
    if min(sizes) < 2:
        raise ParameterError(f"expected at least two texts in each set, got {min(sizes)}")
    count = max(2, round(min(sizes) / 10))
    code = library("mauve.compute_mauve", "mauve", "mauve-text")
    encoder = service or results.default_encoder()
    features = [encoder.encode(texts).astype(np.float64) for texts in sets]
    with np.errstate(invalid="ignore", divide="ignore"):  # all vectors equal: no variance
        report = code.compute_mauve(*features, num_buckets=count)
    p, q = report.p_hist, report.q_hist
    low, high = results.resampled_interval(
        lambda draws: mauve_of(
            *(draws.multinomial(n, h) / n for n, h in zip(sizes, (p, q), strict=True))
        )
    )
    value = mauve_of(p, q)
    interval = (min(low, value), max(high, value))  # resampled histograms differ more than these
    return MetricResult(
        metric="mauve",
        value=value,
        **results.over_texts(interval, sum(sizes)),
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


def rouge_l(raw: Sequence[str], released: Sequence[str]) -> MetricResult:
    """Computes ROUGE-L (Lin 2004): F1 of the longest common subsequence of words, mean over texts.

    From ``rouge-score`` (MissingExtra), without stemming. Words are runs of letters and digits in
    lower case; beyond ASCII also each Chinese or Japanese character, and each symbol. Two texts
    without any word are alike (1). ParameterError: no texts, or not as many on both sides.
    """
    raw, released = results.check_pairs(raw, released)
    scorer = results.rouge_scorer()
    scores = [
        scorer.score(reference, text)["rougeL"] if words(reference) or words(text) else (1.0,) * 3
        for reference, text in zip(raw, released, strict=True)
    ]
    precision, recall, f1 = np.array(scores, dtype=np.float64).T
    details = {"precision": float(precision.mean()), "recall": float(recall.mean())}
    return of_mean("rouge-l", f1, (0.0, 1.0), "words in lower case, not stemmed", details)


def bert_score(
    raw: Sequence[str], released: Sequence[str], *, model: str = DEFAULT_ENCODER
) -> MetricResult:
    """Computes BERTScore (Zhang et al. 2020): F1 of greedily matched contextual vectors, mean.

    From ``bert-score`` (MissingExtra), without idf weights and rescaling, by default with the
    bundled encoder: compare figures of one model only. All layers of a folder are used, and as many
    as ``bert-score`` recommends for a model of the hub. Texts are cut to the model's window; two
    blank ones are alike (1), one is unlike any other (0). ParameterError: no texts, not as many on
    both sides, or the model cannot be loaded.
    """
    raw, released = results.check_pairs(raw, released)
    source = _files.encoder_source(model) if model == DEFAULT_ENCODER else model
    blank = np.array([[not a.strip(), not b.strip()] for a, b in zip(raw, released, strict=True)])
    scores = np.zeros((len(raw), 3))
    scores[blank.all(axis=1)] = 1.0
    chosen = np.flatnonzero(~blank.any(axis=1))
    if chosen.size:
        columns = _bert_scorer(source).score(
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
    """Tells how well continuations fit raw prompts: mean cosine of sentence vectors.

    As InferDPT, but by a Sentence-BERT model, not SimCSE: figures are not comparable.
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
    first, second = results.check_pairs(first, second)
    encoder = service or results.default_encoder()
    one, other = (encoder.encode(texts).astype(np.float64) for texts in (first, second))
    cosines = np.clip(np.einsum("nd,nd->n", one, other), -1.0, 1.0)
    backend = getattr(encoder, "backend", encoder)
    model = getattr(backend, "model", None)  # a class's name is the same in every process, too
    name = model if isinstance(model, str) else type(backend).__name__
    assumption = f"cosine of sentence vectors of {name}; papers may have another encoder's"
    return of_mean(metric, cosines, (-1.0, 1.0), assumption, {})


@lru_cache(maxsize=1)
def _bert_scorer(source: str) -> Any:
    """A scorer with its model; it keeps no text."""
    scorers = library("bert_score", "eval")
    with withheld(
        f"expected a BERT-like model for bert-score, and could not load {source!r} ({{}}); give "
        "the folder of one on this computer"
    ):
        layers = None
        if source not in scorers.utils.model2layers:
            from transformers import AutoConfig

            layers = int(AutoConfig.from_pretrained(source).num_hidden_layers)
        return scorers.BERTScorer(model_type=source, num_layers=layers)
