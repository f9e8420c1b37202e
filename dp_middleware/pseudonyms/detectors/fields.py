"""Values that are told by their keys: in JSON, XML, logs, SQL, tables, lines with a colon."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dp_middleware.pseudonyms.detection import Entity
from dp_middleware.pseudonyms.detectors.cues import CUES, alternatives
from dp_middleware.pseudonyms.secrets import opens

_NOT = rf"(?!(?:{alternatives('nameless')})[ _-]?name)"
KEYS: tuple[tuple[str, str], ...] = tuple(
    (kind, (_NOT if kind == "person" else "") + f"(?:{alternatives(kind, 'keys')})")
    for kind in CUES["keys"]
)
"""What keys are called, by the kind of their values; the first that matches counts."""

_COMPILED = [(kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in KEYS]
_QUOTED = re.compile(
    r"""(["'])(?P<key>[\w .-]{1,40})\1\s*(?::|=>|=)\s*"""
    r"""(?:(["'])(?P<text>(?:(?!\3)[^\\\n]|\\.)*)\3|(?P<bare>[\w.+-]+))"""
)
_ASSIGNED = re.compile(
    r"""(?<![\w.-])(?:\w+\.)?(?P<key>[\w-]{1,40})\s?=\s?(?:(["'])(?P<text>(?:(?!\2)[^\\\n]|\\.)*)\2|(?P<bare>[^\s,;&"'<>()\[\]{}]+))"""
)
_LINE = re.compile(
    r"^[ \t>*-]*(?P<key>[^\W\d][\w .'/-]{0,30}?)[ \t]*:[ \t]+(?P<text>[^\n]+)$", re.MULTILINE
)
_TAG = re.compile(r"<(?P<key>[A-Za-z][\w.-]{0,40})[^<>]*>(?P<text>[^<>\n]+)</(?P=key)>")
_SQL = re.compile(
    r"\b(?P<key>role|user|login|password|identified by)\s+(?:(?:with\s+)?password\s+)?"
    r"([\"'`])(?P<text>[^\"'`\n]+)\2",
    re.IGNORECASE,
)
_MAILBOX = re.compile(
    r"(?:(?P<text>[A-ZÀ-Ž][\w.'’, -]{1,40}?)|(?P<user>\b[a-z][\w.-]{2,}))\"?\s*<(?=[\w.+-]+@)"
)
_PUBLIC = re.compile(
    r"(?:true|false|null|none|nil|n/?a|unknown|yes|no|localhost|default|root|admin|\W*)\Z",
    re.IGNORECASE,
)


def kind_of_key(key: str) -> str | None:
    """The kind of the values of a key, such as ``"person"`` for ``"first_name"``."""
    spelled = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key.strip())
    return next((kind for kind, pattern in _COMPILED if pattern.fullmatch(spelled)), None)


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
    digits = sum(sign.isdigit() for sign in stripped)
    if kind == "username" and " " in stripped:
        kind = "person"
    if kind in ("id", "card", "iban", "phone", "zip", "ip", "date"):
        if is_line:  # the value may have words behind it
            match = re.match(r"[\w+(][\w()+./ -]*\d[\w-]*", stripped)
            end = start + match.end() if match and len(match.group().split()) < 6 else start
        if not digits or (kind == "phone" and digits < 5) or (digits < 3 and stripped.isdigit()):
            return
    elif kind == "person":
        if (
            digits
            or "@" in stripped
            or len(stripped.split()) > 4
            or (is_line and not stripped[0].isupper())
        ):
            return
        if is_line and not all(word[0].isupper() or len(word) < 4 for word in stripped.split()):
            return
        if any(sign in stripped for sign in "/\\=<>{}[]$_:"):
            return
    elif kind == "username":
        if is_line and len(stripped) < 3:
            return
    elif (
        (
            kind in ("organisation", "place")
            and (len(stripped.split()) > 6 or not stripped[0].isupper())
        )
        or (kind == "email" and "@" not in stripped)
        or (kind == "secret" and (len(stripped) < 4 or is_line or not opens(stripped)))
        or (kind == "address" and (not digits or len(stripped.split()) > 16))
    ):
        return
    if start < end:
        yield Entity(start, end, kind)


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
