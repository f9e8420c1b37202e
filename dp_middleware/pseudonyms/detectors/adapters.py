"""Detectors of other libraries, and several as one, each in one line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any

from dp_middleware.errors import ParameterError, library
from dp_middleware.models.chat import local_model
from dp_middleware.pseudonyms.detection import Entity, entities_of, pieces
from dp_middleware.pseudonyms.detectors.english import Presidio, checked
from dp_middleware.pseudonyms.labels import kind_of

Detector = Callable[[str], list[Entity]]

GLINER_LABELS = (  # what GLiNER is asked for by default
    "person organization location address email phone_number username date_of_birth iban "
    "credit_card_number social_security_number passport_number ip_address account_number"
)
_READ = 1_200  # characters that GLiNER, or a chat model, is shown at once
_ASK = (
    "List every name of a person, organisation or place, every contact, address, date of birth, "
    "user name, password and identifying number in the text. Answer with a JSON list of objects "
    '{"text": exact words of the text, "kind": one of person, organisation, place, address, email, '
    "phone, username, id, date, secret}. Answer [] if there are none.\n\nText:\n"
)


def transformers(name: str, **options: Any) -> Any:
    """Makes a pipeline of transformers for labels of tokens, of the name or folder of a model."""
    make = library("transformers", "models").pipeline
    return make("token-classification", model=name, **{"aggregation_strategy": "simple"} | options)


def gliner(model: Any, labels: Iterable[str] | None = None, threshold: float = 0.4) -> Detector:
    """A model of GLiNER or GLiNER2.

    Args:
        model: The loaded model, or the name of one of GLiNER.
        labels: What it is asked for, in words; default :data:`GLINER_LABELS`.
        threshold: Least score of a result.
    """
    if isinstance(model, str):
        model = library("gliner", "").GLiNER.from_pretrained(model)
    asked = [each.replace("_", " ") for each in labels or GLINER_LABELS.split()]

    def results(text: str) -> Iterator[Entity]:
        if hasattr(model, "predict_entities"):
            for found in model.predict_entities(text, asked, threshold=threshold):
                yield Entity(found["start"], found["end"], kind_of(found["label"]))
            return
        answer = model.extract_entities(text, asked, threshold=threshold)
        for label, values in answer.get("entities", answer).items():
            for value in values:
                yield from _places(text, value, kind_of(label))

    return in_pieces(results)


def spacy(name: str) -> Any:
    """Loads a pipeline of spaCy that is installed, such as ``"de_core_news_sm"``."""
    library("spacy", "presidio")
    try:
        return import_module(checked(name)).load()
    except ImportError:
        raise ParameterError(f"expected an installed model of spaCy, got {name!r}") from None


def presidio(engine: Any = None) -> Any:
    """Presidio: an ``AnalyzerEngine`` of yours, as it is, or one for English on spaCy's model."""
    return Presidio() if engine is None else engine


def union(*detectors: Any) -> Detector:
    """What any of several detectors finds."""
    if not detectors:
        raise ParameterError("expected at least one detector, got none")

    def detect(text: str) -> list[Entity]:
        return [entity for each in detectors for entity in entities_of(text, each)]

    return _whole(detect)


def chat_model(local: Any, *, trusted_hosts: Iterable[str] = ()) -> Detector:
    """A local chat model that is asked for a list, of which only words of the text count.

    Args:
        local: As of :func:`dp_middleware.chat_model`, or from there; it reads raw text.
        trusted_hosts: Hosts that may see raw text, beside this computer.

    Raises:
        UntrustedHost: It runs elsewhere.
        ParameterError: At a text: its answer is no list, so that nothing would be found.
    """
    chat = local_model(local, trusted_hosts)

    def results(text: str) -> Iterator[Entity]:
        answer = chat([{"role": "user", "content": _ASK + text}])
        listed = re.search(r"\[.*\]", answer, re.DOTALL)
        try:
            values = json.loads(listed.group() if listed else answer)
            for value in values:
                yield from _places(text, value["text"], kind_of(value["kind"]))
        except (ValueError, TypeError, KeyError):
            raise ParameterError("expected a JSON list of entities from the chat model") from None

    return in_pieces(results)


def in_pieces(results: Callable[[str], Iterable[Entity]]) -> Detector:
    """A detector that shows a long text to a function in pieces that overlap."""

    def detect(text: str) -> list[Entity]:
        return [
            Entity(offset + start, offset + end, kind)
            for offset, piece in pieces(text, _READ)
            for start, end, kind in results(piece)
        ]

    return _whole(detect)


def _whole(detect: Detector) -> Detector:
    detect.reads_whole_texts = True  # type: ignore[attr-defined]
    return detect


def _places(text: str, value: Any, kind: str) -> Iterator[Entity]:
    """Where a text has a value: at the offsets it gives, or everywhere."""
    if isinstance(value, Mapping):
        if "start" in value and "end" in value:
            yield Entity(value["start"], value["end"], kind)
            return
        value = value["text"]
    words = r"\s+".join(map(re.escape, value.split()))
    for match in re.finditer(words, text, re.IGNORECASE) if words else ():
        yield Entity(*match.span(), kind)
