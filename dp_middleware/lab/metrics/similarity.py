"""How alike two texts are: by words, by contextual vectors, by sentence vectors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from dp_middleware import _files
from dp_middleware._files import DEFAULT_ENCODER
from dp_middleware.errors import library, withheld
from dp_middleware.lab.metrics.inputs import (
    RougeTokenizer,
    SentenceEncoder,
    check_pairs,
    default_encoder,
    words,
)
from dp_middleware.lab.metrics.results import MetricResult, of_mean

_OTHER_ENCODERS = "the papers' figures may be of another encoder"


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
    scorers = library("rouge_score.rouge_scorer", "eval")
    scorer = scorers.RougeScorer(["rougeL"], tokenizer=RougeTokenizer())
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
    assumption = f"cosine of sentence vectors of {name}; {_OTHER_ENCODERS}"
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
