"""What stands beside names, addresses and numbers and belongs to them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dp_middleware.pseudonyms.detection import Entity
from dp_middleware.pseudonyms.detectors.cues import (
    GREETINGS,
    MONTHS,
    NOBODY,
    ORGANISED,
    ROLE_BEFORE,
    alternatives,
    is_title,
)
from dp_middleware.pseudonyms.detectors.names import NameLists
from dp_middleware.pseudonyms.detectors.tokens import PARTICLES, Token, is_stop_word
from dp_middleware.pseudonyms.detectors.words import (
    Class,
    class_of,
    common,
    is_family,
    is_given,
    is_public_word,
    is_rarely_a_word,
)

_BRIDGE = re.compile(r"[\s,]*(?:\d{1,4}[.ºª°]?\s?[^\W\d_]{0,3}|[^\W\d_]{1,3})[.,]?[\s,]*")
_ZIP = re.compile(rf"(?:{_BRIDGE.pattern})?[\s,]+(?:[A-Z]{{1,2}}-)?\d{{4,6}}(?=\s+[A-ZÀ-Ž])")
_HEAD = re.compile(
    r"(?<![\w-])(?:\d{1,3} )?(?:[A-ZÄÖÜ]{1,4}[ -]?|[A-Z][a-z]{1,2} |[^\W\d_]{1,3}\.[º°]? ?)\Z"
)
_TAIL = re.compile(r" [A-Z]{1,4}(?![\w'’-])")
_ELIDED = re.compile(r"(?<!\w)(?:[A-ZÀ-Ž]['’]|(?:[A-ZÀ-Ž]\.[ -]?){1,3})\Z")
_NUMBER = re.compile(r"(?<![\w.,/-])\d{2,6},? \Z")
_HOUSE = re.compile(r",? \d{1,5}[a-z]?(?![\w%]|[.,:/]\d)")
_INNER = re.compile(r" ['’]?([^\W\d_]{1,3}\b)?\.? ?")
_PLACES = r"[A-ZÀ-Ž][\w'’.]*(?: (?:[A-ZÀ-Ž][\w'’]*|\d+\w?)){0,2}"
_LISTED_BEFORE = re.compile(rf"(?<![\w,.] )(?:\b{_PLACES}, )+\Z")
_LISTED_BEHIND = re.compile(rf"(?:,\s{_PLACES})+(?=[,.\n)]|\Z)")
_PREFIXED = re.compile(
    rf"(?:(?<=[\"'>(;|])|(?<=\A))(?:(?:{'|'.join(sorted(PARTICLES))}) )+\Z", re.IGNORECASE
)
_BRIDGED = frozenset({"address", "phone"})
_NAMED = frozenset({"person", "organisation", "date", "amount", "age"})
_ALONE = re.compile(
    r"^[ \t]*(?P<name>[^\W\d_]{2,})(?: [^\W\d_]{2,})?[,!]?[ \t]*\n\s*\n", re.MULTILINE
)
_SIGNED = re.compile(
    rf"\b(?:{alternatives('closings')})[,.!]?\s+(?P<name>[^\W\d_]{{2,}})\W*(?:\Z|\n)", re.IGNORECASE
)
_TITLED = re.compile(
    rf"(?<!\w)(?:{alternatives('titles')})\.? (?:(?:{'|'.join(sorted(PARTICLES))}) )*"
    r"(?P<name>[^\W\d_]{2,})",
    re.IGNORECASE,
)
_INITIAL = re.compile(r"(?<![\w.])(?:[A-ZÀ-Ž]\. ?){1,3}(?P<name>[A-ZÀ-Ž][\w-]{2,})(?=\W*(?:\n|\Z))")
_DUTCH = re.compile(r"(?<!\w)(?:Van|De|Den|Ter)(?: de[rn]?| het)? (?P<name>[A-Z][\w-]+)")


def adjoining(text: str, claims: list[Entity], names: NameLists) -> Iterator[Entity]:
    """Yields what is a part of what stands beside it: of an address, of a number, of a name.

    And who is greeted or signs in a line of its own, whatever the name means besides.

    Args:
        text: Private.
        claims: What is found, which is sorted here.
        names: Of the text.
    """
    claims.sort()
    last = Entity(-1, -1, "")
    for each in claims:
        if last.end < each.start and _is_bridge(text, last, each, names):
            yield Entity(last.end, each.start, last.kind)
        if each.end > last.end:
            last = each
        yield from (Entity(*side.span(), each.kind) for side in _sides(text, each, names) if side)
    yield from _of_names(claims, names)
    for pattern in (_ALONE, _SIGNED, _TITLED, _INITIAL, *[_DUTCH] * (names.language == "nl")):
        for match in pattern.finditer(text):
            is_sure = pattern in (_TITLED, _INITIAL) or (match.start() == 0 and "," in match[0])
            if _may_name(match["name"], names, is_sure):
                start = match.start("name" if pattern in (_ALONE, _SIGNED) else 0)
                start = _behind_title(match) if pattern is _TITLED else start
                yield Entity(start, match.end("name"), "person")


def _behind_title(match: re.Match[str]) -> int:
    words = match.group().split(" ")
    while len(words) > 1 and is_title(words[0].rstrip(".").lower()):
        words = words[1:]
    return match.end() - len(" ".join(words))


def _sides(text: str, entity: Entity, names: NameLists) -> list[re.Match[str] | None]:
    start, end, kind = entity
    if kind in ("person", "place", "address"):
        sides = [_ELIDED.search(text, max(0, start - 9), start)]
        sides += [_NUMBER.search(text, max(0, start - 8), start), _ZIP.match(text, end)]
        sides += [_HOUSE.match(text, end)] if names.level == 2 or kind != "person" else []
        if kind == "person":
            sides += [_PREFIXED.search(text, max(0, start - 16), start)]
        if kind == "address":
            sides += [_LISTED_BEFORE.search(text, max(0, start - 60), start)]
            sides += [_LISTED_BEHIND.match(text, end)]
        return sides
    if kind == "id" and text[start].isdecimal():
        sides = [_HEAD.search(text, max(0, start - 9), start), _TAIL.match(text, end)]
        return [m for m in sides if m and _is_letters(m.group(), names)]
    return []


def _is_letters(side: str, names: NameLists) -> bool:
    if "." in side:  # "n. "
        return True
    word = side.strip(" -0123456789").lower()
    least = Class.UNKNOWN if names.level < 2 else Class.WORD
    return class_of(word, names.language) >= least and not is_stop_word(word)


def _is_bridge(text: str, one: Entity, other: Entity, names: NameLists) -> bool:
    """Whether what stands between two entities is a part of both."""
    if {one.kind, other.kind} == {"person"}:
        between = _INNER.fullmatch(text, one.end, other.start)
        return between is not None and not (between[1] and names.is_frequent(between[1].lower()))
    is_bridged = {one.kind, other.kind} & _BRIDGED and other.kind not in _NAMED
    return bool(is_bridged and _BRIDGE.fullmatch(text, one.end, other.start))


def _of_names(claims: list[Entity], names: NameLists) -> Iterator[Entity]:
    """Yields words directly behind and before people that belong to their names."""
    text = names.text
    ends = {each.end for each in claims if each.kind == "person"}
    starts = {each.start for each in claims if each.kind == "person"}
    for token in names.tokens:
        is_behind = text[token.start - 1 : token.start] == " " and token.start - 1 in ends
        if is_behind and _may_follow(token, names):
            ends.add(token.end)
            yield Entity(token.start, token.end, "person")
    for token in reversed(names.tokens):
        is_before = text[token.end : token.end + 1] == " " and token.end + 1 in starts
        if is_before and token.start not in starts and _may_precede(token, names):
            starts.add(token.start)
            yield Entity(token.start, token.end, "person")


def _may_follow(token: Token, names: NameLists) -> bool:
    """Whether a word directly behind a name belongs to it."""
    word = token.lower
    is_said = names.is_frequent(word) and (not token.capital or names.language in ("en", "de"))
    if is_said or token.code or word in MONTHS or word in ORGANISED:
        return False
    if token.capital and (names.level == 2 or token.kind >= Class.BOTH):
        return True
    if token.capital:  # "Judith Amsel, "
        ends = names.text[token.end : token.end + 1] in ",.\n)"
        return names.language != "de" or ends
    if word in ("junior", "senior"):
        return True
    if len(word) == 1:
        return names.is_casual and word not in "aeiouyàéèêó"
    is_small = names.text[: token.start].rstrip().rpartition(" ")[2].islower()
    return is_small and token.kind >= Class.COMMON and (is_family(word) or is_rarely_a_word(word))


def _may_precede(token: Token, names: NameLists) -> bool:
    """Whether a word with a capital letter directly before a name belongs to it."""
    word = token.lower
    if not token.capital or token.code or names.language == "de" or len(word) < 2:
        return False
    if names.is_frequent(word) or is_title(word) or is_public_word(word) or word in MONTHS:
        return False
    if ROLE_BEFORE.fullmatch(word + " ") or word in GREETINGS:
        return False
    listed = names.text[: token.start].rstrip()[-1:] in (":", ",", ";", "(", "|", "-", "•")
    return not token.first or listed or is_given(word)


def _may_name(name: str, names: NameLists, is_sure: bool) -> bool:
    """Whether a word that stands where a name does is one."""
    word = name.lower()
    if names.is_frequent(word) or word in NOBODY or word in GREETINGS or is_title(word):
        return False
    is_word = class_of(word, names.language) is Class.WORD
    if name[0].islower() and is_word and (not names.is_casual or word in common("en")):
        return False  # "the nurse checked"
    return names.level == 2 or is_sure or not is_word
