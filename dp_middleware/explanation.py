"""What a local dry run tells. Private: it names tokens of the input."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """One distinct token of an explained text. Private: holds a token of the input."""

    token: str
    count: int
    retention: float
    likely: tuple[tuple[str, float], ...]


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A local dry run over a text: expectations, no draw, no charge. Private: keep it local.

    Attributes:
        tokens_total: Number of tokens.
        tokens_verbatim: Tokens that would be kept by policy or lie outside the scope.
        tokens_unknown: Tokens outside the vocabulary.
        expected_retention: Mean probability that a perturbed token is drawn as itself.
        alternatives: Per distinct perturbed token, in order of appearance: its count, its
            probability of staying and its likeliest outputs.
        warning: Why one must not retry until a release looks good.
    """

    tokens_total: int
    tokens_verbatim: int
    tokens_unknown: int
    expected_retention: float
    alternatives: tuple[Alternative, ...] = field(repr=False)
    warning: str = (
        "Every release spends its epsilon again. Do not retry until one looks good: choosing "
        "among releases by looking at the input is itself a leak that no certificate covers."
    )
