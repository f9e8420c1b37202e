"""What a release is worth and what it keeps: the measures of the papers, with intervals."""

from dp_middleware.lab.metrics.classification import (
    QNLI,
    SST2,
    Task,
    classification_accuracy,
    probe_accuracy,
)
from dp_middleware.lab.metrics.deniability import (
    mapping_set_size,
    mapping_set_size_drawn,
    retention,
    retention_bound,
    retention_on,
    token_cosine,
)
from dp_middleware.lab.metrics.generation import (
    alignment,
    bert_score,
    coherence,
    diversity,
    mauve,
    rouge_l,
    sbert_cosine,
)
from dp_middleware.lab.metrics.results import MetricResult

# fmt: off
__all__ = [
    "QNLI", "SST2", "MetricResult", "Task", "alignment", "bert_score", "classification_accuracy",
    "coherence", "diversity", "mapping_set_size", "mapping_set_size_drawn", "mauve",
    "probe_accuracy", "retention", "retention_bound", "retention_on", "rouge_l", "sbert_cosine",
    "token_cosine",
]
# fmt: on
