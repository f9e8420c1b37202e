"""What no public list knows: whatever it stands for, it may name somebody.

A word that is in no list of common words, a number that counts or measures nothing, signs and
digits within a word, a capital letter where sentences have none: none of these needs a pattern.
"""

from __future__ import annotations

import builtins
import keyword
import re
import sys
from collections.abc import Collection, Iterator
from functools import cache

from dp_middleware.pseudonyms.detection import Entity
from dp_middleware.pseudonyms.detectors.codes import COUNTED, MEASURE, is_public
from dp_middleware.pseudonyms.detectors.cues import DOING, MONTHS, alternatives, is_title
from dp_middleware.pseudonyms.detectors.names import NameLists
from dp_middleware.pseudonyms.detectors.tokens import Token, is_stop_word
from dp_middleware.pseudonyms.detectors.words import (
    LANGUAGES,
    Class,
    class_of,
    is_given,
    is_public_word,
    is_rarely_a_word,
    told,
)

_CHUNK = re.compile(r"[^\s\"`“”„«»<>()\[\]{}|,;=…\u3000-\u303f\uff01-\uff0f\uff1a-\uff1f]+")
_PIECE = re.compile(r"[^\\/:.]+")
_ENDS = ".:!?*'’_-\N{EN DASH}\N{EM DASH}"
_SMALL = re.compile(r"[#~≈]?\d{1,2}(?:[.,:/x-]\d{1,2})?(?:st|nd|rd|th|[.%°ºª]|er?|ème)?")
_SIGNED = re.compile(r"\w[@#$%^&*!?+~]\w|[^\W\d_A-Z][-_.]?[A-Z].*[-_.]")
_CAMEL = re.compile(r"[^\W\d_A-Z]{2,}|[A-Z][^\W\d_A-Z]+|[A-Z]+(?![^\W\d_A-Z])")
_HANDED = re.compile(r"[^\W\d_]{3,}")
_LATIN = re.compile(r"[a-z\u00df-\u024f'.-]+")
_MOST = 4  # digits of what identifies nothing
_MEASURED = re.compile(
    r"\d{1,4}(?:[.,x-]\d{1,2})?-?(?:[a-zµμ°º/²³]{1,6}|[KMGTk]i?[Bb]|[kMG]?Hz|[kM]?Wh?|°?[CF])"
)
_FILED = re.compile(r"\d{5,}-\d{1,2}|(?!(?:1[5-9]|20)\d\d/)\d{3,}/(?:19|20)?\d\d(?:-[A-Z])?")
_CHOSEN = re.compile(r"(?=.*\d)(?=.*[A-Z])[\w-]{3,}[!#$%^*?~@][\w!#$%^&*?~@-]+")
_CAPITALS = re.compile(r"(?=(?:.*[A-Z]){2})[A-Z0-9]+(?:-[A-Z0-9]+)+|(?=.*\d)[A-Z]*\d+[A-Z]{3,}\d*")
_HANDLE = re.compile(r"(?=.*[_\d])[a-z][a-z0-9]*(?:[._][a-z0-9]+)+")
_USER = re.compile(
    rf"\b(?:(?:{alternatives('sites')}|{alternatives('username', 'keys')})\w*\W{{1,3}}|"
    r"(?:by|ask|cc|hey|hi|ping|tell|thanks)[ ,]{1,2}@?)\Z",
    re.IGNORECASE,
)
_CODED = re.compile(
    r"(?<![\w-])(?:([A-Z]{2,4})[ -]?\d{3,6}|\d{3,6} ([A-Z]{2,4}))(?![\w'’-]|[.,]\d)"
)


def unlisted(text: str, names: NameLists, claims: Collection[Entity]) -> Iterator[Entity]:
    """Yields words and numbers of a text that no public list knows, and that nothing claims yet.

    In "precise" words with a capital inside a sentence, in "balanced" what is rarely a word of a
    text, in "safe" all of it: what stays is common words, numbers of at most two digits, measures,
    versions and public names of things.
    """
    taken = bytearray(len(text))
    for each in claims:
        taken[each.start : each.end] = bytes([1]) * (each.end - each.start)
    yield from _chunks(text, names, taken)
    yield from _words(names, taken)
    for match in _CODED.finditer(text):
        if not is_public(match.group()) and _is_letters(match[1] or match[2], names):
            yield Entity(*match.span(), "id")


def _chunks(text: str, names: NameLists, taken: bytearray) -> Iterator[Entity]:
    for match in _CHUNK.finditer(text):
        chunk = match.group().rstrip(_ENDS)
        start = match.start() + len(chunk) - len(chunk := chunk.lstrip(_ENDS))
        end = start + len(chunk)
        has_digits = any(map(str.isdigit, chunk))
        if not (has_digits or _SIGNED.search(chunk)) or all(taken[start:end]):
            if _HANDLE.fullmatch(chunk) and any(_odd(chunk, names)):
                yield Entity(start, end, "username")
            continue
        for a, b in _parts(chunk) if names.level == 2 else _odd(chunk, names):
            if not (_counts(text, start + a, start + b) or all(taken[start + a : start + b])):
                yield Entity(start + a, start + b, "id" if has_digits else "username")


