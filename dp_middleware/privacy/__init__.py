"""Guarantees, certificates and their adjacency."""

from dp_middleware.privacy.certificate import (
    Certificate as Certificate,
    Method as Method,
    Unit as Unit,
    Witness as Witness,
)
from dp_middleware.privacy.guarantee import (
    Adjacency as Adjacency,
    ApproxDP as ApproxDP,
    Guarantee as Guarantee,
    MetricDP as MetricDP,
    NoGuarantee as NoGuarantee,
    PureDP as PureDP,
)
