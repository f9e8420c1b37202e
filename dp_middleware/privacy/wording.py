"""Certificates in sentences: what one promises, and what that means for an attacker."""

from __future__ import annotations

import math

from dp_middleware.privacy.certificate import Certificate
from dp_middleware.privacy.guarantee import ApproxDP, MetricDP, NoGuarantee

UNITS = {"occurrence": "token", "sentence": "sentence", "text": "text", "value": "value"}
"""What a unit is called."""

_NEIGHBOURS = {
    "occurrence": "tokens at a place",
    "sentence": "sentences at a place",
    "text": "texts",
    "value": "values of a kind",
}
_KNOWN = {"exact": "exact", "proof": "by proof", "none": "not proved"}


def nats(epsilon: float) -> str:
    """Writes four decimals, rounded up: a loss is never understated."""
    return "infinite" if math.isinf(epsilon) else f"{_up(epsilon):.10g}"


def sentence(certificate: Certificate) -> str:
    """Says the guarantee of a release in one sentence, for people who know no formulas."""
    guarantee, unit = certificate.guarantee, UNITS[certificate.unit]
    if isinstance(guarantee, NoGuarantee):
        return f"Nothing is guaranteed: {guarantee.reason}."
    known = _KNOWN[certificate.method]
    changed = f"With {certificate.adjacency}"
    if isinstance(guarantee, MetricDP):
        return (
            f"{changed}, no release becomes more than e^({nats(guarantee.epsilon)} d) times as "
            f"likely, where d is the {guarantee.distance} distance of the two ({known})."
        )
    also = ""
    if isinstance(guarantee, ApproxDP):
        also = f", but for a probability of {guarantee.delta:g}"
    if guarantee.epsilon == 0:
        return f"{changed}, every release stays as likely as it was{also} (0 nats, {known})."
    number = nats(guarantee.epsilon)
    return (
        f"{changed}, no release becomes more than e^{number} times as likely{also} "
        f"({number} nats per {unit}, {known})."
    )


def recovery(certificate: Certificate) -> str:
    """Says what the best attacker recovers of tokens; empty if it was not enumerated."""
    recovered, retained, of = shares(certificate)
    if recovered is None or retained is None:
        return ""
    return (
        f"The best attacker who looks at each token alone recovers {_percent(recovered)} of {of}; "
        f"{_percent(retained)} come through as they are."
    )


def shares(certificate: Certificate) -> tuple[float | None, float | None, str]:
    """Gives recovery and retention, and of what: English words where these are known."""
    if certificate.recovery_in_english is None:
        return certificate.recovery, certificate.retention, "tokens"
    return certificate.recovery_in_english, certificate.retention_in_english, "English words"


def guess(certificate: Certificate) -> str:
    """Says how often one of two equally likely neighbours is told from the other; or nothing.

    No more often than e^epsilon / (1 + e^epsilon), by Bayes' theorem, where epsilon is pure.
    """
    if not certificate.finite or isinstance(certificate.guarantee, ApproxDP | NoGuarantee):
        return ""
    chance = f"{_up(100 / (1 + math.exp(-certificate.epsilon))):.10g} %"
    return (
        f"An attacker who knows all else and holds two {_NEIGHBOURS[certificate.unit]} for equally "
        f"likely takes the right one at most {chance} of the time; a coin does 50 %."
    )


def _up(value: float) -> float:
    """Four decimals, never less than the value but for the last bits of rounding."""
    return math.ceil(value * 1e4 - 1e-6) / 1e4


def _percent(share: float) -> str:
    return f"{100 * _up(share):.10g} %"
