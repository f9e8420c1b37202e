"""Numbers and e-mail addresses in words, as in dictated texts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dp_middleware.pseudonyms.detection import Entity
from dp_middleware.pseudonyms.detectors.cues import alternatives

_LEAST = 4  # digits in a row that count nothing
_COUNTED = rf"(?:{alternatives('digits')}|{alternatives('tens')})"
_LETTERS = r"(?:(?:plus|[a-z] as in \w+|[a-z]) )*"
_BETWEEN = r"(?!(?:or|and|of|to|for|und|et|y|e|ou|o|en|i|lub|oder)\b)\w{2,}"
_NUMBERS = re.compile(
    rf"\b{_LETTERS}(?:(?:{_COUNTED}|\d)(?:[ -]|, )(?:{_BETWEEN} )?{_LETTERS})"
    rf"{{{_LEAST - 1},}}(?:{_COUNTED}|\d)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(rf"\b{_COUNTED}\b")
_AT = rf"(?:{alternatives('ats')})"
_SAYS_AT = re.compile(rf"\b{_AT}\b", re.IGNORECASE)
_DOT = rf"(?:{alternatives('dots')})"
_DOTTED = rf"(?:\s?[\[({{]\s?{_DOT}\s?[\])}}]\s?[\w-]+| {_DOT} [a-z]{{2,12}}\b)"
_MAIL = re.compile(
    rf"\b[\w.+-]+(?:{_DOTTED}| (?:underscore|dash|minus) [\w-]+)*"
    rf"(?:\s?[\[({{]\s?{_AT}\s?[\])}}]\s?| {_AT} )[\w.-]+{_DOTTED}*",
    re.IGNORECASE,
)
_ENDS = re.compile(rf"\b{_DOT}[\])}} ]+[a-z]{{2,6}}\Z|[\])}}].*\.[a-z]{{2,6}}\Z", re.IGNORECASE)


def spoken(text: str) -> Iterator[Entity]:
    """Yields numbers of four digits or more and e-mail addresses in words of eight languages."""
    if len(_NUMBER.findall(text.lower())) >= _LEAST:
        for match in _NUMBERS.finditer(text):
            digits = _NUMBER.findall(match.group().lower())
            counts = "|".join(digits) in alternatives("digits")  # "one, two, three, four"
            if len(digits) >= _LEAST and not counts:
                yield Entity(*match.span(), "phone" if len(digits) > 6 else "id")
    if _SAYS_AT.search(text):
        for match in _MAIL.finditer(text):
            if _ENDS.search(match.group()):
                yield Entity(*match.span(), "email")
