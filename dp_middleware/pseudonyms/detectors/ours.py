"""The detector that is used unless another one is given: patterns, keys, lists, a model."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal, get_args

from dp_middleware import _validate
from dp_middleware.errors import MissingExtra, ParameterError
from dp_middleware.pseudonyms.detection import Entity
from dp_middleware.pseudonyms.detectors.adjoining import adjoining
from dp_middleware.pseudonyms.detectors.codes import codes, is_public
from dp_middleware.pseudonyms.detectors.cues import GREETINGS, alternatives, words
from dp_middleware.pseudonyms.detectors.fields import fields
from dp_middleware.pseudonyms.detectors.mentions import mentions
from dp_middleware.pseudonyms.detectors.model import Rampart, windows
from dp_middleware.pseudonyms.detectors.names import NameLists
from dp_middleware.pseudonyms.detectors.spoken import spoken
from dp_middleware.pseudonyms.detectors.unlisted import unlisted
from dp_middleware.pseudonyms.detectors.words import (
    LANGUAGES,
    WORD,
    Class,
    class_of,
    is_frequent,
    language_of,
)
from dp_middleware.pseudonyms.labels import kinds_of
from dp_middleware.pseudonyms.secrets import PUBLIC, secrets_in

Strictness = Literal["precise", "balanced", "safe"]

KINDS = words("kinds")
"""What is looked for unless other kinds are asked for."""

_LEVELS = {"precise": 0, "balanced": 1, "safe": 2}
_THRESHOLDS = {"precise": 0.85, "balanced": 0.6, "safe": 0.3}
_OPEN = re.compile(r"(?<!\w)(?!\d\d:)[^\W_a-z](?:\w+(?P<number>,? \d{1,5}\b)?|\w+[^\S\n]\d)")
_KEY = re.compile(r"""[a-z][a-z0-9_]*(["'])\s*:""")
_SLICE = re.compile(r"\[\d*:?\Z")
_TITLE = re.compile(rf"(?:{alternatives('titles')})", re.IGNORECASE)


def default(
    kinds: Collection[str] | None = None,
    strictness: Strictness = "balanced",
    language: str | None = None,
) -> Detector:
    """Makes a detector for eight languages; it loads its lists and its model at the first text.

    **What it misses goes out as it is.** Everything runs in this process: nothing is fetched.

    Args:
        kinds: What to look for, such as ``{"person", "email"}``; default :data:`KINDS`.
        strictness: ``"precise"``: few other words are replaced; ``"balanced"``; ``"safe"``: what
            stays is common words, small numbers, measures and public forms.
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
        strictness: How much it takes for private.
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
        level = _LEVELS[self.strictness]
        names = NameLists(text, language, level)
        secrets = secrets_in(text) if "secret" in self.kinds else ()
        claims = [*secrets, *patterns.matches(text), *fields(text), *spoken(text)]
        claims += codes(text, claims)
        if self.kinds & {"person", "organisation", "place", "username", "address", "zip"}:
            claims += names.entities()
            claims += patterns.by_script(text)
            claims = [each for each in claims if _is_plausible(text, each, language)]
            claims += unlisted(text, names, claims)
            claims += adjoining(text, [*claims], names)
            found = self._by_model(text, names, claims)
            claims += [each for each in found if _is_plausible(text, each, language)]
        claims += mentions(text, claims, language, level)
        public = [match.span() for match in PUBLIC.finditer(text)]
        return [
            each
            for each in claims
            if each.kind in self.kinds
            and (each.kind != "id" or not any(a <= each.start < b for a, b in public))
        ]

    def _by_model(self, text: str, names: NameLists, claims: list[Entity]) -> Iterator[Entity]:
        """What the model finds in the windows in which lists leave anything open."""
        model = Rampart(_THRESHOLDS[self.strictness])
        parts = [(start, w) for start, w in windows(text) if _is_open(start, w, names, claims)]
        for start, end, kind in model.of_windows(parts):
            written = text[start:end]
            if kind == "person":
                start, end = _trimmed(text, start, end, names)
                if start == end:
                    continue
            elif (
                (kind in ("id", "phone", "zip") and sum(sign.isdigit() for sign in written) < 3)
                or (kind == "address" and _is_no_address(text, start, end, names, claims))
                or (kind == "place" and (written.islower() or len(written) < 3))
                or (kind == "place" and names.is_frequent(written.lower()))
                or kind in ("url", "email")
                or (kind == "id" and is_public(written))
            ):
                continue
            yield Entity(start, end, kind)


def _is_no_address(text: str, start: int, end: int, names: NameLists, claims: list[Entity]) -> bool:
    """Whether common words and short numbers, or digits in a date or a fraction, are no address."""
    written = text[start:end]
    if not any(map(str.isalpha, written)):
        dates = (each for each in claims if each.kind == "date")
        in_date = any(each.start <= start and end <= each.end for each in dates)
        return in_date or "/" in text[max(0, start - 1) : end + 1]
    if not written.islower():
        return not any(sign.isdigit() or sign.isupper() for sign in written)
    if re.search(r"\d{3}|[^\W\d_]{3,}\d", written):
        return False
    known = [class_of(word, names.language) for word in WORD.findall(written) if len(word) > 2]
    return max(known, default=Class.WORD) <= Class.BOTH  # "room b2 at 5pm"


def _trimmed(text: str, start: int, end: int, names: NameLists) -> tuple[int, int]:
    """Offsets of a name without titles and common words at its ends."""
    spans = [match.span() for match in WORD.finditer(text, start, end)]
    named = [k for k, (a, b) in enumerate(spans) if _may_name(text[a:b], names)]
    return (spans[named[0]][0], spans[named[-1]][1]) if named else (start, start)


def _may_name(word: str, names: NameLists) -> bool:
    """Tells whether a word of what the model takes for a name may begin or end it."""
    known = class_of(word.lower(), names.language)
    if (
        _TITLE.fullmatch(word)
        or word.lower() in GREETINGS
        or is_frequent(word.lower(), names.language)
    ):
        return False
    if not word[0].isupper():
        return known > (Class.COMMON if names.is_casual else Class.BOTH)
    return names.language != "de" or known > Class.WORD  # whose nouns have capitals


def _is_open(start: int, window: str, names: NameLists, claims: list[Entity]) -> bool:
    """Whether something is left open beside an address, or in what looks like a part of one."""
    end = start + len(window)
    claimed, is_near = bytearray(len(window)), False
    for each in claims:
        if each.start < end and start < each.end:
            a, b = max(each.start - start, 0), min(each.end - start, len(window))
            claimed[a:b] = bytes([1]) * (b - a)
            is_near |= each.kind in ("address", "zip")
    if is_near and names.is_casual:
        return True
    return any(
        not claimed[match.start()] and (is_near or match.lastgroup is not None)
        for match in _OPEN.finditer(window)
    )


def _is_plausible(text: str, entity: Entity, language: str) -> bool:
    """Whether an entity of names has a word that may be one, and one of digits is no slice."""
    start, end, kind = entity
    if kind == "zip":
        return not (_SLICE.search(text, max(0, start - 8), start) and text[end : end + 1] in "]:")
    if kind != "person":
        return True
    words = WORD.findall(text[start:end])
    if text[start - 1 : start] in ("'", '"') and _KEY.match(text, start):
        return any(class_of(word.lower(), language) > Class.UNKNOWN for word in words)
    return any(word[0].isupper() or class_of(word.lower(), language) > Class.WORD for word in words)
