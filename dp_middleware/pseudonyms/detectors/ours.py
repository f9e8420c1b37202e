"""The detector that is used unless another one is given: patterns, keys, and a model."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal, get_args

from dp_middleware import _validate
from dp_middleware.errors import MissingExtra, ParameterError
from dp_middleware.pseudonyms.detection import Entity
from dp_middleware.pseudonyms.detectors.cues import words
from dp_middleware.pseudonyms.detectors.fields import fields
from dp_middleware.pseudonyms.detectors.mentions import mentions
from dp_middleware.pseudonyms.detectors.model import KINDS as MODELLED, Tagger
from dp_middleware.pseudonyms.detectors.spoken import spoken
from dp_middleware.pseudonyms.detectors.words import LANGUAGES, language_of
from dp_middleware.pseudonyms.labels import kinds_of
from dp_middleware.pseudonyms.secrets import PUBLIC, secrets_in

Strictness = Literal["precise", "balanced", "safe"]

KINDS = words("kinds")
"""What is looked for unless other kinds are asked for."""

_NOBODY = words("greetings")
_READ = frozenset({"date", "amount", "age", "username"})
_THRESHOLDS = {"precise": 0.5, "balanced": 0.25, "safe": 0.05}


def default(
    kinds: Collection[str] | None = None,
    strictness: Strictness = "balanced",
    language: str | None = None,
) -> Detector:
    """Makes a detector for eight languages; it loads its lists and its model at the first text.

    **What it misses goes out as it is.** Everything runs in this process: nothing is fetched.

    Args:
        kinds: What to look for, such as ``{"person", "email"}``; default :data:`KINDS`. ZIP codes,
            cards, IBANs, social security numbers and IP addresses are found by patterns alone.
        strictness: How sure the model must be: ``"precise"``, ``"balanced"``, or ``"safe"``, which
            also takes words that are nobody's.
        language: Of the texts: ``"en"``, ``"de"``, ``"fr"``, ``"es"``, ``"it"``, ``"pt"``,
            ``"nl"`` or ``"pl"``; default what each text's own words tell. In other languages
            contacts, ids and numbers are found, and few names.

    Raises:
        MissingExtra: The extra ``detect`` is not installed.
        ParameterError: Another language, or a kind that it cannot find.
    """
    for package in ("onnxruntime", "stdnum"):
        if find_spec(package) is None:
            raise MissingExtra(package, "detect")
    _validate.one_of(get_args(Strictness), strictness=strictness)
    if language is not None:
        _validate.one_of(LANGUAGES, language=language)
    wanted = KINDS if kinds is None else kinds_of(kinds)
    if unknown := sorted(wanted - KINDS):
        raise ParameterError(
            f"expected kinds out of {', '.join(sorted(KINDS))}, got {', '.join(unknown)}; for "
            "others give a detector of your own"
        )
    return Detector(wanted, strictness, language)


@dataclass(frozen=True)
class Detector:
    """From a text to its entities. Holds no text: lists and model are one for the process.

    Attributes:
        kinds: What it looks for.
        strictness: How sure the model must be.
        language: Of all texts; ``None``: of each its own.
    """

    kinds: frozenset[str]
    strictness: Strictness = "balanced"
    language: str | None = None

    reads_whole_texts = True

    def __call__(self, text: str) -> list[Entity]:
        """What is found, which may overlap."""
        if not text.strip():
            return []
        from dp_middleware.pseudonyms.detectors import patterns  # needs the extra

        language = self.language or language_of(text)
        claims = [*patterns.matches(text), *fields(text), *spoken(text)]
        claims += secrets_in(text) if "secret" in self.kinds else ()
        public = _marked(text, (match.span() for match in PUBLIC.finditer(text)))
        claims = [each for each in claims if each.kind != "id" or not public[each.start]]
        if not self.kinds.isdisjoint(MODELLED):
            read = {
                kind: _marked(text, (e[:2] for e in claims if e.kind == kind)) for kind in _READ
            }
            claims += [
                each
                for each in Tagger(_THRESHOLDS[self.strictness], language)(text)
                if not (public[each.start] and each.kind in ("id", "secret"))
                and not (each.kind in _READ and _is_read(text, each, read[each.kind]))
                and not (each.end - each.start == 1 and text[each.start].islower())  # for k in ...
                and not _NOBODY.issuperset(text[each.start : each.end].lower().split())
            ]
        if "person" in self.kinds:
            claims += patterns.by_script(text)
            claims += mentions(text, claims, language)
        return [each for each in claims if each.kind in self.kinds]


def _marked(text: str, spans: Iterable[tuple[int, int]]) -> bytearray:
    """For each character of a text whether it is in a span."""
    marks = bytearray(len(text))
    for start, end in spans:
        marks[start:end] = bytes([1]) * (end - start)
    return marks


def _is_read(text: str, entity: Entity, read: bytearray) -> bool:
    """Whether patterns have read what the model found about, which may have a word more."""
    places = range(entity.start, entity.end)
    return any(read[k] for k in places) and all(read[k] for k in places if text[k].isdecimal())
