"""Pseudonyms: readable text, exact inside public kinds, and answers with the originals restored."""

from dp_middleware.pseudonyms.detection import Entity, entities_of
from dp_middleware.pseudonyms.detectors import default as default_detector
from dp_middleware.pseudonyms.pseudonyms import Pseudonyms
from dp_middleware.pseudonyms.releasing import PseudonymSession

__all__ = ["Entity", "PseudonymSession", "Pseudonyms", "default_detector", "entities_of"]
