"""Patterns of what is written in signs of its own: contacts, ids, dates, amounts; or in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from dp_middleware.errors import needs
from dp_middleware.pseudonyms.cues import CUES, alternatives, filled, rules
from dp_middleware.pseudonyms.detection import Entity

with needs("detect"):
    import regex
    from stdnum import iban, luhn

_FOREIGN = regex.compile(
    r"[^\P{L}\p{Latin}](?:[^\P{L}\p{Latin}]|\p{M}|[ \u200c\u200d\u200e-])*[^\P{L}\p{Latin}]\p{M}*",
    regex.V1,
)


def _is_card(text: str) -> bool:
    digits = regex.sub(r"\D", "", text)
    return luhn.is_valid(digits) and len(set(digits)) > 1


# what must hold of the text of the first pattern of a kind
_CHECKS: dict[str, Callable[[str], Any]] = {"card": _is_card, "iban": iban.is_valid}


@cache
def _compiled() -> list[tuple[str, Any, Any]]:
    return [
        (kind, None if n else _CHECKS.get(kind), regex.compile(filled(pattern), regex.M | flags))
        for table, flags in (("patterns", regex.IGNORECASE), ("cased_patterns", 0))
        for kind, patterns in CUES[table].items()
        for n, pattern in enumerate(patterns)
    ]


def matches(text: str) -> Iterator[Entity]:
    """What the patterns find, which may overlap."""
    for kind, is_valid, pattern in _compiled():
        for match in pattern.finditer(text):
            start, end = match.span("v" if "v" in pattern.groupindex else 0)
            if is_valid is None or is_valid(text[start:end]):
                yield Entity(start, end, kind)


def by_script(text: str) -> Iterator[Entity]:
    """Yields words in another script than the text's: names as their bearers write them."""
    letters = sum(map(str.isalpha, text))
    spans = [match.span() for match in _FOREIGN.finditer(text)]
    if sum(end - start for start, end in spans) * 3 < letters:
        yield from (Entity(start, end, "person") for start, end in spans)


_LEAST = 4  # digits in a row that count nothing
_ROWS, _WORDED, _SAYS_AT, _MAIL, _ENDS = rules(
    "spoken", "rows", "worded", "says_at", "mail", "ends"
)


def spoken(text: str) -> Iterator[Entity]:
    """Yields numbers of four digits or more and e-mail addresses in words of eight languages."""
    if len(_WORDED.findall(text.lower())) >= _LEAST:
        for match in _ROWS.finditer(text):
            digits = _WORDED.findall(match.group().lower())
            counts = "|".join(digits) in alternatives("digits")  # "one, two, three, four"
            if len(digits) >= _LEAST and not counts:
                yield Entity(*match.span(), "phone" if len(digits) > 6 else "id")
    if _SAYS_AT.search(text):
        for match in _MAIL.finditer(text):
            if _ENDS.search(match.group()):
                yield Entity(*match.span(), "email")
