"""Values that are told by their keys: in JSON, XML, logs, SQL, tables, lines with a colon."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dp_middleware.pseudonyms.cues import CUES, alternatives, rules
from dp_middleware.pseudonyms.detection import Entity
from dp_middleware.pseudonyms.secrets import opens

_NOT = rf"(?!(?:{alternatives('nameless')})[ _-]?name)"
_KEYS = {  # what keys are called, by the kind of their values; the first that matches counts
    kind: re.compile(
        (_NOT if kind == "person" else "") + f"(?:{alternatives(kind, 'keys')})", re.IGNORECASE
    )
    for kind in CUES["keys"]
}
_QUOTED, _ASSIGNED, _LINE, _TAG, _SQL, _MAILBOX, _PUBLIC = rules(
    "fields", "quoted", "assigned", "line", "tag", "sql", "mailbox", "public"
)
_NUMBERED = ("id", "card", "iban", "phone", "zip", "ip", "date")


def kind_of_key(key: str) -> str | None:
    """The kind of the values of a key, such as ``"person"`` for ``"first_name"``."""
    spelled = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key.strip())
    return next((kind for kind, pattern in _KEYS.items() if pattern.fullmatch(spelled)), None)


def fields(text: str) -> Iterator[Entity]:
    """Values with their kinds, which may overlap."""
    for pattern in (_QUOTED, _ASSIGNED, _LINE, _TAG, _SQL):
        for match in pattern.finditer(text):
            group = "text" if match.group("text") is not None else "bare"
            key = match.group("key")
            kind = (
                "username"
                if pattern is _SQL and key.lower() in ("role", "user")
                else kind_of_key(key)
            )
            if kind and (pattern is not _LINE or len(key.split()) <= 3):
                yield from _value(text, *match.span(group), kind, pattern is _LINE)
    for match in _MAILBOX.finditer(text):
        group, kind = ("text", "person") if match["text"] else ("user", "username")
        yield from _value(text, *match.span(group), kind, False)
    yield from _tables(text)


def _value(text: str, start: int, end: int, kind: str, is_line: bool) -> Iterator[Entity]:
    """A value, if it is of the form of its kind."""
    value = text[start:end]
    stripped = value.strip(" \t\"'`,;")
    start += value.find(stripped) if stripped else 0
    end = start + len(stripped)
    if not stripped or _PUBLIC.fullmatch(stripped):
        return
    words = stripped.split()
    if kind == "username" and " " in stripped:
        kind = "person"
    if not _is_of(kind, stripped, words, is_line):
        return
    if is_line and kind in _NUMBERED:  # the value may have words behind it
        match = re.match(r"[\w+(][\w()+./ -]*\d[\w-]*", stripped)
        end = start + match.end() if match and len(match.group().split()) < 6 else start
    if start < end:
        yield Entity(start, end, kind)


def _is_of(kind: str, value: str, words: list[str], is_line: bool) -> bool:
    """Whether a value has the form of its kind."""
    digits, is_capital = sum(sign.isdigit() for sign in value), value[0].isupper()
    if kind in _NUMBERED:
        return digits >= (5 if kind == "phone" else 3 if value.isdigit() else 1)
    if kind == "person":
        is_name = not digits and len(words) <= 4 and not any(c in value for c in "@/\\=<>{}[]$_:")
        written = is_capital and all(word[0].isupper() or len(word) < 4 for word in words)
        return is_name and (written or not is_line)
    if kind == "secret":
        return len(value) > 3 and not is_line and opens(value)
    if kind in ("organisation", "place"):
        return len(words) <= 6 and is_capital
    if kind == "address":
        return digits > 0 and len(words) <= 16
    if kind == "username":
        return not is_line or len(value) > 2
    return kind != "email" or "@" in value


def _tables(text: str) -> Iterator[Entity]:
    """Cells of tables with a first line of names: separated by commas, semicolons, tabs or bars."""
    lines = [(m.start(), m.group()) for m in re.finditer(r"[^\n]+", text)]
    k = 0
    while k < len(lines):
        sign = next((each for each in "|;\t," if lines[k][1].count(each) > (each == "|")), None)
        kinds = _columns(lines[k][1], sign) if sign else []
        k += 1
        if not any(kinds) or sign is None:
            continue
        while k < len(lines) and lines[k][1].count(sign) >= len(kinds) - 1:
            for kind, (start, end) in zip(kinds, cells(*lines[k], sign), strict=False):
                if kind:
                    yield from _value(text, start, end, kind, False)
            k += 1


def _columns(line: str, sign: str) -> list[str | None]:
    names = [line[start:end].strip().strip('"') for start, end in cells(0, line, sign)]
    is_head = all(re.fullmatch(r"[^\W\d][\w .-]{0,30}|", name) for name in names)
    kinds = [kind_of_key(name) for name in names]
    return kinds if is_head and len([kind for kind in kinds if kind]) * 3 >= len(names) else []


def cells(offset: int, line: str, sign: str) -> Iterator[tuple[int, int]]:
    """Offsets of the cells of a line; a sign within quotes parts nothing."""
    start, quoted = 0, False
    for place, letter in enumerate([*line, sign]):
        quoted ^= letter == '"'
        if letter == sign and (not quoted or place == len(line)):
            yield offset + start, offset + place
            start = place + 1
