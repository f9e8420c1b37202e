"""Words and patterns of data/cues.toml, which tell what stands beside them."""

from __future__ import annotations

import re
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
CUES: dict[str, Any] = tomllib.loads((DATA / "cues.toml").read_text(encoding="utf-8"))


def words(name: str) -> frozenset[str]:
    """The words of a list, in lower case."""
    return frozenset(CUES[name].split())


def alternatives(name: str, table: str | None = None) -> str:
    """A regular expression for any of a list; it belongs into a group."""
    listed: str = (CUES if table is None else CUES[table])[name]
    return "|".join(listed.strip().splitlines())


def _ending(*words: str, signs: str = ",?:?") -> re.Pattern[str]:
    """What ends in one of these words, signs and a blank: for :func:`before`."""
    return re.compile(rf"\b(?:{'|'.join(words)}){signs}\s\Z", re.IGNORECASE)


_STARTS = re.compile(r"\b\w")


def before(pattern: re.Pattern[str], text: str, end: int) -> bool:
    """Whether the last words before a place, three or six, are those of a pattern to the end."""
    starts = [match.start() for match in _STARTS.finditer(text, max(0, end - 40), end)]
    return any(
        pattern.match(text, start, end)
        for start in starts[-6 if pattern in (CALLED, LIVING) else -3 :]
    )


TITLE = re.compile(
    rf"\b(?:{alternatives('titles')})\b\.?\s+(?:(?:dr|prof|med|ing)\b\.?\s+)*\Z", re.IGNORECASE
)


@lru_cache(2_000)
def is_title(word: str) -> bool:
    """Whether a word, of a private text, is a title by itself."""
    return TITLE.fullmatch(f"{word} ") is not None


CALLED = re.compile(rf"(?:{alternatives('callings')})[,:!.]?\s+\Z", re.IGNORECASE)
NOBODY = words("nobody")  # fmt: skip
SAYING = re.compile(rf"['’]s\b|\s+(?:{alternatives('doing')}|{alternatives('being')})\b")
DID = re.compile(
    r"\s(?:[a-z]{3,}ed|began|became|led|ran|spoke|won|took|gave|made)\b|\s\((?:born|b\.|aged)"
)
"""Behind a word of no list with which a sentence begins."""
DOING = re.compile(
    rf"\s+(?:(?:also|just|then|still|never|even) )?(?:{alternatives('doing')})\b(?! (?:by|of)\b)",
    re.IGNORECASE,
)
"""Verbs behind a person, whatever else the word before them means: "Will told", "May has"."""
AND = re.compile(rf"\s?(?:[,/&+]|,?\s(?:{alternatives('joining')}))\s|\s[\"“]|[\"”]\s")
ORGANISED = words("organised")  # fmt: skip
GIVEN_WORDS = words("given_words")
"""Words that are given names too, wherever they have a capital letter within a sentence."""
NO_NAME_BEHIND = re.compile(
    r"\s+(?:i|you|we|they|he|she|it|this|that|be|not|the|a|an|\d+)\b", re.IGNORECASE
)
NO_NAME_BEFORE = re.compile(r"\b(?:a|an|the|this|that|my|your|our)\s\Z", re.IGNORECASE)
NO_MONTH_BEFORE = re.compile(
    r"\b(?:in|of|since|until|by|last|next|early|late|mid|from|to|and|\d+)\s\Z", re.IGNORECASE
)
NO_SUBJECT = re.compile(
    r"\b(?:i|we|you|they|he|she|it|to|of|who|which|in|no|some|any|all|a|an|the|this|my|your|our)\s\Z",
    re.IGNORECASE,
)
TOLD_BEFORE = re.compile(rf"\b(?:{alternatives('telling')})\s\Z", re.IGNORECASE)
INTRODUCED = re.compile(r"\s(?:from|here|at|speaking|aus|von|de|da|van|z)\s")
RANK = re.compile(
    rf"(?<!\w)(?P<owned>(?i:{alternatives('owned')}) )?(?:(?:{alternatives('ranks')})\.? )+\Z"
)
CHRISTENED = re.compile(
    rf"(?i:\b(?:{alternatives('christening')}))\s[\"'“]?(?P<name>[^\W\d_]{{3,}})\b(?! \w+ing\b)"
)
"""What anybody is called, whatever it means."""
SUFFIX = re.compile(
    r",? (?:Jr|Sr|II|III|IV)\b\.?| (?i:junior|senior)\b(?! (?:\w+(?:er|or|ist)|year|high)\b)"
)
LIVING = re.compile(
    rf"(?:{alternatives('living')})(?:\s(?:{alternatives('within')})){{1,2}}\s\Z", re.IGNORECASE
)
GREETINGS = words("greetings")
ROLE_BEFORE = _ending(*map(alternatives, ("kin", "roles")), "witness")
KEY_BEFORE = re.compile(
    r"\b([^\W\d_]+): \Z|(?:\A|[,;(|\n] ?)(name|nom|nombre|nome|naam|nazwisko|guest) \Z",
    re.IGNORECASE,
)
KIN_BEFORE = _ending(alternatives("kin"))
MONTHS = words("dated")
