"""Exact and analytic certificates, and calibration."""

from dp_middleware.certification.calibration import calibrate
from dp_middleware.certification.certificates import certify

__all__ = ["calibrate", "certify"]
