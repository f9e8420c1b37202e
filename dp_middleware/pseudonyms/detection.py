"""Which characters of a text are entities, and of which kind, from whatever detector finds them."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import index, itemgetter
from typing import Any, NamedTuple

from dp_middleware._forks import StaysHere
from dp_middleware._quiet import unrecorded
from dp_middleware.errors import ParameterError
from dp_middleware.pseudonyms.labels import (
    CONTEXTUAL,
    IDENTIFYING,
    KNOWN,
    VALIDATED,
    kind_of,
    kinds_of,
    labels_of_analyzer,
    labels_of_pipeline,
)
from dp_middleware.sanitizers.spans import PART, name_of

# characters that
PIECE = 10_000  # a pipeline reads at once: time and memory grow with their number alone
WINDOW = 1_000  # a function is shown at once beside the whole text: a model may cut that short
OVERLAP = 200  # are read again, so that what a cut goes through is seen as a whole
_RANKS = dict.fromkeys(CONTEXTUAL, 2) | dict.fromkeys(VALIDATED, 1) | {"secret": 0}
NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")  # of JSON
Starts = Sequence[int]  # where the signs of a text begin in the raw one


class Entity(NamedTuple):
    """Characters of a text that name something."""

    start: int
    end: int
    kind: str  # what they name, such as "person", public


class Value(NamedTuple):
    """A number of JSON, or a string of digits, by its place in the view."""

    start: int
    end: int
    bare: bool  # whether it is a number, without quotes
    identifies: bool  # whether its key says that it names somebody or something


@dataclass(frozen=True)
class View(StaysHere):
    """A private text as a reader sees it: in JSON without escapes."""

    raw: str = field(repr=False)
    text: str = field(repr=False)  # what is seen
    inner: str = field(repr=False)  # with NUL for signs between values of JSON, which end all names
    starts: Starts = field(repr=False)  # of each sign in the raw text, and its end
    depths: bytes = field(repr=False)  # how many strings of JSON each sign stands in
    values: tuple[Value, ...] = field(default=(), repr=False)
    is_plain: bool = False  # whether all is written as it is seen

    def slice(self, start: int, end: int) -> str:
        """Returns the raw text of a part of the view."""
        return self.raw[self.starts[start] : self.starts[end]]

    def spelled(self, written: str, start: int, end: int) -> str:
        """Returns what is written in a part of the view as it must be spelled there."""
        value = self.value_at(start, end)
        if value and value.bare and not NUMBER.fullmatch(written):
            written = json.dumps(written)
        for _ in range(self.depths[start]):
            written = json.dumps(written)[1:-1]
        return written + PART * self.slice(start, end).count(PART)

    def without(self, place: int) -> View:
        """Returns the same without one sign, which is then a part of what is written before it."""
        starts, behind = self.starts, place + 1
        return View(
            self.raw,
            self.text[:place] + self.text[behind:],
            self.inner[:place] + self.inner[behind:],
            [*starts[:place], *starts[behind:]],
            self.depths[:place] + self.depths[behind:],
            tuple(Value(a - (a > place), b - (a > place), *rest) for a, b, *rest in self.values),
        )

    def value_at(self, start: int, end: int) -> Value | None:
        """Returns the value that overlaps a part of the view."""
        k = bisect_left(self.values, end, key=itemgetter(0)) - 1
        return self.values[k] if k >= 0 and self.values[k].end > start else None


def plain_view(text: str) -> View:
    """Returns a text that is no JSON as a reader sees it."""
    starts, is_plain = range(len(text) + 1), PART not in text
    return View(text, text, text, starts, bytes(len(text)), is_plain=is_plain)


def entities_of(text: str, detector: Any, kinds: Collection[str] | None = None) -> list[Entity]:
    """Returns the entities of a text, sorted and disjoint, without blanks at their ends.

    Where results overlap, a secret wins, then a kind whose pattern is checked (an e-mail address),
    then one that words beside it tell (an age, an id), the longest, the first. What sticks out of a
    loser stays an entity of its own kind: all that was detected, but blanks, is in one entity.

    Args:
        text: Private; long ones are read in pieces that overlap, by a function also as a whole.
        detector: A function from a text to results: ``(start, end, kind)``, dicts of GLiNER and
            of Hugging Face's pipelines, Presidio's results, spaCy's spans or its ``Doc``. Also a
            spaCy ``Language``, a Presidio ``AnalyzerEngine`` or a pipeline of transformers itself.
            What it logs by installed packages is dropped.
        kinds: The kinds to find; default all that the detector returns.

    Raises:
        ParameterError: The detector failed, returned something else or a place outside of the
            text, cannot find one of ``kinds``, or has a label that may be one under another name.
    """
    wanted = None if kinds is None else kinds_of(kinds)
    read, labels = _reader(detector)
    able = None if labels is None else {kind_of(label) for label in labels}
    missing = [] if able is None else sorted((wanted or frozenset()) - able)
    if missing or able == set():
        raise ParameterError(
            f"expected a detector that can find {', '.join(missing or ['entities'])}, "
            f"{name_of(detector)} has no component for it; load a model with named entities, or "
            "ask for other kinds"
        )
    failure = ""
    try:
        with unrecorded():
            results = list(read(text)) if text else []
    except Exception as error:
        failure = type(error).__name__
    if failure:
        raise ParameterError(
            f"expected entities (start, end, kind) from the detector {name_of(detector)}, it "
            f"failed with {failure}, whose message may quote the text; call it on a public text"
        )
    if not all(0 <= each.start <= each.end <= len(text) for each in results):
        raise ParameterError(
            f"expected entities inside the text of {len(text)} characters, got one outside from "
            f"the detector {name_of(detector)}; count characters from 0, the end is behind the last"
        )
    if wanted is None:
        return _disjoint(text, results)
    # no label might mean what is asked for, and would be passed over
    if unknown := sorted({each.kind for each in results if each.kind not in KNOWN} - wanted):
        public = [kind for kind in unknown if kind not in text.casefold()]
        raise ParameterError(
            f"expected labels that are known kinds from the detector {name_of(detector)}, as "
            f"kinds= asks for {', '.join(sorted(wanted))}, got {', '.join(public) or 'others'}; "
            "let it return known labels, such as 'person', or ask for these kinds too"
        )
    return _disjoint(text, [each for each in results if each.kind in wanted])


def entities_in(
    view: View, detector: Any, kinds: Collection[str] | None = None, always: Collection[str] = ()
) -> tuple[View, list[Entity]]:
    """Returns the entities of a view; where one goes over the end of a part, without its sign.

    A number of JSON stays as it is, unless its kind was asked for or is ``always`` replaced; an
    identifier, by its kind or key, has the kind ``"id"``, and so has a string of digits.
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
    asked = {*always, *((wanted or frozenset()) - IDENTIFYING)}
    kept, named = [], set[Value]()
    for entity in entities:
        value = view.value_at(entity.start, entity.end)
        if value is None or entity.kind in asked or not (value.bare or value.identifies):
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


