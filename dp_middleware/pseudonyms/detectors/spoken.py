"""Numbers, streets and e-mail addresses in words, as in dictated texts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dp_middleware.pseudonyms.detection import Entity
from dp_middleware.pseudonyms.detectors.cues import alternatives
from dp_middleware.pseudonyms.detectors.streets import KINDS

_LEAST = 4  # digits in a row that count nothing
_NUMBER = rf"(?:{alternatives('digits')}|{alternatives('tens')}|\d)"
_LETTER = r"[a-z] as in \w+"
_LETTERS = rf"(?:(?:plus|{_LETTER}|[a-z]) )*"
_BETWEEN = r"(?!(?:or|and|of|to|for|und|et|y|e|ou|o|en|i|lub|oder)\b)\w{2,}"
_NUMBERS = re.compile(
    rf"\b{_LETTERS}(?:{_NUMBER}(?:[ -]|, )(?:{_BETWEEN} )?{_LETTERS})"
    rf"{{{_LEAST - 1},}}{_NUMBER}\b",
    re.IGNORECASE,
)
_STREET = re.compile(
    rf"(?P<cue>\b(?:liv\w+ (?:at|on)|address is) )?\b(?P<street>(?:{_NUMBER}[ -]){{1,4}}"
    rf"(?:[^\W\d_]+ ){{1,3}}?(?:{KINDS})\b(?: (?:{KINDS})\b)?"
    rf"(?:,? (?:flat|apartment|apt|unit|number) {_NUMBER}\b)?)",
    re.IGNORECASE,
)
_COUNTED = re.compile(rf"\b(?:{alternatives('digits')}|{alternatives('tens')})\b")
_SEVERAL = re.compile(rf"(?:{_NUMBER}[ -]){{2}}", re.IGNORECASE)
_ATS = rf"(?:{alternatives('ats')})"
_AT = re.compile(rf"\b{_ATS}\b", re.IGNORECASE)
_DOT = rf"(?:{alternatives('dots')})"
_DOTTED = rf"(?:\s?[\[({{]\s?{_DOT}\s?[\])}}]\s?[\w-]+| {_DOT} [a-z]{{2,12}}\b)"
_MAIL = re.compile(
    rf"\b[\w.+-]+(?:{_DOTTED}| (?:underscore|dash|minus) [\w-]+)*"
    rf"(?:\s?[\[({{]\s?{_ATS}\s?[\])}}]\s?| {_ATS} )"
    rf"[\w.-]+{_DOTTED}*",
    re.IGNORECASE,
)
_ENDS = re.compile(rf"\b{_DOT}[\])}} ]+[a-z]{{2,6}}\Z|[\])}}].*\.[a-z]{{2,6}}\Z", re.IGNORECASE)


def spoken(text: str) -> Iterator[Entity]:
    """Yields numbers of four digits or more, streets and e-mail addresses in words."""
    if len(_COUNTED.findall(text.lower())) > 1:
        for match in _STREET.finditer(text):
            if match["cue"] or _SEVERAL.match(match["street"]):
                yield Entity(*match.span("street"), "address")
        for match in _NUMBERS.finditer(text):
            digits = _COUNTED.findall(match.group().lower())
            counts = "|".join(digits) in alternatives("digits")  # "one, two, three, four"
            if len(digits) >= _LEAST and not counts:
                yield Entity(*match.span(), "phone" if len(digits) > 6 else "id")
    if _AT.search(text):
        for match in _MAIL.finditer(text):
            if _ENDS.search(match.group()):
                yield Entity(*match.span(), "email")
