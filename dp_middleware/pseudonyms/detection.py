"""Which characters of a text are entities, and of which kind, from whatever detector finds them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from operator import index
from typing import Any, NamedTuple

from dp_middleware._quiet import unrecorded
from dp_middleware.errors import ParameterError
from dp_middleware.pseudonyms.labels import (
    CONTEXTUAL,
    IDENTIFYING,
    VALIDATED,
    entities_of_analyzer,
    is_known,
    kind_of,
    kinds_of,
    labels_of_pipeline,
)
from dp_middleware.pseudonyms.structured import Value, View
from dp_middleware.sanitizers.spans import PART, name_of

# characters that
PIECE = 10_000  # a pipeline reads at once: time and memory grow with their number alone
WINDOW = 1_000  # a function is shown at once beside the whole text: a model may cut that short
OVERLAP = 200  # are read again, so that what a cut goes through is seen as a whole


class Entity(NamedTuple):
    """Characters of a text that name something."""

    start: int
    end: int
    kind: str  # what they name, such as "person", public


def entities_of(text: str, detector: Any, kinds: Collection[str] | None = None) -> list[Entity]:
    """Returns the entities of a text, sorted and disjoint, without blanks at their ends.

    Where results overlap, a secret wins, then a kind whose pattern is checked (an e-mail address,
    an IBAN), then one that words beside it tell (an age, an id), the longest, the first. What
    sticks out of a loser stays an entity of its own kind, so every character that was detected,
    and is no blank at an end, is in one entity.

    Args:
        text: Private.
        detector: A function from a text to results: ``(start, end, kind)``, dicts of GLiNER and
            of Hugging Face's pipelines, Presidio's results, spaCy's spans or its ``Doc``. Also a
            spaCy ``Language``, a Presidio ``AnalyzerEngine`` or a pipeline of transformers itself.
            Long texts are read in pieces that overlap, by a function also as a whole, as many
            models cut a text short without a word. It reads raw text here; what it logs by
            installed packages is dropped.
        kinds: The kinds to find; default all that the detector returns.

    Raises:
        ParameterError: The detector failed, returned something else or a place outside of the
            text, cannot find one of ``kinds``, or has a label that may be one of them under
            another name; quotes nothing of the text.
    """
    wanted = None if kinds is None else kinds_of(kinds)
    read, labels = _reader(detector)
    if labels is not None:
        _check_able(detector, labels, wanted)
    failure = ""
    try:
        with unrecorded():
            results = list(read(text)) if text else []
    except Exception as error:
        failure = type(error).__name__
    if failure:
        raise ParameterError(
            f"expected entities (start, end, kind) from {_name(detector)}, it failed with "
            f"{failure}, whose message may quote the text; call it on a public text"
        )
    if not all(0 <= each.start <= each.end <= len(text) for each in results):
        raise ParameterError(
            f"expected entities inside the text of {len(text)} characters, got one outside from "
            f"{_name(detector)}; count characters from 0, the end is behind the last"
        )
    if wanted is not None:
        _check_labels(text, detector, wanted, {each.kind for each in results})
        results = [each for each in results if each.kind in wanted]
    return _disjoint(text, results)


def entities_in(
    view: View, detector: Any, kinds: Collection[str] | None = None, always: Collection[str] = ()
) -> tuple[View, list[Entity]]:
    """Returns the entities of a view, by what its text says and by where its values stand.

    A number of JSON that is no identifier, by its kind or by its key, stays as it is, unless its
    kind was asked for, or is ``always`` replaced; one that is has the kind ``"id"``, and so has a
    string of digits. Where an entity goes over the end of a part of a message, the sign between the
    parts is missing in the view that is returned.
    """
    for place in [match.start() for match in re.finditer(PART, view.text)][::-1]:
        before = view.text[max(0, place - OVERLAP) : place]
        around = before + view.text[place + 1 : place + 1 + OVERLAP].replace(PART, "\n")
        found = entities_of(around, detector, kinds)
        if any(start < len(before) < end for start, end, _ in found):
            view = view.without(place)
    text = view.text.replace(PART, "\n")
    entities = entities_of(text, detector, kinds) if text.strip() else []
    if not view.values:
        return view, entities
    wanted = None if kinds is None else kinds_of(kinds)
    kept, named = [], set[Value]()
    for entity in entities:
        value = view.value_at(entity.start, entity.end)
        if (
            value is None
            or not (value.bare or value.identifies)
            or (wanted is not None and entity.kind in wanted - IDENTIFYING)
            or entity.kind in always
        ):
            kept.append(entity)
        elif value.identifies or entity.kind in IDENTIFYING:
            named.add(value)
    if wanted is None or "id" in wanted:
        named |= {value for value in view.values if value.identifies}
    taken = {view.value_at(start, end) for start, end, _ in kept}
    kept += [Entity(value.start, value.end, "id") for value in named - taken]
    return view, sorted(kept)


def pieces(text: str, size: int = PIECE) -> Iterator[tuple[int, str]]:
    """A text in pieces with their offsets; each begins behind a blank, if there is one near."""
    start, overlap = 0, min(OVERLAP, size // 4)
    while start + size + overlap < len(text):
        cut = start + size
        blanks = (k + 1 for k in range(cut - 1, cut - overlap - 1, -1) if text[k].isspace())
        cut = next(blanks, cut)
        yield start, text[start : cut + overlap]
        start = cut
    yield start, text[start:]


def pieces_for(text: str, tokenizer: Any, limit: int) -> Iterator[tuple[int, str]]:
    """A text in pieces that a model of at most so many tokens reads to their end."""
    size = 4 * limit
    while size > 8 and any(len(tokenizer(p)["input_ids"]) > limit for _, p in pieces(text, size)):
        size //= 2
    return pieces(text, size)


def _reader(detector: Any) -> tuple[Callable[[str], Iterable[Entity]], Iterable[str] | None]:
    """How a detector reads a text, and the labels that it can find, where it says."""
    if not callable(detector) and callable(getattr(detector, "analyze", None)):
        language = str(next(iter(getattr(detector, "supported_languages", ())), "en"))
        analyze = partial(detector.analyze, language=language)
        return (
            lambda text: _of_pieces(lambda piece: analyze(text=piece), pieces(text)),
            entities_of_analyzer(detector, language),
        )
    if not callable(detector):
        kind = type(detector).__name__
        raise ParameterError(f"expected a detector, such as a function, got {kind}")
    if hasattr(detector, "pipe_names") and hasattr(detector, "vocab"):
        return lambda text: _of_pieces(detector, pieces(text)), labels_of_pipeline(detector)
    if hasattr(detector, "tokenizer") and hasattr(detector, "model"):  # of transformers
        limit = min(int(detector.tokenizer.model_max_length), PIECE)
        labels = detector.model.config.id2label.values()
        return (
            lambda text: _of_pieces(detector, pieces_for(text, detector.tokenizer, limit)),
            {label for label in labels if label != "O"},
        )
    return partial(_of_function, detector), None


def _of_pieces(detector: Any, pieces: Iterable[tuple[int, str]]) -> Iterator[Entity]:
    for offset, piece in pieces:
        for start, end, kind in _read(detector, piece):
            yield Entity(offset + start, offset + end, kind)


def _of_function(detector: Any, text: str) -> Iterator[Entity]:
    yield from _read(detector, text)
    if len(text) > WINDOW + OVERLAP and not getattr(detector, "reads_whole_texts", False):
        for offset, piece in pieces(text, WINDOW):
            parts = _read(detector, piece)
            if any(part.end > len(piece) for part in parts):
                return  # it does not read what it is given
            yield from (Entity(offset + a, offset + b, kind) for a, b, kind in parts)


def _read(detector: Any, text: str) -> list[Entity]:
    results = detector(text)
    return [_entity(result) for result in getattr(results, "ents", results)]


def _check_able(detector: Any, labels: Iterable[str], wanted: frozenset[str] | None) -> None:
    """Nothing is asked for that a pipeline can never find."""
    able = {kind_of(label) for label in labels}
    missing = sorted((wanted or frozenset()) - able)
    if missing or not able:
        raise ParameterError(
            f"expected a detector that can find {', '.join(missing or ['entities'])}, "
            f"{_name(detector)} has no component for it; load a model with named entities, or "
            "ask for other kinds"
        )


def _check_labels(text: str, detector: Any, wanted: frozenset[str], kinds: set[str]) -> None:
    """No result has a label that might mean what is asked for, and would be passed over."""
    unknown = sorted(kind for kind in kinds - wanted if not is_known(kind))
    public = [kind for kind in unknown if kind not in text.casefold()]
    if unknown:
        raise ParameterError(
            f"expected labels that are known kinds from {_name(detector)}, as kinds= asks for "
            f"{', '.join(sorted(wanted))}, got {', '.join(public) or 'others'}; let it return "
            "known labels, such as 'person', or ask for these kinds too"
        )


def _entity(result: Any) -> Entity:
    """From one result of any of the known forms."""
    if isinstance(result, Mapping):
        names = [name for name in ("label", "entity_group", "entity") if name in result]
        start, end, label = result["start"], result["end"], result[names[0]]
    elif hasattr(result, "start_char"):  # spaCy counts tokens in start and end
        start, end, label = result.start_char, result.end_char, result.label_
    elif hasattr(result, "entity_type"):
        start, end, label = result.start, result.end, result.entity_type
    else:
        start, end, label = result
    return Entity(index(start), index(end), kind_of(label))


def _disjoint(text: str, results: Iterable[Entity]) -> list[Entity]:
    """Of characters that several results claim, the strongest has all."""
    claims = [_trimmed(text, *each) for each in results]
    claims.sort(key=lambda each: (_rank(each.kind), each.start - each.end, each))
    taken, entities = bytearray(len(text)), []
    for start, end, kind in claims:
        while (start := taken.find(0, start, end)) >= 0:
            stop = taken.find(1, start, end)
            stop = end if stop < 0 else stop
            taken[start:stop] = bytes([1]) * (stop - start)
            entities.append(_trimmed(text, start, stop, kind))
            start = stop
    return sorted(each for each in entities if each.start < each.end)


def _rank(kind: str) -> int:
    return -1 if kind == "secret" else 0 if kind in VALIDATED else 1 if kind in CONTEXTUAL else 2


def _trimmed(text: str, start: int, end: int, kind: str) -> Entity:
    kept = text[start:end].rstrip()
    end = start + len(kept)
    return Entity(end - len(kept.lstrip()), end, kind)


def _name(detector: Any) -> str:
    return f"the detector {name_of(detector)}"
