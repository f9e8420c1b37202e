"""Exact and analytic certificates, calibration, audits and privacy profiles."""

from dp_middleware.certification.auditing.audit import audit
from dp_middleware.certification.calibration import calibrate
from dp_middleware.certification.certificates import certify
from dp_middleware.certification.curves import DeltaCurve, bounded_range, delta_curve, zcdp

__all__ = [
    "DeltaCurve",
    "audit",
    "bounded_range",
    "calibrate",
    "certify",
    "delta_curve",
    "zcdp",
]