def _pieces_for(text: str, tokenizer: Any) -> Iterator[tuple[int, str]]:
    """A text in pieces that a model with this tokenizer reads to their end."""
    limit = min(int(tokenizer.model_max_length), PIECE)
    size = 4 * limit
    while size > 8 and any(len(tokenizer(p)["input_ids"]) > limit for _, p in pieces(text, size)):
        size //= 2
    return pieces(text, size)


def _reader(detector: Any) -> tuple[Callable[[str], Iterable[Entity]], Iterable[str] | None]:
    """How a detector reads a text, and the labels that it can find, where it says."""
    if not callable(detector) and callable(getattr(detector, "analyze", None)):
        language = str(next(iter(getattr(detector, "supported_languages", ())), "en"))
        analyze = lambda text: detector.analyze(text=text, language=language)  # noqa: E731
        return lambda t: _of_pieces(analyze, pieces(t)), labels_of_analyzer(detector, language)
    if not callable(detector):
        kind = type(detector).__name__
        raise ParameterError(f"expected a detector, such as a function, got {kind}")
    if hasattr(detector, "pipe_names") and hasattr(detector, "vocab"):
        return lambda text: _of_pieces(detector, pieces(text)), labels_of_pipeline(detector)
    if hasattr(detector, "tokenizer") and hasattr(detector, "model"):  # of transformers
        labels = set(detector.model.config.id2label.values()) - {"O"}
        return lambda text: _of_pieces(detector, _pieces_for(text, detector.tokenizer)), labels
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
    claims.sort(key=lambda each: (_RANKS.get(each.kind, 3), each.start - each.end, each))
    taken, entities = bytearray(len(text)), []
    for start, end, kind in claims:
        for first, behind in list(unmarked(taken, start, end)):
            taken[first:behind] = b"\1" * (behind - first)
            entities.append(_trimmed(text, first, behind, kind))
    return sorted(each for each in entities if each.start < each.end)


def covered(size: int, spans: Iterable[Sequence[Any]]) -> bytearray:
    """Marks the characters of spans in a text of a size."""
    marks = bytearray(size)
    for start, end, *_ in spans:
        marks[start:end] = b"\1" * (end - start)
    return marks


def unmarked(marks: bytearray, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yields what is not marked in a part of a text."""
    while (start := marks.find(0, start, end)) >= 0:
        behind = marks.find(1, start, end)
        yield start, (behind := end if behind < 0 else behind)
        start = behind


def _trimmed(text: str, start: int, end: int, kind: str) -> Entity:
    kept = text[start:end].rstrip()
    end = start + len(kept)
    return Entity(end - len(kept.lstrip()), end, kind)
