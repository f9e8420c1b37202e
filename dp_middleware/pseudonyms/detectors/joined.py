"""Names that are told by other names beside them, or by a word that gives any name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from dp_middleware.pseudonyms.detection import Entity
from dp_middleware.pseudonyms.detectors.cues import AND, CHRISTENED, NOBODY
from dp_middleware.pseudonyms.detectors.small import NamedWords
from dp_middleware.pseudonyms.detectors.tokens import Token, is_stop_word
from dp_middleware.pseudonyms.detectors.words import Class, is_given

_NICKNAME = re.compile(r" (?:\"[^\"\n]{1,20}\"|“[^”\n]{1,20}”|\([^)\n]{1,20}\)|'[^'\n]{1,20}') ")
"""Between the parts of a name."""


def _may_name(names: NamedWords, token: Token) -> bool:
    """Whether a word is joined to names, in small letters only in chats."""
    is_small = names.is_casual and is_given(token.lower) and not is_stop_word(token.lower)
    return not token.code and (token.capital or is_small)


def joined(names: NamedWords, people: list[Entity]) -> Iterator[Entity]:
    """Yields further people, such as all of "Bola, Kirsten and Xiu" where one is known."""
    starts, ends = {each.start for each in people}, {each.end for each in people}
    for match in _NICKNAME.finditer(names.text):
        if match.start() in ends and match.end() in starts:
            yield Entity(*match.span(), "person")
    if names.level == 0:
        return
    for match in CHRISTENED.finditer(names.text):
        word = match["name"].lower()
        if not (names.is_frequent(word) or word in NOBODY):
            yield Entity(*match.span("name"), "person")
    named = starts | ends
    pairs = [*pairwise(each for each in names.tokens if _may_name(names, each))]
    for left, right in [*pairs, *reversed(pairs)]:
        for one, other in ((left, right.start), (right, left.end)):
            least = Class.COMMON if is_given(one.lower) else Class.UNKNOWN
            is_new = other in named and named.isdisjoint((one.start, one.end))
            if is_new and one.kind >= least and AND.fullmatch(names.text, left.end, right.start):
                named |= {one.start, one.end}
                yield names.entity([one], "person")
