"""The detector that is used unless another one is given: patterns, keys, and a model."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal, get_args

from dp_middleware import _validate
from dp_middleware.errors import MissingExtra, ParameterError
from dp_middleware.pseudonyms.cues import words
from dp_middleware.pseudonyms.detection import Entity
from dp_middleware.pseudonyms.detectors import words as public_lists
from dp_middleware.pseudonyms.detectors.model import KINDS as MODELLED, Tagger
from dp_middleware.pseudonyms.detectors.words import Listed, ascii_of, lists_of
from dp_middleware.pseudonyms.labels import kinds_of
from dp_middleware.pseudonyms.secrets import PUBLIC, secrets_in

Strictness = Literal["precise", "balanced", "safe"]

KINDS = words("kinds")  # what is looked for unless other kinds are asked for
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
    _validate.one_of((None, *public_lists.LANGUAGES), language=language)
    wanted = KINDS if kinds is None else kinds_of(kinds)
    if unknown := sorted(wanted - KINDS):
        raise ParameterError(
            f"expected kinds out of {', '.join(sorted(KINDS))}, got {', '.join(unknown)}; for "
            "others give a detector of your own"
        )
    return Detector(wanted, strictness, language)


@dataclass(frozen=True)
class Detector:
    """Finds the entities of a text; as of :func:`default`. Holds no text."""

    kinds: frozenset[str]
    strictness: Strictness = "balanced"
    language: str | None = None

    reads_whole_texts = True

    def __call__(self, text: str) -> list[Entity]:
        """What is found, which may overlap."""
        if not text.strip():
            return []
        from dp_middleware.pseudonyms.detectors import patterns  # needs the extra

        language = self.language or public_lists.language_of(text)
        claims = [*patterns.matches(text), *patterns.fields(text), *patterns.spoken(text)]
        claims += secrets_in(text) if "secret" in self.kinds else ()
        public = {place for match in PUBLIC.finditer(text) for place in range(*match.span())}
        claims = [each for each in claims if each.kind != "id" or each.start not in public]
        if not self.kinds.isdisjoint(MODELLED):
            read = {(e.kind, k) for e in claims if e.kind in _READ for k in range(e.start, e.end)}
            claims += [
                each
                for each in Tagger(_THRESHOLDS[self.strictness], language)(text)
                if not (each.start in public and each.kind in ("id", "secret"))
                and not _is_read(text, each, read)
                and not (each.end - each.start == 1 and text[each.start].islower())  # for k in ...
                and not _NOBODY.issuperset(text[each.start : each.end].lower().split())
            ]
        if "person" in self.kinds:
            claims += patterns.by_script(text)
            claims += mentions(text, claims, language)
        return [each for each in claims if each.kind in self.kinds]


def _is_read(text: str, entity: Entity, read: set[tuple[str, int]]) -> bool:
    """Whether patterns have read what the model found about, which may have a word more."""
    places = {(entity.kind, k) for k in range(entity.start, entity.end)}
    return not read.isdisjoint(places) and all(
        place in read for place in places if text[place[1]].isdecimal()
    )


_LEAST = 3  # letters of a part of a name that stands for it
_BEGIN = re.compile(r"(?:\A|[.!?:;\n|>•*#\"“(])[\s\"“„«'(\[*_¿¡-]*\Z")
_LETTERS = re.compile(r"[^\W\d_]+")
_NAME = Listed.GIVEN | Listed.FAMILY


def mentions(text: str, claims: Collection[Entity], language: str) -> Iterator[Entity]:
    """Yields words of a text that are parts of the names of its people, in any case of letters.

    A part that is a word too is one only with a capital letter within a sentence. A capital word
    may have an s behind the name: "the Soods", "Annas Brief".
    """
    parts = {
        ascii_of(part.lower())
        for start, end, kind in claims
        if kind == "person"
        for part in _LETTERS.findall(text[start:end])
        if len(part) >= _LEAST and not lists_of(part.lower(), language) & Listed.FREQUENT
    }
    for match in _LETTERS.finditer(text) if parts else ():
        word = ascii_of(match.group().lower())
        if word not in parts and match.group()[0].isupper():
            word = word.removesuffix("s")
        if word in parts and not _is_word(text, match, language):
            yield Entity(*match.span(), "person")


def _is_word(text: str, match: re.Match[str], language: str) -> bool:
    """Whether a part of a name is a word here: "hope", or "Will you ..." at a sentence's begin."""
    word, start = match.group().lower(), match.start()
    found = lists_of(word, language)
    is_name = found & _NAME and not found & Listed.ORDINARY
    if is_name or not any(word in public_lists.common(each) for each in (language, "en")):
        return False
    is_noun = language == "de" and not found & _NAME
    begins = _BEGIN.search(text, max(0, start - 8), start) is not None
    return match.group().islower() or is_noun or begins
