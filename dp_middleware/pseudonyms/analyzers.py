"""What an analyzer of Presidio and a pipeline of spaCy are able to find."""

from __future__ import annotations

from typing import Any

# fmt: off
_NAMELESS = frozenset({
    "tok2vec", "transformer", "curated_transformer", "tagger", "parser", "senter", "sentencizer",
    "attribute_ruler", "lemmatizer", "trainable_lemmatizer", "morphologizer", "textcat",
    "textcat_multilabel", "spancat", "spancat_singlelabel", "entity_linker", "merge_entities",
    "merge_noun_chunks",
})
# fmt: on
"""Components of spaCy that find no named entities."""


def entities_of_analyzer(analyzer: Any, language: str) -> frozenset[str] | None:
    """Lists what a Presidio analyzer can find; ``None`` where it does not say.

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
    """Lists labels of named entities of a spaCy ``Language``; ``None``: a part does not say."""
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
