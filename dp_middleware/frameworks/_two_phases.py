"""One certificate for a sanitizer and a private choice that follows it."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from dp_middleware.errors import IncompatibleGuarantees
from dp_middleware.mechanisms import Mechanism, NoiseMechanism
from dp_middleware.privacy import Certificate, PureDP


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


def compose(first: Certificate, epsilon: float, settings: str) -> Certificate:
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


def _not_pure(kind: str) -> IncompatibleGuarantees:
    return IncompatibleGuarantees(
        f"expected a sanitizer with a pure, finite epsilon to add the choice's to, got {kind}; "
        "use a mechanism such as dp.TokenExponential or dp.NearestResponse"
    )
