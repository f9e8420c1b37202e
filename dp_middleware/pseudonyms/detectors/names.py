"""Names of people, organisations and places in a text, by public lists and by the words beside."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from dp_middleware.pseudonyms.detection import Entity
from dp_middleware.pseudonyms.detectors.cues import alternatives, words
from dp_middleware.pseudonyms.detectors.words import (
    WORD,
    Class,
    class_of,
    is_family,
    is_given,
    is_name,
    may_be_name,
    towns,
)
from dp_middleware.vocabulary import frequencies

PARTICLES = words("particles")
_ELISION = re.compile(r"(?:l|d|qu|n|s|j|m|t|c|un|dell|all|nell|sull|dall|lorsqu|jusqu)['’]", re.I)
_POSSESSIVE = re.compile(r"(?:['’][sS]|(?<=[sS])['’])\Z")
_DASHES = "\N{EN DASH}\N{EM DASH}-"
_START = re.compile(rf"(?:\A|[.!?:;…\n|>•*#]|[{_DASHES}]{{1,2}})[\s\"“„«'(\[*_¿¡-]*\Z")
_TITLE = re.compile(
    rf"\b(?:{alternatives('titles')})\b\.?\s+(?:(?:dr|prof|med|ing)\b\.?\s+)*\Z", re.IGNORECASE
)
_CALLED = re.compile(rf"(?:{alternatives('callings')})[,:!.]?\s+\Z", re.IGNORECASE)
_NOBODY = words("nobody")  # fmt: skip
SAYING = re.compile(
    r"['’]s\b|\s+(?:said|says|called|calls|wrote|writes|was|has|had|asked|asks|told|tells|went|"
    r"will|is|and I|sent|works|worked|lives|lived|thinks|wants|needs|died|here)\b"
)
_ORGANISED = words("organised")  # fmt: skip
_WORDS = words("given_words")
"""Words that are given names too, wherever they have a capital letter within a sentence."""

_NO_NAME_BEHIND = re.compile(
    r"\s+(?:i|you|we|they|he|she|it|this|that|be|not|the|a|an|\d+)\b", re.IGNORECASE
)
_NO_NAME_BEFORE = re.compile(r"\b(?:a|an|the|this|that|my|your|our)\s\Z", re.IGNORECASE)
_NO_MONTH_BEFORE = re.compile(
    r"\b(?:in|of|since|until|by|last|next|early|late|mid|from|to|and|\d+)\s\Z", re.IGNORECASE
)
_ARABIC = re.compile(r"(?:al|el|ad|as|an|ash|ur|ul)[-\u2010\u2011][A-Z]")
_RANK = re.compile(r"(?<!\w)(?:(?:Sir|Lt|Gen|Col|Capt|Maj|Rev)\.? )+\Z")
_SUFFIX = re.compile(r",? (?:Jr|Sr|II|III|IV)\b\.?")
_PERSON_BEFORE = re.compile(rf"\b(?:{alternatives('relations')}),?\s\Z", re.IGNORECASE)
_PEOPLE_BEFORE = re.compile(
    rf"\b(?:{alternatives('relations')}|{alternatives('before_people')}),?\s\Z", re.IGNORECASE
)
_INITIALS = re.compile(r"[^\W\d_a-z](?:[.-]{1,2}[^\W\d_a-z])*")
_MONTHS = words("dated")


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


class Names:
    """The names of one text.

    Args:
        text: Private.
        language: Of it.
        level: 0 for what lists and context agree on, 1 also for unknown words with a capital
            letter within a sentence, 2 for any word that may be a name.
    """

    def __init__(self, text: str, language: str, level: int) -> None:
        self.text, self.language, self.level = text, language, level
        self.tokens = list(self._tokens())
        capitals = sum(token.capital for token in self.tokens if token.first)
        starts = sum(token.first and not token.code for token in self.tokens)
        self.is_casual = capitals * 2 < starts or not any(t.capital for t in self.tokens)

    def entities(self) -> Iterator[Entity]:
        """People, organisations and places, which may overlap."""
        for run in self._runs():
            yield from self._of_run(run)
        if self.is_casual or self.level == 2:
            yield from self._small()

    def _tokens(self) -> Iterator[Token]:
        text = self.text
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
            kind = class_of(word.lower().replace("’", "'"), self.language)
            yield Token(start, end, word, kind, first, code or _is_camel(word))

    def _runs(self) -> Iterator[list[Token]]:
        """Rows of words with capital letters, with one blank or an initial's full stop between."""
        run: list[Token] = []
        tokens = self.tokens
        for k, token in enumerate(tokens):
            joined = bool(run) and re.fullmatch(
                r"\.?[ \t]{1,2}|[ \t]?&[ \t]" if run[-1].initial else r"[ \t]|[ \t]?&[ \t]",
                self.text[run[-1].end : token.start],
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
                and tokens[k + 1].capital
            ):
                run.append(token)
            elif run:
                yield run
                run = []
        if run:
            yield run

    def _of_run(self, run: list[Token]) -> Iterator[Entity]:
        run = _known(run)
        while run and not run[-1].capital:
            run = run[:-1]
        start = self.text[max(0, run[0].start - 40) : run[0].start]
        if _TITLE.search(start) or self._is_title(run):
            titled = run[1:] if self._is_title(run) else run
            titled = titled[: _stop(titled, 4)]
            if titled and titled[0].lower not in _NOBODY:
                yield self._entity(titled, "person")
                run = run[run.index(titled[-1]) + 1 :]
        elif (call := _CALLED.search(start)) or (
            len(run) > 1 and _CALLED.search(run[0].text + " ")
        ):
            named = run if call else run[1:]
            if named[0].lower not in _NOBODY and self._may_be_called(named):
                yield self._entity(named[: _stop(named, 4)], "person")
            run = named
        if not run:
            return
        if organisation := self._organisation(run):
            yield organisation
            run = [token for token in run if token.end <= organisation.start]
        for part in self._split(run):
            yield from self._of_part(part)
        yield from self._places(run)

    def _is_title(self, run: list[Token]) -> bool:
        return len(run) > 1 and _TITLE.fullmatch(run[0].text + " ") is not None

    def _may_be_called(self, named: list[Token]) -> bool:
        """Whether who is addressed has a name: no "Dear Hiring Manager"."""
        if any(token.kind >= Class.UNKNOWN for token in named):
            return True
        ends = self.text[named[-1].end : named[-1].end + 1]
        return (
            len(named) <= 2
            and any(is_name(token.lower) for token in named)
            and ends in ("", ",", ".", "\n", "!", ":")
        )

    def _organisation(self, run: list[Token]) -> Entity | None:
        last = next((k for k, t in enumerate(run) if k and t.lower in _ORGANISED), None)
        if last is None:
            return None
        while last + 1 < len(run) and run[last + 1].lower in _ORGANISED:
            last += 1
        named = run[: last + 1]
        while named and named[0].first and named[0].kind is Class.WORD and len(named) > 2:
            named = named[1:]
        if all(token.kind <= Class.COMMON for token in named) and self.level == 0:
            return None
        return self._entity(named, "organisation")

    def _split(self, run: list[Token]) -> Iterator[list[Token]]:
        """Parts of a row without the words that are no names; one behind a given name is one."""
        part: list[Token] = []
        for token in run:
            behind_name = (
                bool(part)
                and (
                    part[-1].kind >= Class.UNKNOWN
                    or part[-1].initial
                    or (part[-1].kind is Class.BOTH and is_given(part[-1].lower))
                )
                and not token.first
            )
            no_name = token.kind is Class.WORD and not token.initial
            if token.lower in _MONTHS and not behind_name:
                no_name = True
            if no_name and token.capital and "-" in token.text and not token.first:
                no_name = self.language in ("de", "nl") and not behind_name  # Mei-Ling
            if (no_name and token.capital and not behind_name) or (
                no_name and token.capital and len(part) != 1 and not part[-1].initial
            ):
                yield part
                part = []
            else:
                part.append(token)
        yield part

    def _of_part(self, part: list[Token]) -> Iterator[Entity]:
        while part and (part[0].lower in PARTICLES and not part[0].capital):
            part = part[1:]
        while part and not part[-1].capital:
            part = part[:-1]
        while len(part) > 1 and self._is_function_word(part[0]) and not is_family(part[1].lower):
            part = part[1:]
        named = [token for token in part if token.capital and not token.initial]
        if not named:
            return
        if len(named) == 1:
            is_town = named[0].lower in towns() and not is_given(named[0].lower)
            if not is_town and self._is_name_alone(named[0], len(part) > 1):
                yield self._entity(part, "person")
            return
        kinds = [token.kind for token in named]
        pair = is_name(named[-1].lower) and (
            named[0].lower in _WORDS
            or (kinds[0] is Class.BOTH and is_given(named[0].lower) and kinds[-1] >= Class.BOTH)
        )
        if (
            max(kinds) is Class.NAME
            or pair
            or (kinds.count(Class.UNKNOWN) >= 1 and self.level >= 1 and self._unknown(part))
        ):
            yield self._entity(part, "person")

    def _unknown(self, part: list[Token]) -> bool:
        """Whether words of no list are names, not words of their own language."""
        if self.language == "de" and not any(
            is_name(token.lower) for token in part if token.capital
        ):
            return self.level == 2
        return not all(token.text.isupper() for token in part) or self.level == 2

    def _is_name_alone(self, token: Token, has_initial: bool) -> bool:
        lower = token.lower
        if token.text.isupper() and len(token.text) > 1 and not has_initial:
            return self.level == 2 and token.kind is Class.NAME and len(lower) > 3
        if has_initial:
            return token.kind >= Class.COMMON
        if token.kind is Class.NAME:
            return len(lower) > 2 or self.level == 2
        is_german = self.language == "de"
        if token.kind is Class.UNKNOWN:
            if token.first or is_german:
                return self.level == 2 or (token.first and self._says(token))
            return self.level >= 1 and len(lower) > 2
        if token.kind is Class.BOTH and lower not in _MONTHS:
            if token.first or is_german:
                return self._says(token) and not is_german
            return self.level >= 1 and (
                lower in _WORDS or self._says(token) or self._is_beside(token, is_given(lower))
            )
        if self.level == 0 or token.first or self.language == "de":
            return False
        before = self.text[max(0, token.start - 10) : token.start]
        return lower in _WORDS and not (
            _NO_NAME_BEHIND.match(self.text, token.end)
            or _NO_NAME_BEFORE.search(before)
            or (lower in ("may", "summer") and _NO_MONTH_BEFORE.search(before))
        )

    def _is_function_word(self, token: Token) -> bool:
        """Whether a word with a capital letter is one that only begins a sentence or a title."""
        return token.kind <= Class.COMMON and not token.initial and token.lower not in _WORDS

    def _is_beside(self, token: Token, is_given_name: bool) -> bool:
        """Whether the word before tells of a person: "with", "my boss"."""
        before = self.text[max(0, token.start - 24) : token.start]
        pattern = _PEOPLE_BEFORE if is_given_name else _PERSON_BEFORE
        return pattern.search(before) is not None

    def _says(self, token: Token) -> bool:
        return SAYING.match(self.text, token.end) is not None

    def _places(self, run: list[Token]) -> Iterator[Entity]:
        k = 0
        while k < len(run):
            for n in (3, 2, 1):
                words = run[k : k + n]
                name = " ".join(token.lower for token in words)
                if len(words) == n and name in towns() and (n > 1 or self._is_town(words[0])):
                    yield self._entity(words, "place")
                    k += n - 1
                    break
            k += 1

    def _is_town(self, token: Token) -> bool:
        if token.text.isupper():
            return token.kind >= Class.UNKNOWN or (len(token.text) > 4 and self.level >= 1)
        if len(token.text) < 4 or (token.first and token.kind <= Class.BOTH and self.level < 2):
            return False
        return self.language != "de" or token.kind is not Class.WORD or len(token.text) > 5

    def _small(self) -> Iterator[Entity]:
        """Names in small letters, in a text that does without capital ones."""
        last = -1
        for k, token in enumerate(self.tokens):
            if token.capital or token.code or k <= last or len(token.text) < 3:
                continue
            start = self.text[max(0, token.start - 30) : token.start]
            is_titled = _TITLE.search(start) is not None and len(token.text) > 3
            lists = token.kind is Class.NAME and is_given(token.lower)
            behind = self._behind(k)
            if is_titled and token.kind >= Class.COMMON:
                last = k + (behind is not None and behind.kind >= Class.UNKNOWN)
            elif lists or (
                is_given(token.lower)
                and behind is not None
                and behind.kind is Class.NAME
                and (token.kind >= Class.BOTH or token.lower in _WORDS)
            ):
                has_family = behind is not None and (
                    behind.kind >= Class.UNKNOWN
                    or (is_family(behind.lower) and not _is_stop_word(behind.lower))
                )
                last = k + has_family
            elif (
                token.kind >= Class.UNKNOWN
                and self.level >= 1
                and token.lower not in towns()
                and (
                    (behind is not None and behind.kind is Class.NAME)
                    or (
                        self._is_beside(token, False)
                        and (
                            token.kind is Class.NAME
                            or (behind is not None and is_family(behind.lower))
                        )
                    )
                )
            ):
                last = k + (behind is not None and is_name(behind.lower))
            else:
                if token.kind >= Class.UNKNOWN and token.lower in towns() and self.level >= 1:
                    yield self._entity([token], "place")
                continue
            yield self._entity(self.tokens[k : last + 1], "person")

    def _behind(self, k: int) -> Token | None:
        if k + 1 >= len(self.tokens):
            return None
        token, behind = self.tokens[k : k + 2]
        return behind if self.text[token.end : behind.start] == " " and not behind.code else None

    def _entity(self, tokens: list[Token], kind: str) -> Entity:
        start, end = tokens[0].start, tokens[-1].end
        if kind == "person":
            rank = _RANK.search(self.text, max(0, start - 20), start)
            suffix = _SUFFIX.match(self.text, end)
            start, end = rank.start() if rank else start, suffix.end() if suffix else end
        return Entity(start, end, kind)


