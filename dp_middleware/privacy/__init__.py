"""Guarantees, certificates and their adjacency."""

from dp_middleware.privacy.certificate import Certificate, Method, Unit, Witness
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
]
