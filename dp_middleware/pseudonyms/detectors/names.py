"""Names of people, organisations and places in a text, by public lists and by the words beside."""

from __future__ import annotations

from collections.abc import Iterator

from dp_middleware.pseudonyms.detection import Entity
from dp_middleware.pseudonyms.detectors import cues
from dp_middleware.pseudonyms.detectors.cues import before, is_title
from dp_middleware.pseudonyms.detectors.fields import kind_of_key
from dp_middleware.pseudonyms.detectors.joined import joined
from dp_middleware.pseudonyms.detectors.places import organisation, places
from dp_middleware.pseudonyms.detectors.small import small_names
from dp_middleware.pseudonyms.detectors.tokens import (
    PARTICLES,
    Token,
    is_stop_word,
    known_by_neighbours,
    length_of_name,
    rows_of,
    tokens_of,
)
from dp_middleware.pseudonyms.detectors.words import (
    Class,
    is_family,
    is_frequent,
    is_given,
    is_name,
    is_town,
)


class NameLists:
    """The names of one text.

    Args:
        text: Private.
        language: Of it.
        level: 0 for what lists and context agree on, 1 also for unknown words with a capital
            letter within a sentence, 2 for any word that may be a name.
    """

    def __init__(self, text: str, language: str, level: int) -> None:
        self.text, self.language, self.level = text, language, level
        self.tokens = list(tokens_of(text, language))
        firsts = [token for token in self.tokens if token.first and len(token.text) > 1]
        capitals = sum(token.capital for token in firsts)
        starts = sum(not token.code for token in firsts)
        self.is_casual = capitals * 2 < starts or not any(t.capital for t in self.tokens)

    def entities(self) -> Iterator[Entity]:
        """People, organisations and places, which may overlap."""
        found = [each for run in rows_of(self.text, self.tokens) for each in self._of_run(run)]
        found += small_names(self)
        yield from found
        yield from joined(self, [each for each in found if each.kind == "person"])

    def _of_run(self, run: list[Token]) -> Iterator[Entity]:
        run = known_by_neighbours(run, self.language)
        while run and not run[-1].capital:
            run = run[:-1]
        if all(is_title(token.text) for token in run):
            return  # "Herrn Dr."
        if before(cues.TITLE, self.text, run[0].start) or self._is_title(run):
            titled = run[1:] if self._is_title(run) else run
            titled = titled[: length_of_name(titled, 4)]
            if titled and titled[0].lower not in cues.NOBODY:
                yield self.entity(titled, "person")
                run = run[run.index(titled[-1]) + 1 :]
        elif (call := before(cues.CALLED, self.text, run[0].start)) or (
            len(run) > 1 and cues.CALLED.match(run[0].text + " ")
        ):
            named = run if call else run[1:]
            if named[0].lower not in cues.NOBODY and self._may_be_called(named):
                yield self.entity(named[: length_of_name(named, 4)], "person")
            run = named
        if not run:
            return
        if found := organisation(self, run):
            yield found
            run = [token for token in run if token.end <= found.start]
        for part in self._split(run):
            yield from self._of_part(part)
        yield from places(self, run)

    def _is_title(self, run: list[Token]) -> bool:
        return len(run) > 1 and is_title(run[0].text)

    def _may_be_called(self, named: list[Token]) -> bool:
        """Whether who is addressed has a name: no "Dear Hiring Manager"."""
        if any(token.kind >= Class.UNKNOWN for token in named):
            return True
        ends = self.text[named[-1].end : named[-1].end + 1]
        return (
            len(named) <= 2
            and any(is_name(token.lower) or token.kind > Class.WORD for token in named)
            and (
                ends in ("", ",", ".", "\n", "!", ":")
                or cues.INTRODUCED.match(self.text, named[-1].end) is not None
            )
        )

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
            if token.lower in cues.MONTHS and not behind_name:
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
        while len(part) > 1 and (
            (self.language != "en" and self._is_no_name(part[0]))
            or (self._is_function_word(part[0]) and not is_family(part[1].lower))
        ):
            part = part[1:]  # "Mein Mann"
        named = [token for token in part if token.capital and not token.initial]
        if not named:
            return
        if len(named) == 1:
            lower = named[0].lower
            alone = len(part) == 1 or part[0].text in ("N", "S", "E", "W")
            names_town = alone and is_town(lower, self.language) and not is_given(lower)
            if not names_town and self._is_name_alone(named[0], len(part) > 1):
                yield self.entity(part, "person")
            return
        kinds = [token.kind for token in named]
        pair = is_name(named[-1].lower) and (
            named[0].lower in cues.GIVEN_WORDS
            or (kinds[0] is Class.BOTH and is_given(named[0].lower) and kinds[-1] >= Class.BOTH)
        )
        if (
            max(kinds) is Class.NAME
            or pair
            or (kinds.count(Class.UNKNOWN) >= 1 and self.level >= 1 and self._unknown(part))
        ):
            yield self.entity(part, "person")

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
            is_kin = token.kind is Class.UNKNOWN and before(cues.KIN_BEFORE, self.text, token.start)
            is_told = self.level == 2 or (self.level == 1 and self._has_role(token))
            return is_told and (token.kind is Class.NAME or is_kin) and len(lower) > 3
        if has_initial:
            return token.kind >= Class.COMMON
        if token.kind is Class.NAME:
            return len(lower) > 2 or self.level == 2 or self._says(token)
        is_german = self.language == "de"
        if token.kind is Class.UNKNOWN:
            if token.first or is_german:
                says = token.first and (
                    self._says(token) or cues.DID.match(self.text, token.end) is not None
                )
                return self.level == 2 or says or (self.level == 1 and self._has_role(token))
            return self.level >= 1 and len(lower) > 2
        if self.level >= 1 and is_name(lower) and self._has_role(token):
            return True
        if token.kind is Class.BOTH and lower not in cues.MONTHS:
            if token.first or is_german:
                return self._says(token) and (token.first or not is_german)
            return self.level >= 1 and (
                lower in cues.GIVEN_WORDS
                or (is_given(lower) and not self._is_word_here(token))
                or self._says(token)
            )
        if self.level >= 1 and token.first and lower in cues.GIVEN_WORDS:
            return cues.DOING.match(self.text, token.end) is not None
        if self.level == 0 or token.first or self.language == "de":
            return False
        does, is_word = cues.DOING.match(self.text, token.end), self._is_word_here(token)
        if lower in cues.GIVEN_WORDS:
            return does is not None or not is_word
        is_told = does is not None or before(cues.TOLD_BEFORE, self.text, token.start)
        return is_told and is_name(lower) and not is_word and lower not in cues.MONTHS

    def _is_word_here(self, token: Token) -> bool:
        """Whether the words beside it make a word of what may be a name: "in May", "the will"."""
        lower = token.lower
        return (
            cues.NO_NAME_BEHIND.match(self.text, token.end) is not None
            or before(cues.NO_NAME_BEFORE, self.text, token.start)
            or (lower in ("may", "summer") and before(cues.NO_MONTH_BEFORE, self.text, token.start))
        )

    def _has_role(self, token: Token) -> bool:
        if before(cues.ROLE_BEFORE, self.text, token.start):
            return True
        key = cues.KEY_BEFORE.search(self.text, max(0, token.start - 20), token.start)
        ends = self.text[token.end : token.end + 1] in ("", ".", ",", ";", "\n")
        return key is not None and ends and kind_of_key(key[1] or key[2]) == "person"

    def _is_function_word(self, token: Token) -> bool:
        """Whether a word with a capital letter is one that only begins a sentence or a title."""
        return (
            token.kind <= Class.COMMON and not token.initial and token.lower not in cues.GIVEN_WORDS
        )

    def _is_no_name(self, token: Token) -> bool:
        is_kin = cues.KIN_BEFORE.fullmatch(token.lower + " ") is not None
        return is_kin or is_frequent(token.lower, self.language)

    def is_frequent(self, word: str) -> bool:
        """Whether a word is a function word of the language."""
        return is_stop_word(word) or is_frequent(word, self.language)

    def _says(self, token: Token) -> bool:
        return cues.SAYING.match(self.text, token.end) is not None

    def entity(self, tokens: list[Token], kind: str) -> Entity:
        """Returns these words as an entity, of people with rank and suffix."""
        start, end = tokens[0].start, tokens[-1].end
        if kind == "person":
            rank = cues.RANK.search(self.text, max(0, start - 20), start)
            suffix = cues.SUFFIX.match(self.text, end)
            start, end = (
                rank.start() if rank and not rank["owned"] else start,
                suffix.end() if suffix else end,
            )
        return Entity(start, end, kind)
