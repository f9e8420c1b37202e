"""The evidence behind a guarantee, as data that can be stored, compared and shown."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Literal

from dp_middleware.privacy.guarantee import (
    Adjacency,
    ApproxDP,
    Guarantee,
    MetricDP,
    NoGuarantee,
    PureDP,
)

Method = Literal["exact", "proof", "none"]
Unit = Literal["occurrence", "sentence", "text", "value"]
"""What a guarantee protects: a token occurrence, a sentence, a text, or all mentions of a value."""

_GUARANTEES: dict[str, type[Guarantee]] = {
    kind.__name__: kind for kind in (PureDP, ApproxDP, MetricDP, NoGuarantee)
}


@dataclass(frozen=True, kw_only=True)
class Witness:
    """Names the triple at which the loss is attained: ln P(output | token) - ln P(output | other).

    All three are vocabulary tokens (public); ``None`` stands for the unknown symbol.
    """

    token: str | None
    other: str | None
    output: str


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """States what a mechanism guarantees per token occurrence or text, and how that is known.

    A certificate speaks of the mechanism and the space, never of a text.

    Attributes:
        guarantee: The true statement.
        adjacency: Between which inputs it holds.
        method: ``"exact"``: enumerated over all pairs of tokens from the integers that are drawn
            from; ``"proof"``: a theorem with constants computed for this space; ``"none"``.
        assumptions: What the statement relies on, in sentences.
        claimed: The epsilon that the paper claims for these parameters, nats; per unit of distance
            where the claim is a metric one.
        epsilon: Nats per :attr:`unit`, the largest loss over all adjacent pairs; may be ``inf``.
            Enumerated for a channel, a bound by proof for others. Where the guarantee is metric:
            its epsilon times the diameter of the space.
        mechanism: Fingerprint of the mechanism.
        space: Fingerprint of the space.
        metric: A metric guarantee that holds as well, or is the guarantee; ``None`` if none does.
        witness: Where the loss is attained, if it was enumerated.
        recovery: Probability that the best possible context-free attacker recovers a token,
            tokens uniform over the vocabulary; ``None`` if not enumerated.
        retention: Mean probability that a token is released unchanged, tokens uniform over the
            vocabulary; ``None`` if not enumerated.
        recovery_in_english: As ``recovery``, for tokens as frequent as in English text, by public
            counts of words; ``None`` also where the vocabulary is not English.
        retention_in_english: As ``retention``, for these.
    """

    guarantee: Guarantee
    adjacency: Adjacency
    method: Method
    assumptions: tuple[str, ...]
    claimed: float
    epsilon: float
    mechanism: str
    space: str
    metric: MetricDP | None = None
    witness: Witness | None = None
    recovery: float | None = None
    retention: float | None = None
    recovery_in_english: float | None = None
    retention_in_english: float | None = None

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the certificate."""
        text = json.dumps(self.to_dict(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @cached_property
    def unit(self) -> Unit:
        """Names what :attr:`epsilon` is paid for: an occurrence, a sentence, a text or a value."""
        if self.adjacency.kinds and not self.adjacency.tokens:
            return "value"
        if self.adjacency.by_sentence:
            return "sentence"
        return "text" if self.adjacency.whole else "occurrence"

    @property
    def finite(self) -> bool:
        """Tells whether anything at all is guaranteed."""
        return math.isfinite(self.epsilon)

    def assuming(self, more: tuple[str, ...]) -> Certificate:
        """Makes the same certificate, relying on more."""
        return replace(self, assumptions=(*self.assumptions, *more))

    def revised(self, **changes: Any) -> Certificate:
        """Makes another one, of which recovery and retention are not known."""
        figures = ("recovery", "retention", "recovery_in_english", "retention_in_english")
        unknown: dict[str, Any] = dict.fromkeys(figures)
        return replace(self, **unknown, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Returns JSON-ready data; infinite numbers as ``"inf"``; classes as a fingerprint."""
        data = _finite({name: getattr(self, name) for name in self.__dataclass_fields__})
        kind = type(self.guarantee).__name__
        data["guarantee"] = {"kind": kind, **_finite(asdict(self.guarantee))}
        data["adjacency"] = self.adjacency.fingerprint
        data["assumptions"] = list(self.assumptions)
        data["metric"] = None if self.metric is None else asdict(self.metric)
        data["witness"] = None if self.witness is None else asdict(self.witness)
        return data

    @classmethod
    def from_dict(cls, data: dict[str, Any], adjacency: Adjacency) -> Certificate:
        """Makes the certificate of :meth:`to_dict` for a caller who holds the adjacency.

        Raises:
            ValueError: The stored certificate is of another form or for another adjacency.
        """
        if data.keys() != cls.__dataclass_fields__.keys():
            raise ValueError("stored certificate is of another form")
        if data["adjacency"] != adjacency.fingerprint:
            raise ValueError("stored certificate is for another adjacency")
        fields = {name: _parsed(value) for name, value in data.items()}
        guarantee = {name: _parsed(value) for name, value in data["guarantee"].items()}
        kind = _GUARANTEES[str(guarantee.pop("kind"))]
        metric, witness = data["metric"], data["witness"]
        fields.update(
            guarantee=kind(**guarantee),
            adjacency=adjacency,
            assumptions=tuple(data["assumptions"]),
            metric=MetricDP(**metric) if metric else None,
            witness=Witness(**witness) if witness else None,
        )
        return cls(**fields)


def json_number(value: Any) -> Any:
    """Returns a value as it is in JSON, which has no infinity."""
    return "inf" if isinstance(value, float) and math.isinf(value) else value


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    return {name: "inf" if value == math.inf else value for name, value in values.items()}


def _parsed(value: Any) -> Any:
    return math.inf if value == "inf" else value
