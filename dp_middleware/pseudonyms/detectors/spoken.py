"""Numbers and e-mail addresses in words, as in dictated texts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dp_middleware.pseudonyms.detection import Entity
from dp_middleware.pseudonyms.detectors.cues import alternatives

_DIGIT = rf"(?:{alternatives('digits')})"
_LEAST = 4  # digits in a row that count nothing
_NUMBER = re.compile(
    rf"\b(?:(?:plus |[a-z] as in \w+ |[a-z] )*(?:{_DIGIT}|{alternatives('tens')}|\d)"
    rf"(?:[ -]|, | dash | slash )(?: ?[a-z] as in \w+ )?){{{_LEAST - 1},}}"
    rf"(?:{_DIGIT}|{alternatives('tens')}|\d)\b",
    re.IGNORECASE,
)
_SINGLE = re.compile(rf"\b{_DIGIT}\b", re.IGNORECASE)
_DOT = r"(?:dot|punkt|point|punto|ponto|punt|kropka)"
_AT = r"(?:at|ät|arob(?:as|ase)|chiocciola|arroba|apenstaartje|małpa)"
_MAIL = re.compile(
    rf"\b[\w.+-]+(?:\s?[\[({{]\s?{_DOT}\s?[\])}}]\s?[\w-]+| (?:{_DOT}|underscore|dash|minus) [\w-]+)*"
    rf"(?:\s?[\[({{]\s?{_AT}\s?[\])}}]\s?| {_AT} )[\w.-]+"
    rf"(?:\s?[\[({{]\s?{_DOT}\s?[\])}}]\s?[\w-]+| {_DOT} [a-z]{{2,12}}\b)*",
    re.IGNORECASE,
)
_ENDS = re.compile(rf"(?:[\])}} ]|\b){_DOT}[\])}} ]+[a-z]{{2,6}}\Z|[\])}}].*\.[a-z]{{2,6}}\Z", re.IGNORECASE)


def spoken(text: str) -> Iterator[Entity]:
    """Yields numbers of four digits or more in words, and addresses with "at" and "dot"."""
    for match in _NUMBER.finditer(text):
        digits = _SINGLE.findall(match.group().lower())
        if len(digits) >= _LEAST and "|".join(digits) not in alternatives("digits"):  # who counts
            yield Entity(*match.span(), "phone" if len(digits) > 6 else "id")
    for match in _MAIL.finditer(text):
        if _ENDS.search(match.group()):
            yield Entity(*match.span(), "email")
