"""Detectors: our own, and those of other libraries behind one line each."""

from dp_middleware.pseudonyms.detectors.ours import Detector, default
from dp_middleware.pseudonyms.detectors.rampart import Rampart

__all__ = ["Detector", "default", "Rampart"]