def _known(run: list[Token]) -> list[Token]:
    """A row in which words beside a name are unknown ones, if they may be names of the news."""

    def is_named(k: int) -> bool:
        return 0 <= k < len(run) and run[k].kind >= Class.COMMON and is_name(run[k].lower)

    return [
        token._replace(kind=Class.UNKNOWN)
        if token.kind is Class.WORD
        and token.capital
        and may_be_name(token.lower)
        and (is_named(k - 1) or is_named(k + 1))
        else token
        for k, token in enumerate(run)
    ]


def word_before(text: str, place: int) -> bool:
    """Whether a slash at the end of a text parts two words: "he/she", no path."""
    return re.search(r"(?<![\w/.])\w+['’\w]*/\Z", text[max(0, place - 20) : place]) is not None


def _stop(tokens: list[Token], most: int) -> int:
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


def _is_stop_word(word: str) -> bool:
    return word in frequencies.stop_words()


def parts_of(text: str, people: Iterable[Entity], language: str) -> dict[str, bool]:
    """Words of the names of people, by whether they are also looked for in small letters."""
    parts: dict[str, bool] = {}
    for person in people:
        for match in WORD.finditer(text, person.start, person.end):
            word = _POSSESSIVE.sub("", match.group())
            if len(word) > 2 and word.lower() not in PARTICLES | _NOBODY:
                known = class_of(word.lower(), language)
                if known is not Class.WORD or word[0].isupper():
                    parts[word.lower()] = known >= Class.UNKNOWN
    return parts
