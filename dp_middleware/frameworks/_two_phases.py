"""One certificate and one charge for a sanitizer and a private choice that follows it."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from dp_middleware.errors import IncompatibleGuarantees
from dp_middleware.mechanisms import Mechanism, NoiseMechanism
from dp_middleware.privacy import Certificate, PureDP
from dp_middleware.privacy.releases import Ledger
from dp_middleware.sanitizers.sanitizer import Sanitizer


def require_pure(mechanism: Mechanism) -> None:
    """Refuse a noise mechanism at once; a certificate says the rest.

    Raises:
        IncompatibleGuarantees: Its epsilon is per unit of distance.
    """
    if isinstance(mechanism, NoiseMechanism):
        raise _not_pure("metric privacy")


def pure_epsilon(certificate: Certificate) -> float:
    """Nats per token occurrence.

    Raises:
        IncompatibleGuarantees: The guarantee is not pure or not finite.
    """
    guarantee = certificate.guarantee
    if not isinstance(guarantee, PureDP) or not certificate.finite:
        raise _not_pure(type(guarantee).__name__)
    return guarantee.epsilon


def composed(first: Certificate, epsilon: float, settings: str) -> Certificate:
    """The certificate of both phases.

    Args:
        first: Of the sanitizer.
        epsilon: Of the choice, nats per token occurrence.
        settings: Public parameters of the second phase, for the fingerprint.
    """
    one = pure_epsilon(first)
    claimed = one if first.metric else first.claimed  # a metric claim is per unit of distance
    digest = hashlib.sha256(f"{first.mechanism}/{settings}".encode()).hexdigest()[:16]
    notes = (
        f"the chat model alone sees {one:g} nats; {epsilon:g} more are for choosing a candidate",
        "candidates, pruning and fallback depend on the text through what was sanitized only",
    )
    return replace(
        first,
        guarantee=PureDP(epsilon=one + epsilon),
        epsilon=one + epsilon,
        method="proof",
        claimed=claimed + epsilon,
        mechanism=f"privrewrite-{digest}",
        assumptions=(*first.assumptions, *notes),
        metric=None,
        witness=None,
        recovery=None,
        retention=None,
    )


def charged_for_both(
    sanitizer: Sanitizer, composition: Callable[[Certificate], Certificate]
) -> Sanitizer:
    """A sanitizer whose ledger is charged, once per text, for what follows as well.

    One charge for both is all or nothing, and made before the first draw.
    """
    if sanitizer.ledger is None:
        return sanitizer
    twin = copy.copy(sanitizer)
    twin.certificate = sanitizer.certificate
    twin.ledger = _BothPhases(sanitizer.ledger, composition)
    return twin


@dataclass(frozen=True)
class _BothPhases:
    inner: Ledger
    composition: Callable[[Certificate], Certificate]

    def charge(self, subject: str, certificate: Certificate, n: int) -> object:
        return self.inner.charge(subject, self.composition(certificate), n)


def _not_pure(kind: str) -> IncompatibleGuarantees:
    return IncompatibleGuarantees(
        f"expected a sanitizer with a pure, finite epsilon to add the choice's to, got {kind}; "
        "use a mechanism such as dp.TokenExponential or dp.NearestResponse"
    )
