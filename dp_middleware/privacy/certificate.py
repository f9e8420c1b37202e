"""The evidence behind a guarantee, as data that can be stored, compared and shown."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

from dp_middleware.privacy.guarantee import Adjacency, Guarantee, MetricDP

Method = Literal["exact", "proof", "none"]
Unit = Literal["occurrence", "sentence", "text", "value"]
"""What a guarantee protects: a token occurrence, a sentence, a text, or all mentions of a value."""

_GUARANTEES = {kind.__name__: kind for kind in get_args(Guarantee)}


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
    """States what a mechanism guarantees per token occurrence or text, never of which text.

    Attributes:
        guarantee: The true statement.
        adjacency: Between which inputs it holds.
        method: ``"exact"``: enumerated over all pairs of tokens from the integers that are drawn
            from; ``"proof"``: a theorem with constants computed for this space; ``"none"``.
        assumptions: What the statement relies on, in sentences.
        claimed: The epsilon that the paper claims for these parameters, nats; per unit of distance
            where the claim is a metric one.
        epsilon: Nats per :attr:`unit`, the largest loss over all adjacent pairs; may be ``inf``.
            Where the guarantee is metric: its epsilon times the diameter of the space.
        mechanism: Fingerprint of the mechanism.
        space: Fingerprint of the space.
        metric: A metric guarantee that holds as well, or is the guarantee.
        witness: Where the loss is attained. This and the next four are ``None`` if not enumerated.
        recovery: Probability that the best possible context-free attacker recovers a token,
            tokens uniform over the vocabulary.
        retention: Mean probability that a token is released unchanged, over the same.
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
        """Makes the certificate of :meth:`to_dict`; ValueError: another form or adjacency."""
        if data.keys() != cls.__dataclass_fields__.keys():
            raise ValueError("stored certificate is of another form")
        if data["adjacency"] != adjacency.fingerprint:
            raise ValueError("stored certificate is for another adjacency")
        fields, guarantee = _parsed(data), _parsed(data["guarantee"])
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


def _parsed(values: dict[str, Any]) -> dict[str, Any]:
    return {name: math.inf if value == "inf" else value for name, value in values.items()}
