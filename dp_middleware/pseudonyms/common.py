"""Texts of public words alone: what is in no public list leaves as a label."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from operator import itemgetter

from dp_middleware.pseudonyms.kinds import Label
from dp_middleware.pseudonyms.rewriting import (
    Mention,
    PseudonymDraft,
    between,
    overlapping,
    settled,
)
from dp_middleware.pseudonyms.structured import View, view_of
from dp_middleware.sanitizers.spans import PART
from dp_middleware.vocabulary import frequencies
from dp_middleware.vocabulary.classes import listed

LISTED = 20_000  # most frequent words of English that may leave, but for given names
SHORT = 1000  # words of two letters are among so many: rarer ones are syllables, and spell names
_TYPESET = "’“”„«»—…€£¥₹§°•·¡¿\u2018\u2010\u2011\u2013\u00a0\u202f"
# signs that may leave; any other is a part of the word that it stands in
SIGNS = frozenset(" \t\n\r" + string.punctuation + _TYPESET + PART)
_ESCAPED = "\ufffd"  # stands for what is spelled by a number, as \u0041 is
_SHORT, _NONE = re.compile(r"[^\\]+|\\+[nrt\"'/]?"), re.compile(r"[^\\]+")
_OTHER = f"[^{re.escape(''.join(sorted(SIGNS)))}]"
_WORD = re.compile(  # with a backslash before it, which a reader may take for an escape
    rf"\\?{_OTHER}+(?:(?:['’]|(?<=\d)[.,:/-](?=\d)){_OTHER}+)*"
)
_CASES = re.compile(r"[a-z'’]+|[A-Z][a-z'’]*|[A-Z'’]+")


@dataclass(frozen=True, kw_only=True)
class Word(Label):
    """A label such as "WORD_47", one for each spelling of a word or number that is not listed."""

    name = "word"
    cased = True

    of: str = "WORD"


@cache
def common_words() -> frozenset[str]:
    """The public list: lower case, some with an apostrophe."""
    names = listed("name")
    ranked = enumerate(frequencies._words()[0][:LISTED])
    long = {
        word
        for rank, word in ranked
        if (len(word) > 2 or (len(word) == 2 and rank < SHORT))
        and word.removesuffix("'s") not in names
    }
    return frozenset(long | {"a", "i", "s", "null", "true", "false"})


@cache
def promise() -> str:
    """What is guaranteed of a text, for a certificate."""
    words = sorted(common_words())
    digest = sha256(" ".join(words).encode()).hexdigest()[:16]
    return (
        f"nothing leaves but {len(words)} words of a public list ({digest}), signs, and values "
        "drawn without looking at yours but for what is kept of each kind; which of these words, "
        "in small letters, capitals or with one first, and which signs stand where is public, and "
        "which of the other words are equal"
    )


def only_common(draft: PseudonymDraft) -> PseudonymDraft:
    """Returns a draft in which a place is whatever is in no public list."""
    labelled = _labelled(draft, _SHORT)
    if draft.view.starts and not _reads_alike(labelled):
        labelled = _labelled(draft, _NONE)
    return labelled


def _labelled(draft: PseudonymDraft, escapes: re.Pattern[str]) -> PseudonymDraft:
    """A draft with labels, also for what is spelled by other escapes than these."""
    places = [
        place
        if SIGNS.issuperset(re.sub("[A-Za-z0-9]", "", place.shape))
        else place._replace(kind=Word(), shape="")
        for place in draft.places
    ]
    text = _spelled(draft.view, escapes)
    while True:  # a place that grows may leave a part of a listed word
        places += [Mention(start, end, Word(), "") for start, end in _uncommon(draft, text)]
        places.sort(key=itemgetter(0))
        draft = replace(draft, places=tuple(settled(draft.text, places)))
        if list(draft.places) == places:
            return draft
        places = list(draft.places)


def _reads_alike(draft: PseudonymDraft) -> bool:
    """Whether escapes of JSON are still read as such where labels stand: else they are letters."""
    sample = draft.filled(["a"] * len(draft.places), 0, len(draft.text), draft.view)
    return all(_is_common(match.group()) for match in _WORD.finditer(view_of(sample).text))


def _uncommon(draft: PseudonymDraft, text: str) -> Iterator[tuple[int, int]]:
    """Yields what is in no public list, of what would go out as it is."""
    numbers = [
        (a, b)
        for a, b, bare, _ in draft.view.values
        if bare and {*text[max(0, a - 1) : a], *text[b : b + 1]} <= SIGNS
    ]
    for start, end in draft.gaps:
        inside = [(a, b) for a, b in overlapping(numbers, start, end) if start <= a and b <= end]
        yield from (span for span in inside if not overlapping(draft.kept, *span))
        for a, b in between(sorted([*inside, *overlapping(draft.kept, start, end)]), start, end):
            for match in _WORD.finditer(text, a, b):
                first, behind = match.span()
                behind -= 2 * (match.group()[-2:].lower() in ("'s", "’s"))
                if not (_is_common(match.group()) or _is_common(text[first:behind])):
                    yield first, behind


def _is_common(word: str) -> bool:
    plain = word.replace("’", "'").lower()
    return _CASES.fullmatch(word) is not None and plain in common_words()


def _spelled(view: View, escapes: re.Pattern[str]) -> str:
    """The text, with a sign that is in no list for each that another escape spells."""
    if not view.starts:
        return view.text
    ends = zip(view.starts, view.starts[1:], strict=False)
    return "".join(
        sign if b - a < 2 or escapes.fullmatch(view.raw, a, b) else _ESCAPED
        for sign, (a, b) in zip(view.text, ends, strict=True)
    )
