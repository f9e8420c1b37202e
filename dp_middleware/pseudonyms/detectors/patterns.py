"""What signs of its own, a key beside it, or words tell: contacts, ids, dates, amounts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from dp_middleware.errors import needs
from dp_middleware.pseudonyms.cues import CUES, alternatives, filled, rules
from dp_middleware.pseudonyms.detection import Entity
from dp_middleware.pseudonyms.secrets import opens

with needs("detect"):
    import regex
    from stdnum import iban, luhn

_FOREIGN = regex.compile(
    r"[^\P{L}\p{Latin}](?:[^\P{L}\p{Latin}]|\p{M}|[ \u200c\u200d\u200e-])*[^\P{L}\p{Latin}]\p{M}*",
    regex.V1,
)
_LEAST = 4  # digits in a row that count nothing
_ROWS, _WORDED, _SAYS_AT, _MAIL, _ENDS = rules(
    "spoken", "rows", "worded", "says_at", "mail", "ends"
)
_KEYS = dict(zip(CUES["keys"], rules("keys", *CUES["keys"]), strict=True))
_QUOTED, _ASSIGNED, _LINE, _TAG, _SQL, _MAILBOX, _PUBLIC = rules(
    "fields", "quoted", "assigned", "line", "tag", "sql", "mailbox", "public"
)
_NUMBERED = ("id", "card", "iban", "phone", "zip", "ip", "date")


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


def by_script(text: str) -> list[Entity]:
    """Returns words in another script than the text's: names as their bearers write them."""
    found = [Entity(match.start(), match.end(), "person") for match in _FOREIGN.finditer(text)]
    letters = sum(map(str.isalpha, text))
    return found if sum(each.end - each.start for each in found) * 3 < letters else []


def spoken(text: str) -> Iterator[Entity]:
    """Yields numbers of four digits or more and e-mail addresses in words of eight languages."""
    if len(_WORDED.findall(text.lower())) >= _LEAST:
        for match in _ROWS.finditer(text):
            digits = _WORDED.findall(match.group().lower())
            counts = "|".join(digits) in alternatives("digits")  # "one, two, three, four"
            if len(digits) >= _LEAST and not counts:
                yield Entity(*match.span(), "phone" if len(digits) > 6 else "id")
    for match in _MAIL.finditer(text) if _SAYS_AT.search(text) else ():
        if _ENDS.search(match.group()):
            yield Entity(*match.span(), "email")


def kind_of_key(key: str) -> str | None:
    """The kind of the values of a key, such as ``"person"`` for ``"first_name"``."""
    spelled = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key.strip())
    return next((kind for kind, pattern in _KEYS.items() if pattern.fullmatch(spelled)), None)


def fields(text: str) -> Iterator[Entity]:
    """Values with their kinds, which may overlap."""
    for pattern in (_QUOTED, _ASSIGNED, _LINE, _TAG, _SQL):
        for match in pattern.finditer(text):
            group, key = "bare" if match["text"] is None else "text", match["key"]
            is_login = pattern is _SQL and key.lower() in ("role", "user")
            kind = "username" if is_login else kind_of_key(key)
            if kind and (pattern is not _LINE or len(key.split()) <= 3):
                yield from _value(text, *match.span(group), kind, pattern is _LINE)
    for match in _MAILBOX.finditer(text):
        group, kind = ("text", "person") if match["text"] else ("user", "username")
        yield from _value(text, *match.span(group), kind)
    yield from _tables(text)


def _value(text: str, start: int, end: int, kind: str, is_line: bool = False) -> Iterator[Entity]:
    """A value, if it is of the form of its kind."""
    value = text[start:end]
    stripped = value.strip(" \t\"'`,;")
    start += value.find(stripped)
    end = start + len(stripped)
    if not stripped or _PUBLIC.fullmatch(stripped):
        return
    if kind == "username" and " " in stripped:
        kind = "person"
    if not _is_of(kind, stripped, is_line):
        return
    if is_line and kind in _NUMBERED:  # the value may have words behind it
        match = re.match(r"[\w+(][\w()+./ -]*\d[\w-]*", stripped)
        end = start + match.end() if match and len(match.group().split()) < 6 else start
    if start < end:
        yield Entity(start, end, kind)


def _is_of(kind: str, value: str, is_line: bool) -> bool:
    """Whether a value has the form of its kind."""
    words, digits = value.split(), sum(sign.isdigit() for sign in value)
    if kind in _NUMBERED:
        return digits >= (5 if kind == "phone" else 3 if value.isdigit() else 1)
    if kind == "person":
        is_name = not digits and len(words) <= 4 and not any(c in value for c in "@/\\=<>{}[]$_:")
        is_written = value[0].isupper() and all(w[0].isupper() or len(w) < 4 for w in words)
        return is_name and (is_written or not is_line)
    if kind == "secret":
        return len(value) > 3 and not is_line and opens(value)
    if kind in ("organisation", "place"):
        return len(words) <= 6 and value[0].isupper()
    if kind == "address":
        return digits > 0 and len(words) <= 16
    if kind == "username":
        return not is_line or len(value) > 2
    return kind != "email" or "@" in value


def _tables(text: str) -> Iterator[Entity]:
    """Cells of tables with a first line of names: separated by commas, semicolons, tabs or bars."""
    kinds, sign = list[str | None](), ""
    for line in re.finditer(r"[^\n]+", text):
        if kinds and line.group().count(sign) >= len(kinds) - 1:
            for kind, cell in zip(kinds, _cells(line, sign), strict=False):
                if kind:
                    yield from _value(text, *cell, kind)
            continue
        sign = next((each for each in "|;\t," if line.group().count(each) > (each == "|")), "")
        spans = _cells(line, sign) if sign else ()
        names = [text[start:end].strip().strip('"') for start, end in spans]
        kinds = [kind_of_key(name) for name in names]
        is_head = all(re.fullmatch(r"[^\W\d][\w .-]{0,30}|", name) for name in names)
        if not is_head or sum(map(bool, kinds)) * 3 < len(names):
            kinds = []


def _cells(line: re.Match[str], sign: str) -> Iterator[tuple[int, int]]:
    """Offsets of the cells of a line; a sign within quotes parts nothing."""
    start, quoted = 0, False
    for place, letter in enumerate([*line.group(), sign]):
        quoted ^= letter == '"'
        if letter == sign and (not quoted or place == len(line.group())):
            yield line.start() + start, line.start() + place
            start = place + 1
