"""What detectors call the kinds of entity, and can find, and what they are called here."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from dp_middleware.errors import ParameterError
from dp_middleware.pseudonyms.cues import CUES

# kinds whose pattern is checked, by a checksum, a public list or their own signs
VALIDATED = frozenset({"email", "url", "phone", "iban", "card", "ssn", "ip"})
# kinds that words beside a value tell, which a model of names takes for a date or a name
CONTEXTUAL = frozenset({"address", "age", "amount", "id", "username", "zip"})
# kinds by which a number names somebody or something
IDENTIFYING = frozenset({"id", "phone", "card", "ssn", "iban", "zip", "username", "secret"})
_LABELS: Mapping[str, str] = CUES["labels"]  # by kind
# the kind of each known label; any other label is a kind of its own, in lower case
KIND_OF_LABEL: Mapping[str, str] = MappingProxyType(
    {label: kind for kind, labels in _LABELS.items() for label in labels.split()}
)
_JOINED = {label.replace("_", ""): kind for label, kind in KIND_OF_LABEL.items()}
_NUMBERED = re.compile(r"(?:^|_)(?:NUMBER|NUM|NO|ID|CODE|IDENTIFIER)$")
_BIRTH = re.compile(r"(?:^|_)(?:BIRTH|DATE)(?:_|$)")


@lru_cache(maxsize=1024)
def kind_of(label: Hashable) -> str:
    """Returns the kind that a detector means by a label, such as ``"person"`` for ``"B-PER"``."""
    if not isinstance(label, str) or not label.strip():
        raise ParameterError(f"expected a kind as a str, got a {type(label).__name__}")
    names = [re.sub(r"[\W_]+", "_", each.strip()).strip("_") for each in (label, label.strip()[2:])]
    is_part = re.match(r"[BIESLU]-", label.strip()) and names[0].upper() not in KIND_OF_LABEL
    name = (names[1] if is_part else names[0]).upper()
    known = KIND_OF_LABEL.get(name) or _JOINED.get(name.replace("_", ""))
    if known is None and _NUMBERED.search(name):
        return "id"  # "health insurance number" of a model that takes any label
    return known or ("date" if _BIRTH.search(name) else name.lower())


KNOWN = tuple(_LABELS)  # all kinds that have a name of their own: surely no other under another


def refuse_slips(kinds: Collection[str]) -> None:
    """Refuses a kind that is spelled almost as one of the table: nothing of that would be found."""
    for kind in sorted({*kinds} - {*KNOWN}):
        if near := get_close_matches(kind, _LABELS, n=1, cutoff=0.8):
            raise ParameterError(f"expected a kind, got {kind!r}; did you mean {near[0]!r}?")


def kinds_of(labels: Collection[str]) -> frozenset[str]:
    """The kinds that are asked for; one str, or none, is refused."""
    kinds = frozenset() if isinstance(labels, str) else frozenset(map(kind_of, labels))
    if not kinds:
        raise ParameterError("expected a collection of kinds, such as {'person', 'email'}")
    return kinds


def labels_of_analyzer(analyzer: Any, language: str) -> set[str] | None:
    """Lists what a Presidio analyzer, with its model, can find; ``None``: it does not say."""
    if not hasattr(analyzer, "get_recognizers"):
        return None
    engine: Any = getattr(analyzer, "nlp_engine", None)
    pipeline = (getattr(engine, "nlp", None) or {}).get(language)
    labels = labels_of_pipeline(pipeline) if hasattr(pipeline, "pipe_names") else None
    able = set[str]()
    for recognizer in analyzer.get_recognizers(language):
        entities = set(recognizer.get_supported_entities())
        bases = {base.__name__ for base in type(recognizer).__mro__}
        if labels is not None and "SpacyRecognizer" in bases:
            renamed = engine.ner_model_configuration.model_to_presidio_entity_mapping
            entities &= {renamed.get(label, label) for label in labels}
        able |= entities
    return able


def labels_of_pipeline(pipeline: Any) -> set[str] | None:
    """Lists labels of named entities of a spaCy ``Language``; ``None``: a part does not say."""
    labels = set[str]()
    for name in pipeline.pipe_names:
        meta = pipeline.get_pipe_meta(name)
        if meta.retokenizes or (meta.assigns and "doc.ents" not in meta.assigns):
            continue  # it finds other things
        known = getattr(pipeline.get_pipe(name), "labels", None)
        if known is None:
            return None
        labels.update(known)
    return labels
