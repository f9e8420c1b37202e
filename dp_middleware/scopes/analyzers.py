"""Spans of a Presidio analyzer, and what analyzers and pipelines are able to find."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from dp_middleware._quiet import unrecorded
from dp_middleware.errors import ParameterError
from dp_middleware.sanitizers.spans import Span

# fmt: off
_NAMELESS = frozenset({
    "tok2vec", "transformer", "curated_transformer", "tagger", "parser", "senter", "sentencizer",
    "attribute_ruler", "lemmatizer", "trainable_lemmatizer", "morphologizer", "textcat",
    "textcat_multilabel", "spancat", "spancat_singlelabel", "entity_linker", "merge_entities",
    "merge_noun_chunks",
})
# fmt: on
"""Components of spaCy that find no named entities."""


def presidio(
    analyzer: Any, *, language: str = "en", entities: Iterable[str] | None = None
) -> Callable[[str], list[Span]]:
    """Makes what a Presidio ``AnalyzerEngine`` finds private.

    **What the analyzer misses goes out as it is.** The guarantee holds for the spans that it
    finds; no recogniser finds all, and where it found something is public.

    Args:
        analyzer: Has ``analyze(text=..., language=..., entities=...)``, as Presidio's engine. It
            reads raw text, so it must run where raw text may go; what it logs is dropped.
        language: Of the texts.
        entities: Kinds to look for such as ``"PERSON"``; default all that it knows.

    Raises:
        ParameterError: There is no such method, ``entities`` is one str, or it has an entity that
            the analyzer cannot find, such as a name without a model of names.
    """
    if not callable(getattr(analyzer, "analyze", None)):
        raise ParameterError(
            f"expected an analyzer with analyze(), got {type(analyzer).__name__}; build a "
            "presidio_analyzer.AnalyzerEngine"
        )
    if isinstance(entities, str):
        raise ParameterError("expected a collection of entities, got one str")
    kinds = None if entities is None else list(entities)
    able = entities_of_analyzer(analyzer, language)
    missing = [] if able is None else sorted({*(kinds or ())} - able)
    if missing:
        raise ParameterError(
            f"expected entities that the analyzer can find, got {', '.join(missing)}: it has no "
            "recognizer for it, or its model has no named entities; load another model, or ask "
            "for other entities"
        )
    return partial(_presidio, analyzer, language, kinds)


def _presidio(analyzer: Any, language: str, kinds: list[str] | None, text: str) -> list[Span]:
    with unrecorded():
        results = analyzer.analyze(text=text, language=language, entities=kinds)
        return [Span(result.start, result.end) for result in results]


def entities_of_analyzer(analyzer: Any, language: str) -> frozenset[str] | None:
    """What a Presidio analyzer can find; None where it does not say.

    Its recognizer for names claims to find them whatever its model is: this asks the model.
    """
    if not hasattr(analyzer, "get_recognizers"):
        return None
    able: set[str] = set()
    for recognizer in analyzer.get_recognizers(language):
        entities = set(recognizer.get_supported_entities())
        known = _entities_of_model(analyzer.nlp_engine, language)
        able |= entities & known if _reads_model(recognizer) and known is not None else entities
    return frozenset(able)


def labels_of_pipeline(pipeline: Any) -> set[str] | None:
    """The labels of named entities in a spaCy ``Language``; None where a component does not say."""
    labels: set[str] = set()
    for name in pipeline.pipe_names:
        if pipeline.get_pipe_meta(name).factory in _NAMELESS:
            continue
        known = getattr(pipeline.get_pipe(name), "labels", None)
        if known is None:
            return None
        labels.update(known)
    return labels


def _reads_model(recognizer: Any) -> bool:
    return any(base.__name__ == "SpacyRecognizer" for base in type(recognizer).__mro__)


def _entities_of_model(engine: Any, language: str) -> set[str] | None:
    pipeline = (getattr(engine, "nlp", None) or {}).get(language)
    if pipeline is None or not hasattr(pipeline, "pipe_names"):
        return None
    labels = labels_of_pipeline(pipeline)
    if labels is None:
        return None
    renamed = engine.ner_model_configuration.model_to_presidio_entity_mapping
    return {renamed.get(label, label) for label in labels}