def _parts(chunk: str) -> Iterator[tuple[int, int]]:
    """Offsets of what is no word, small number, measure or public form in a word with digits."""
    if _is_plain(chunk):
        return
    pieces = [each.span() for each in _PIECE.finditer(chunk)]
    if len(pieces) == 1 or _SIGNED.search(chunk) or not re.search(r"[^\W\d_]{3}", chunk):
        yield 0, len(chunk)
        return
    for a, b in pieces:
        piece = chunk[a:b]
        if any(map(str.isdigit, piece)) and not _is_plain(piece):
            yield a, b


def _odd(chunk: str, names: NameLists) -> Iterator[tuple[int, int]]:
    """Offsets of a word with digits whose letters are no words."""
    if _FILED.fullmatch(chunk) and not is_public(chunk):
        yield 0, len(chunk)
    is_long = re.search(r"\d{5}", chunk) and re.search(r"[^\W\d_]", chunk)
    if len(chunk) < 5 or is_public(chunk) or (MEASURE.fullmatch(chunk) and not is_long):
        return
    if is_long or _CHOSEN.fullmatch(chunk) or (len(chunk) > 5 and _CAPITALS.fullmatch(chunk)):
        yield 0, len(chunk)
        return
    for piece in _HANDLE.finditer(chunk) if _HANDLE.fullmatch(chunk) else _PIECE.finditer(chunk):
        word = piece.group()
        if not re.search(r"[\d_.]", word) or len(word) < 5 or is_public(word):
            continue
        letters = [each.lower() for each in _HANDED.findall(word)]
        if any(
            class_of(each, names.language) >= (Class.UNKNOWN if len(each) > 4 else Class.NAME)
            and each not in _program_words()
            for each in letters
        ):
            yield piece.span()


def _is_plain(chunk: str) -> bool:
    """Whether it is a small number, a measure or a public form, of at most four digits."""
    if len(chunk) < 3 or _SMALL.fullmatch(chunk):
        return True
    if sum(map(str.isdigit, chunk)) > _MOST:
        return False
    if _MEASURED.fullmatch(chunk) is not None:
        return not chunk[-1].islower() or MEASURE.fullmatch(chunk) is not None
    return is_public(chunk) and not (chunk[0].isdigit() and chunk[-1].isupper())


def _counts(text: str, start: int, end: int) -> bool:
    """Whether a number has something behind it that it counts or measures."""
    if text[end + 1 : end + 2].isupper():  # "8000 Aarhus"
        return False
    return text[start:end].replace(".", "").isdecimal() and bool(
        COUNTED.match(text, end) or text[end : end + 2].strip()[:1] in ("%", "€", "$", "£", "°")
    )


def _words(names: NameLists, taken: bytearray) -> Iterator[Entity]:
    languages = {names.language, "en"}
    if names.level == 2:
        languages |= {each for each, words in told(names.text).items() if len(words) > 2}
    languages &= {*LANGUAGES}
    for token in names.tokens:
        if all(taken[token.start : token.end]) or len(token.text) < 2:
            continue
        if _is_unlisted(token, names) and not (
            names.level == 2
            and not token.capital
            and any(class_of(token.lower, each) < Class.UNKNOWN for each in languages)
        ):
            yield Entity(token.start, token.end, "person")


def _is_unlisted(token: Token, names: NameLists) -> bool:
    kind, word = token.kind, token.lower
    if token.code and (word in _program_words() or _is_joined(token.text, names.language)):
        return False
    if is_title(word) or is_public_word(word):
        return False
    within = token.capital and not token.first and not token.text.isupper()
    if names.level == 0:
        return within and kind >= Class.UNKNOWN and not token.code and len(word) > 2
    if names.level == 2:
        if kind >= Class.UNKNOWN:
            return not token.text.isupper() or len(word) > 3
        if is_stop_word(word.partition("'")[0]) or names.is_frequent(word):
            return False
        if names.is_casual and not token.capital:
            return kind is Class.BOTH and is_given(word) and is_rarely_a_word(word)
        return within and names.language != "de" and not token.code and word not in MONTHS
    if not _LATIN.fullmatch(word):
        return False
    if token.code:  # of a path
        return len(word) > 4 and (kind is Class.NAME or (within and kind is Class.UNKNOWN))
    if kind < Class.UNKNOWN:
        return (
            within
            and names.language != "de"
            and is_rarely_a_word(word)
            and DOING.match(names.text, token.end) is not None
        )
    if token.capital:
        return len(word) > 2 and not token.text.isupper() and (within or names.language != "de")
    is_sure = names.is_casual or (kind is Class.NAME and is_given(word))
    if not is_sure:
        is_sure = _USER.search(names.text, max(0, token.start - 30), token.start) is not None
    return len(word) > 3 and is_sure


def _is_joined(text: str, language: str) -> bool:
    """Whether a name of programs is made of common words: "PaymentService"."""
    parts = _CAMEL.findall(text)
    return len(parts) > 1 and all(
        class_of(part.lower(), language) < Class.UNKNOWN or len(part) < 3 for part in parts
    )


def _is_letters(word: str, names: NameLists) -> bool:
    """Whether letters beside a number are rather a part of it than a word."""
    return names.level == 2 or class_of(word.lower(), names.language) >= Class.UNKNOWN


@cache
def _program_words() -> frozenset[str]:
    """Python's own words, in lower case."""
    return frozenset(
        each.lower() for each in (*keyword.kwlist, *dir(builtins), *sys.stdlib_module_names)
    )
