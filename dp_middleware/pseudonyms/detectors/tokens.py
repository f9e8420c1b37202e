"""The words of a text, each with what public lists and the signs beside it tell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from dp_middleware.pseudonyms.detection import Entity
from dp_middleware.pseudonyms.detectors.cues import NOBODY, is_title, words
from dp_middleware.pseudonyms.detectors.words import (
    WORD,
    Class,
    class_of,
    is_case_of,
    is_given,
    is_name,
    may_be_name,
)
from dp_middleware.vocabulary import frequencies

PARTICLES = words("particles")
_ELISION = re.compile(r"(?:l|d|qu|n|s|j|m|t|c|un|dell|all|nell|sull|dall|lorsqu|jusqu)['’]", re.I)
_POSSESSIVE = re.compile(r"(?:['’][sS]|(?<=[sS])['’])\Z")
_DASHES = "\N{EN DASH}\N{EM DASH}-"
_START = re.compile(rf"(?:\A|[.!?:;…\n|>•*#]|[{_DASHES}]{{1,2}})[\s\"“„«'(\[*_¿¡-]*\Z")
_ARABIC = re.compile(r"(?:al|el|ad|as|an|ash|ur|ul)[-\u2010\u2011][A-Z]")
_INITIALS = re.compile(r"[^\W\d_a-z](?:[.-]{1,2}[^\W\d_a-z])*")


class Token(NamedTuple):
    """A word of a text.

    Attributes:
        start: Offset of its first sign, without an elision such as "l'".
        end: Offset behind its last, without a possessive.
        text: What stands there.
        kind: By the lists.
        first: Whether it may have a capital letter because a sentence begins.
        code: Whether it stands in a path, an address or an expression.
    """

    start: int
    end: int
    text: str
    kind: Class
    first: bool
    code: bool

    @property
    def capital(self) -> bool:
        """Whether it begins with a capital letter."""
        return self.text[0].isupper() or _ARABIC.match(self.text) is not None

    @property
    def lower(self) -> str:
        """As it stands in lists."""
        return self.text.lower().replace("’", "'")

    @property
    def initial(self) -> bool:
        """Whether it is a capital letter, or some with full stops."""
        return _INITIALS.fullmatch(self.text) is not None and not (
            self.text == "I" or (self.text == "A" and self.first)
        )


def known_by_neighbours(run: list[Token], language: str) -> list[Token]:
    """A row in which words beside a name are unknown ones, if they may be names of the news."""

    def is_named(k: int) -> bool:
        return 0 <= k < len(run) and run[k].kind >= Class.COMMON and is_name(run[k].lower)

    return [
        token._replace(kind=Class.UNKNOWN)
        if token.kind is Class.WORD
        and token.capital
        and (
            (may_be_name(token.lower, language) and (is_named(k - 1) or is_named(k + 1)))
            or (is_given(token.lower) and k + 1 < len(run) and run[k + 1].kind >= Class.UNKNOWN)
        )
        else token
        for k, token in enumerate(run)
    ]


def word_before(text: str, place: int) -> bool:
    """Whether a slash at the end of a text parts two words: "he/she", no path."""
    return re.search(r"(?<![\w/.])\w+['’\w]*/\Z", text[max(0, place - 20) : place]) is not None


def length_of_name(tokens: list[Token], most: int) -> int:
    """How many words a name has that surely begins here."""
    n = 1
    while n < min(most, len(tokens)) and (tokens[n].kind > Class.WORD or tokens[n].initial):
        n += 1
    return n


def _is_camel(word: str) -> bool:
    """Whether a word is written as in programs: "ElementTree", but no "McDonald"."""
    inner = any(a.islower() and b.isupper() for a, b in pairwise(word))
    return inner and not re.match(r"(?:Mc|Mac|De|La|Le|Di|Van|O['’]|Fitz)[A-Z]", word)


def _is_heading(line: str) -> bool:
    """Whether the words of a line have capital letters because it is a heading."""
    if line.rstrip()[-1:] in {".", ",", ";", "?", "!"}:
        return False
    words = [word for word in re.findall(r"[^\W\d_]+", line) if len(word) > 3]
    return len(words) > 3 and sum(word[0].isupper() for word in words) > 0.8 * len(words)


def is_stop_word(word: str) -> bool:
    """Whether a word in lower case is a function word of English."""
    return word in frequencies.stop_words()


def parts_of(text: str, people: Iterable[Entity], language: str) -> dict[str, bool]:
    """Words of the names of people, by whether they are also looked for in small letters."""
    parts: dict[str, bool] = {}
    for person in people:
        for match in WORD.finditer(text, person.start, person.end):
            word = _POSSESSIVE.sub("", match.group())
            if len(word) > 2 and word.lower() not in PARTICLES | NOBODY:
                known = class_of(word.lower(), language)
                if known is not Class.WORD or word[0].isupper():
                    parts[word.lower()] = known >= Class.UNKNOWN
    return parts


def tokens_of(text: str, language: str) -> Iterator[Token]:
    """The words of a text."""
    headings = [m.span() for m in re.finditer(r"[^\n]+", text) if _is_heading(m.group())]
    for match in WORD.finditer(text):
        start, end = match.span()
        if elision := _ELISION.match(text, start, end):
            start = elision.end() if elision.end() < end else start
        if possessive := _POSSESSIVE.search(text, start, end):
            end = possessive.start()
        before, behind = text[max(0, start - 1) : start], text[end : end + 2]
        code = (
            (before != "" and before in "_\\@#$%&=~.+")
            or (before == "/" and not word_before(text, start))
            or before.isdigit()
            or (behind[:1] != "" and behind[:1] in "_\\@=(")
            or behind[:1].isdigit()
            or re.match(r"\.\w|::", behind) is not None
        )
        word = text[start:end]
        first = _START.search(text, max(0, start - 8), start) is not None
        first = first or any(a <= start < b for a, b in headings)
        kind = class_of(word.lower().replace("’", "'"), language)
        if language == "pl" and kind is Class.WORD and not first and word[0].isupper():
            kind = Class.UNKNOWN if is_case_of(word.lower(), is_name, language) else kind
        yield Token(start, end, word, kind, first, code or _is_camel(word))


def rows_of(text: str, tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Yields rows as in :func:`runs_of`, parted before a title: "Kannst du | Frau Sommer"."""
    for run in runs_of(text, tokens):
        start = 0
        for k in range(1, len(run) - 1):
            if is_title(run[k].lower) and not is_title(run[k - 1].lower):
                yield run[start:k]
                start = k
        yield run[start:]


def runs_of(text: str, tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Yields rows of words with capital letters, a blank or an initial's full stop between."""
    run: list[Token] = []
    for k, token in enumerate(tokens):
        joined = bool(run) and re.fullmatch(
            r"\.?[ \t]{1,2}|[ \t]?&[ \t]" if run[-1].initial else r"[ \t]|[ \t]?&[ \t]",
            text[run[-1].end : token.start],
        )
        if token.capital and not token.code:
            if not joined and run:
                yield run
                run = []
            run.append(token)
        elif (
            joined
            and token.lower in PARTICLES
            and k + 1 < len(tokens)
            and (tokens[k + 1].capital or tokens[k + 1].lower in PARTICLES)  # "van den Heuvel"
        ):
            run.append(token)
        elif run:
            yield run
            run = []
    if run:
        yield run
