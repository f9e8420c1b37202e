"""Ids by their form: words of letters and digits and long numbers, unless they are public."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from dp_middleware.pseudonyms.detection import Entity
from dp_middleware.pseudonyms.detectors.cues import alternatives

_TOKEN = re.compile(r"(?<![\w@+$€£¥%\\])#?[^\W_](?:[-/_.:#]?\w)*+(?![€$£%]|\s[€$£%])")
_SPACED = re.compile(  # "EA 12345", "9 C 482/23"
    r"(?<![\w-])(?:\d{1,3} )?[A-Z]{1,4} (?:\d?[A-Z]\d? )?(?=\d{5}|\d{3,}/\d)\d[\w/-]*(?!\w)"
    r"|(?<![\w-])\d{1,3} [A-Z][A-Za-z]{0,3} \d+/\d{2,4}(?!\w)"
    r"|(?<![\w-])[A-Z]{2,3} \d{4}[A-Z](?![\w-])"
    r"|(?<![\w-])[A-Z]{3} (?!(?:1[5-9]|20)\d\d)\d{4}(?![\w-]|[.,]\d)"
)
_MORE = re.compile(r"(?: (?!(?:1[5-9]|20)\d\d\b)(?=[A-Z]*\d)[A-Z0-9]{3,}(?![\w.,]))+")
_PIECE = re.compile(r"[^/:.]+")
_WORD = re.compile(r"[^\W\dA-Z_]{3,}|[A-Z][^\W\dA-Z_]{3,}")
_PUBLIC = re.compile(rf"#?(?:{alternatives('public_forms')})", re.IGNORECASE)
_UNIT = rf"(?:{alternatives('units')})"
MEASURE = re.compile(
    rf"(?:\d+(?:[.,/:x-]\d+)*-?{_UNIT}?(?:[/-]\d*(?:\.\d+)?-?{_UNIT})?"
    r"|\d{1,4}(?:[-.:/]\d+)?(?:st|nd|rd|th)?(?:[-_][^\W\d_]{2,})+)",
    re.IGNORECASE,
)
_WORDED = re.compile(  # "windows-10", "sha256", "conv2d_12": at most three digits in a row
    r"(?!\D*\d+(?:[^\W\d_]+\d+){2})(?:[^\W\dA-Z_]+|[A-Z]?[^\W\dA-Z_]{2,})(?:[-_./:]?(?:\d{1,3}(?!\d)"
    r"|(?:1[5-9]|20)\d\d(?!\d)|[^\W\d_]+(?![^\W\d_])))*"
)
_OF_YEAR = re.compile(r"(?:19|20)\d\d[/-](?!(?:19|20)\d\d\Z)\d{3,}")  # no "2023/2024"
_NUMBER = re.compile(r"#\d{4,}|(?!1[0-4]\d\d\Z)\d{4,}")
_BEFORE = re.compile(r"[A-Z][A-Za-z]+ \Z")
_DATED = re.compile(r"(?:1[5-9]|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])")
_ROUND = re.compile(r"\d+00|4096|8192|16384|32768|6553[56]|131072|262144|524288|1048576")
COUNTED = re.compile(rf"[ -](?:{alternatives('counted')}|{_UNIT})\b", re.IGNORECASE)
_COUNTING = re.compile(rf"(?:\b(?:{alternatives('counting')})\s|[~<>≈+*±^,]|\.)\Z", re.IGNORECASE)


def codes(text: str, claims: Collection[Entity]) -> Iterator[Entity]:
    """What identifies by its form alone.

    Args:
        text: Private.
        claims: What is found of other kinds; a code lies in none of them.
    """
    taken = bytearray(len(text))
    for each in claims:
        if each.kind != "id":
            taken[each.start : each.end] = bytes([1]) * (each.end - each.start)
    spans = [each.span() for each in _SPACED.finditer(text) if not is_public(each.group())]
    spans += [span for match in _TOKEN.finditer(text) for span in _of_token(text, match)]
    yield from (Entity(start, end, "id") for start, end in spans if not all(taken[start:end]))


def is_public(token: str) -> bool:
    """Whether a word has the form of a version, a date, a standard, a product or the like."""
    return _PUBLIC.fullmatch(token) is not None


def _of_token(text: str, match: re.Match[str]) -> Iterator[tuple[int, int]]:
    token, (start, end) = match.group(), match.span()
    if is_public(token):
        return
    if "/" in token or ":" in token or "." in token:
        pieces = list(_PIECE.finditer(token))
        if any(_WORD.fullmatch(piece.group()) for piece in pieces):
            for piece in pieces:
                a, b = piece.span()
                if _identifies(text, start + a, start + b):
                    yield start + a, start + b
            return
    if _identifies(text, start, end):
        more = _MORE.match(text, end)
        yield start, more.end() if more else end


def _identifies(text: str, start: int, end: int) -> bool:
    """Whether what stands there is neither a public form nor counts or measures anything."""
    token = text[start:end].strip("_")
    digits = sum(map(str.isdigit, token))
    least = 1 if len(token) > 6 and token.isupper() and token.isalnum() else 2
    if digits < least or len(token) < 4 or is_public(token):
        return False
    if any(map(str.isalpha, token)):
        return not (MEASURE.fullmatch(token) or _WORDED.fullmatch(token))
    if not _NUMBER.fullmatch(token):
        is_long = digits > 6 and "/" in token and not MEASURE.fullmatch(token)
        return is_long or _OF_YEAR.fullmatch(token) is not None
    before = _BEFORE.search(text, max(0, start - 9), start)
    return token[0] == "#" or not (
        _ROUND.fullmatch(token)
        or _DATED.fullmatch(token)
        or (before is not None and is_public(before[0] + token))
        or COUNTED.match(text, end)
        or re.match(r"[.,]\d", text[end : end + 2])
        or _COUNTING.search(text, max(0, start - 20), start)
    )
