"""What several releases are worth together: basic sums, zero-concentration, exact losses.

A substituted token, a document and a subject are different units of what is protected. Releases
of one document compose; an occurrence or a document is in one document only, so there the worst
document counts; a subject has all of them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dp_middleware import _validate
from dp_middleware.errors import IncompatibleGuarantees, ParameterError
from dp_middleware.privacy.certificate import Certificate
from dp_middleware.privacy.conversions import approx_of_zcdp, zcdp_of_pure
from dp_middleware.privacy.guarantee import ApproxDP, Guarantee, MetricDP, NoGuarantee, PureDP

Unit = Literal["occurrence", "document", "subject"]

_UNITS: tuple[Unit, ...] = ("occurrence", "document", "subject")


@dataclass(frozen=True, kw_only=True)
class Exposure:
    """One release, as an accountant sees it.

    Attributes:
        certificate: Its guarantee per token occurrence.
        tokens: Number of tokens released.
        document: Which document was released; equal for releases of the same text.
        rho: Zero-concentration per occurrence, as from ``zcdp_of_bounded_range``; ``None``: what
            the certificate's epsilon implies.
        positions: ``"independent"`` only where every position is drawn from its own token alone,
            as channel mechanisms do: then the rho of the positions add up. Else a document counts
            as one change of ``tokens`` times the epsilon.
    """

    certificate: Certificate
    tokens: int = 1
    document: Hashable = None
    rho: float | None = None
    positions: Literal["independent", "dependent"] = "dependent"

    def __post_init__(self) -> None:
        _validate.at_least(1, tokens=self.tokens)
        if self.rho is not None:
            _validate.nonnegative(rho=self.rho)


def basic(exposures: Iterable[Exposure], unit: Unit = "occurrence") -> Guarantee:
    """The sum of the epsilons: the same kind of guarantee, for all releases together.

    Guarantee:
        Valid for any dependence between releases, also where a mechanism is chosen after seeing
        earlier releases (Dwork and Roth, 2014, Theorem 3.16), and n times epsilon for n tokens by
        group privacy. Rounded up.

    Raises:
        IncompatibleGuarantees: Kinds, adjacencies, distances or spaces differ, or a delta is asked
            for more than one occurrence. A release without a finite guarantee absorbs the others,
            which must still be of one kind.
    """
    releases = _checked(exposures, unit)
    infinite = _infinite(releases)
    if infinite is not None:
        return infinite
    sample = releases[0].certificate.guarantee
    if isinstance(sample, ApproxDP) and unit != "occurrence":
        raise IncompatibleGuarantees(
            "expected pure or metric guarantees for a document or a subject, got ApproxDP; its "
            "delta grows with e^(n epsilon)"
        )

    def total(name: str) -> float:
        return _worst(releases, unit, lambda group: _sum(group, unit, name))

    if isinstance(sample, MetricDP):
        return replace(sample, epsilon=total("epsilon"), slack=total("slack"))
    if isinstance(sample, ApproxDP):
        return ApproxDP(epsilon=total("epsilon"), delta=total("delta"))
    return PureDP(epsilon=total("epsilon"))


def zero_concentrated(
    exposures: Iterable[Exposure], delta: float, unit: Unit = "occurrence"
) -> Guarantee:
    """The sum of the rho, stated at a delta: below the basic sum for many releases.

    Guarantee:
        Rho adds up, also adaptively with parameters fixed in advance (Bun and Steinke, 2016,
        Lemma 1.7), and converts by ``approx_of_zcdp``. A document's positions add up where they
        are drawn independently; else n tokens are n epsilon by group privacy, then zCDP.

    Raises:
        IncompatibleGuarantees: As :func:`basic`; only pure guarantees have a rho.
    """
    _validate.probability(delta=delta)
    releases = _checked(exposures, unit)
    infinite = _infinite(releases)
    if infinite is not None:
        return infinite
    if not isinstance(releases[0].certificate.guarantee, PureDP):
        kind = type(releases[0].certificate.guarantee).__name__
        raise IncompatibleGuarantees(f"expected pure guarantees to concentrate, got {kind}")
    rho = _worst(releases, unit, lambda group: _up(math.fsum(_rho(one, unit) for one in group)))
    return ApproxDP(epsilon=approx_of_zcdp(rho, delta), delta=delta)


def _checked(exposures: Iterable[Exposure], unit: Unit) -> Sequence[Exposure]:
    """At least one, all comparable; those that promise nothing are compared with nothing."""
    _validate.one_of(_UNITS, unit=unit)
    releases = list(exposures)
    if not releases:
        raise ParameterError("expected at least one release to compose, got none")
    finite = [one.certificate for one in releases if one.certificate.finite]
    for label, values in (
        ("kind", {type(one.guarantee).__name__ for one in finite}),
        ("adjacency", {one.adjacency.fingerprint for one in finite}),
        ("metric", {_metric(one) for one in finite}),
    ):
        if len(values) > 1:
            raise IncompatibleGuarantees(
                f"expected guarantees of one {label}, got {', '.join(sorted(values))}; "
                "their epsilons cannot be added"
            )
    return releases


def _metric(certificate: Certificate) -> str:
    guarantee = certificate.guarantee
    return f"{guarantee.distance} in {certificate.space}" if isinstance(guarantee, MetricDP) else ""


def _infinite(exposures: Sequence[Exposure]) -> NoGuarantee | None:
    """Says which release is to blame."""
    for number, release in enumerate(exposures, start=1):
        guarantee = release.certificate.guarantee
        if isinstance(guarantee, NoGuarantee) or not release.certificate.finite:
            reason = getattr(guarantee, "reason", "its loss is infinite")
            return NoGuarantee(reason=f"release {number} of {len(exposures)}: {reason}")
    return None


def _worst(
    exposures: Sequence[Exposure], unit: Unit, total: Callable[[Sequence[Exposure]], float]
) -> float:
    """The total of all, or of the worst document where a unit is in one document."""
    if unit == "subject":
        return total(exposures)
    documents: defaultdict[Hashable, list[Exposure]] = defaultdict(list)
    for exposure in exposures:
        documents[exposure.document].append(exposure)
    return max(total(group) for group in documents.values())


def _sum(exposures: Sequence[Exposure], unit: Unit, name: str) -> float:
    times = [1 if unit == "occurrence" else release.tokens for release in exposures]
    values = [getattr(release.certificate.guarantee, name) for release in exposures]
    if sum(times) == 1:
        return float(values[0])
    return _up(math.fsum(n * value for n, value in zip(times, values, strict=True)))


def _rho(exposure: Exposure, unit: Unit) -> float:
    epsilon = exposure.certificate.epsilon
    times = 1 if unit == "occurrence" else exposure.tokens
    one = zcdp_of_pure(epsilon) if exposure.rho is None else exposure.rho
    if times == 1:
        return one
    return times * one if exposure.positions == "independent" else zcdp_of_pure(times * epsilon)


def _up(value: float) -> float:
    """Above the rounding of one product per term and of their sum."""
    return value * (1 + 2**-50) if value else 0.0
