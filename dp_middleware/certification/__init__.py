"""Exact and analytic certificates, calibration and audits."""

from dp_middleware.certification.auditing import audit
from dp_middleware.certification.calibration import calibrate
from dp_middleware.certification.certificates import certify

__all__ = ["audit", "calibrate", "certify"]
