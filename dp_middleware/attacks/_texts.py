"""Which of some known texts was released: the Bayes attacker of whole texts, exactly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dp_middleware import _validate
from dp_middleware.attacks._bound import bound_of
from dp_middleware.embedding.service import EmbeddingService
from dp_middleware.mechanisms.document_response import DocumentResponse
from dp_middleware.mechanisms.text_mechanisms import Encoder
from dp_middleware.metrics.results import AttackResult, exactly


def bayes_among(
    candidates: Sequence[str], mechanism: DocumentResponse, encoder: Encoder | None = None
) -> AttackResult:
    """How often the best attacker names the released text, if it is one of N that he knows.

    Every candidate is as likely. After release y he names the one with the largest P(y|x), so he
    is right with probability 1/N sum over y of max over x of P(y|x): with D different best
    sequences, h the probability of the best one and o that of another, (D h + (S - D) o) / N over
    all S sequences. No mechanism of epsilon allows more than e^epsilon / (e^epsilon + N - 1).

    Args:
        candidates: N texts, 2 or more, for instance those of a public data set.
        mechanism: What releases them.
        encoder: What it scores them with; default an :class:`EmbeddingService`.

    Returns:
        The exact rate; ``details`` have ``"candidates"``, ``"blind"``, which is 1/N, ``"bound"``,
        and ``"different"``, which is D.

    Raises:
        ParameterError: Fewer than two candidates.
    """
    _validate.at_least(2, candidates=len(candidates))
    response = mechanism.response
    best = mechanism.best(candidates, encoder if encoder is not None else EmbeddingService())
    count, different = len(candidates), len(set(best))
    other = (1 - response.hit) * ((response.size - different) / (response.size - 1))
    rate = (different * response.hit + other) / count
    return AttackResult(
        attack="bayes_among",
        rate=rate,
        **exactly(rate),
        assumptions=("exact; the text is one of the candidates, each as likely",),
        details={
            "candidates": float(count),
            "blind": 1 / count,
            "bound": bound_of(np.full(count, 1 / count), mechanism.loss, 1),
            "different": float(different),
        },
    )
