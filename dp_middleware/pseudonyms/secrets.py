"""Where keys, tokens and passwords stand in a text: by their form, by words beside them, by chance.

The forms of keys follow the public rules of Gitleaks (MIT licence, (c) 2019 Zachary Rice).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from dp_middleware.pseudonyms.cues import rules
from dp_middleware.pseudonyms.detection import Entity
from dp_middleware.pseudonyms.kinds.contacts import CREDENTIALS

_FORMS, _PHRASE, _RANDOM = rules("secrets", "forms", "phrase", "random")
_COOKIES, _COOKIE, PUBLIC = rules("secrets", "cookies", "cookie", "public")
_ASSIGNED, _SAID, _CHOSEN, _FOREIGN = rules("secrets", "assigned", "said", "chosen", "foreign")
_FLAG, _PAIR, _HEADER = rules("secrets", "flag", "pair", "header")
_HASH, _NONE, _PLAIN, _DIGITS, _LONG = rules("secrets", "hash", "none", "plain", "digits", "long")
_ENDS = ".,;:)]}\"'`"


def secrets_in(text: str) -> Iterator[Entity]:
    """Yields what opens something, parts maybe twice; checksums and keys that are public do not."""
    for match in CREDENTIALS.finditer(text):
        yield Entity(*match.span(), "secret")
    for match in _FORMS.finditer(text):
        name = match.lastgroup or ""
        if name != "key" or not match[name].islower() or re.search(r"\d", match[name]):
            yield Entity(*match.span(name), "secret")
    yield from _named(text)
    for match in _PHRASE.finditer(text):
        yield Entity(*match.span("bare"), "secret")
    for line in _COOKIES.finditer(text):
        for match in _COOKIE.finditer(text, *line.span("all")):
            if _is_mixed(match["bare"]):
                yield Entity(*match.span("bare"), "secret")
    for match in _RANDOM.finditer(PUBLIC.sub(lambda public: " " * len(public.group()), text)):
        if _LONG.search(match.group()) and _is_random(match.group()):
            yield Entity(*match.span(), "secret")


def _named(text: str) -> Iterator[Entity]:
    """Yields values beside the names of secrets."""
    for rule in (_ASSIGNED, _SAID, _CHOSEN, _FOREIGN, _FLAG, _PAIR, _HEADER):
        for match in _overlapping(rule, text):
            groups = match.groupdict()
            name = "quoted" if groups.get("quoted") else "bare"
            start, end = match.span(name)
            if name == "bare":
                end = start + len(text[start:end].rstrip(_ENDS))
                if text[end : end + 1] == "(":  # a call
                    continue
            sure = rule not in (_ASSIGNED, _SAID)
            if opens(text[start:end], groups.get("word"), sure, prose=rule is _SAID):
                yield Entity(start, end, "secret")


def _overlapping(rule: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yields matches that begin behind the name of the one before: its value may be a name."""
    place = 0
    while (match := rule.search(text, place)) is not None:
        yield match
        place = max(match.end("name") if "name" in rule.groupindex else match.end(), place + 1)


def opens(
    value: str, word: str | None = "password", sure: bool = True, prose: bool = False
) -> bool:
    """Whether a value is a secret, by the word for a password before it, or ``sure`` of all."""
    if len(value) < 3 + (word is None or word[:2].lower() != "cv") or _NONE.fullmatch(value):
        return False
    if sure:
        return True
    if word is None:
        return _is_mixed(value) and len(value) >= 8
    if _DIGITS.fullmatch(word):
        return re.fullmatch(r"[#*]?(?=\w*\d\d)[\dA-F-]{3,8}[#*]?", value) is not None
    return not (prose and _PLAIN.fullmatch(value))


def _is_mixed(value: str) -> bool:
    """Whether it has digits and letters, or capitals behind small letters, as no word has."""
    digits = any(sign.isdecimal() for sign in value)
    return (digits and any(map(str.isalpha, value))) or (len(value) >= 20 and _is_random(value))


def _is_random(value: str) -> bool:
    """Whether its signs change between classes as often as those of random ones do."""
    if _HASH.fullmatch(value):
        return False
    classes = [
        "a" if c.islower() else "A" if c.isupper() else "9" if c.isdecimal() else c for c in value
    ]
    changes = sum(one != other for one, other in pairwise(classes))
    runs = len(re.findall(r"\d+", value))
    return runs >= 2 and changes >= 0.3 * len(value)
