"""Detectors: our own, and those of other libraries in one line each."""

from dp_middleware.pseudonyms.detectors.adapters import (
    chat_model,
    gliner,
    presidio,
    spacy,
    transformers,
    union,
)
from dp_middleware.pseudonyms.detectors.model import Tagger as rampart
from dp_middleware.pseudonyms.detectors.ours import default

# fmt: off
__all__ = [
    "chat_model", "default", "gliner", "presidio", "rampart", "spacy", "transformers", "union",
]
# fmt: on
