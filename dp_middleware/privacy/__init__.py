"""Guarantees, certificates and their adjacency."""

from dp_middleware.privacy.certificate import Certificate, Method, Unit, Witness
from dp_middleware.privacy.conversions import (
    approx_of_zcdp,
    zcdp_of_bounded_range,
    zcdp_of_pure,
)
from dp_middleware.privacy.guarantee import (
    Adjacency,
    ApproxDP,
    Guarantee,
    MetricDP,
    NoGuarantee,
    PureDP,
)

__all__ = [
    "Adjacency",
    "ApproxDP",
    "Certificate",
    "Guarantee",
    "Method",
    "MetricDP",
    "NoGuarantee",
    "PureDP",
    "Unit",
    "Witness",
    "approx_of_zcdp",
    "zcdp_of_bounded_range",
    "zcdp_of_pure",
]
