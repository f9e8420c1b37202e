"""What of the raw document stands in the remote model's answer, word for word."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dp_middleware.embedding.arrays import Floats
from dp_middleware.errors import ParameterError
from dp_middleware.lab.metrics.inputs import words
from dp_middleware.lab.metrics.results import AttackResult, over_texts, rate_interval, sizes

_ASSUMPTIONS = (
    "words are runs of letters and digits, whatever the case, and each Chinese or Japanese "
    "character; n-grams are counted once per text",
    "texts without an n-gram are left out",
    "common words are in most answers: compare with the share found in another text's answer",
    "interval: 95 %, over texts, which are independent",
)


def ngram_leakage(
    raw_texts: Sequence[str], answers: Sequence[str], *, n: int | Sequence[int] = (1, 2, 3)
) -> AttackResult:
    """Counts which n-grams of raw documents occur in the remote's answers to them.

    ``details["1-gram"]`` and so on for each n, in words; ``"chance 1-gram"`` is the share found in
    the answer to the next text instead: what common phrases give away of any text. The rate is that
    of the smallest n. Reference: InferDPT measures 1- to 3-grams.

    Raises:
        ParameterError: Other numbers of texts and answers, or no text has an n-gram.
    """
    if isinstance(raw_texts, str) or isinstance(answers, str) or len(raw_texts) != len(answers):
        raise ParameterError("expected sequences of texts and of answers of one length")
    lengths = sizes(n)
    pairs = list(zip(raw_texts, answers, strict=True))
    shifted = list(zip(raw_texts, [*answers[1:], *answers[:1]], strict=True))
    counts = {size: _count(pairs, size) for size in lengths}
    hits, totals = counts[lengths[0]]
    if not len(totals):
        raise ParameterError(f"expected a text of {lengths[0]} words or more, got none")
    details = {f"{size}-gram": _share(*counts[size]) for size in lengths}
    if len(pairs) > 1:
        details |= {f"chance {size}-gram": _share(*_count(shifted, size)) for size in lengths}
    return AttackResult(
        attack="ngram_leakage",
        rate=details[f"{lengths[0]}-gram"],
        **over_texts(rate_interval(hits, totals), len(totals)),
        assumptions=_ASSUMPTIONS,
        details=details,
    )


def _count(pairs: Sequence[tuple[str, str]], size: int) -> tuple[Floats, Floats]:
    """Shared and own distinct n-grams of each text that has any, float64 (m,) each."""

    def grams(text: str) -> frozenset[tuple[str, ...]]:
        own = words(text)
        return frozenset(zip(*(own[start:] for start in range(size)), strict=False))

    sets = [(grams(text), grams(answer)) for text, answer in pairs]
    counts = [(len(own & theirs), len(own)) for own, theirs in sets if own]
    hits, totals = np.array(counts, dtype=np.float64).reshape(-1, 2).T
    return hits, totals


def _share(hits: Floats, totals: Floats) -> float:
    """0 where no text is long enough."""
    return float(hits.sum() / totals.sum()) if len(totals) else 0.0
