"""Public lists of names, towns and common words, and which language a text is in."""

from __future__ import annotations

import gzip
import logging
import re
import unicodedata
from collections import Counter
from enum import IntFlag
from functools import cache

from dp_middleware.pseudonyms.detectors.cues import DATA, words as words_of
from dp_middleware.vocabulary import frequencies

LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "pl")
"""Whose words and signs are known."""

WORD = re.compile(r"[^\W\d_]+(?:['’.-](?=[^\W\d_])[^\W\d_]+)*")
"""A word, with the hyphens and apostrophes in it."""

_log = logging.getLogger("dp_middleware.pseudonyms")
_LONGEST = 30  # letters of the last word in a compound
_TELLING = 5  # words that surely tell a language


class Listed(IntFlag):
    """The lists that a word is in."""

    WORD = 1
    """Words of the text's language or of English."""

    FREQUENT = 2
    """The most frequent ones."""

    ORDINARY = 4
    """Those that are names too, and rather words: "may", "baker"."""

    GIVEN = 8
    """Given names of many cultures."""

    FAMILY = 16
    """Family names of many cultures."""

    TOWN = 32
    """Towns, countries and states."""


@cache
def given() -> frozenset[str]:
    """Given names in lower case, of many cultures."""
    return _names("given") | words_of("nicknames")


def family() -> frozenset[str]:
    """Family names in lower case, of many cultures."""
    return _names("family")


@cache
def _names(kind: str) -> frozenset[str]:
    return _list("names.txt", kind) | _list("names.txt", "both")


def is_name(word: str) -> bool:
    """Whether a word in lower case is a given or a family name, with its accents or without."""
    return _is_in(given(), word) or _is_in(family(), word)


def _is_in(names: frozenset[str], word: str) -> bool:
    return word in names or (not word.isascii() and ascii_of(word) in names)


def ascii_of(word: str) -> str:
    """A word in lower case without accents."""
    if word.isascii():
        return word
    parts = unicodedata.normalize("NFKD", word.replace("ł", "l").replace("ß", "ss"))
    return "".join(part for part in parts if not unicodedata.combining(part))


@cache
def towns() -> frozenset[str]:
    """Towns, countries and states in lower case, some of several words."""
    return _list("towns.txt", "towns")


@cache
def common(language: str) -> frozenset[str]:
    """Frequent words of a language in lower case; of English also its names."""
    words = _list("words.txt", language)
    return words | frequencies.word_set() if language == "en" else words


def lists_of(word: str, language: str) -> int:
    """Returns the :class:`Listed` that a word is in; one of several parts is as its last part is.

    Args:
        word: In lower case, without a possessive. Private.
        language: Of the text; where it is another one English words are known too.
    """
    if found := _lists_of(word, language):
        return found
    last = re.split(r"[-.'’]", word)[-1]
    return _lists_of(last, language) if 1 < len(last) < len(word) else 0


def _lists_of(word: str, language: str) -> int:
    languages = {language, "en"}
    is_frequent = word in _frequent(language) or word in frequencies.stop_words()
    is_ordinary = any(word in _list("words.txt", f"{each} names") for each in languages)
    return int(
        any(_is_word(word, each) for each in languages) * Listed.WORD
        | is_frequent * Listed.FREQUENT
        | is_ordinary * Listed.ORDINARY
        | _is_in(given(), word) * Listed.GIVEN
        | _is_in(family(), word) * Listed.FAMILY
        | (word in towns()) * Listed.TOWN
    )


def _is_word(word: str, language: str) -> bool:
    words = common(language)
    if word in words or word.replace("ß", "ss") in words:  # as the list spells it
        return True
    if language in ("de", "nl"):  # what ends in a word is one: "Kundennummer"
        return any(word[k:] in words for k in range(max(3, len(word) - _LONGEST), len(word) - 4))
    return False


def language_of(text: str) -> str:
    """The language of a text, by its most frequent words; English where nothing tells.

    Private; one of :data:`LANGUAGES`.
    """
    scores = Counter({each: words.total() for each, words in told(text).items()})
    if max(scores[each] for each in LANGUAGES) < _TELLING:  # as of a form, or a line
        for word in {each for each in WORD.findall(text.lower()) if len(each) > 3}:
            known = [] if is_name(word) else [each for each in LANGUAGES if word in common(each)]
            scores.update(known if len(known) < 3 else ())
    best = max(LANGUAGES, key=lambda each: scores[each])
    return best if scores[best] > scores["en"] else "en"


def told(text: str) -> dict[str, Counter[str]]:
    """Counts the words of a private text that tell languages, by :data:`LANGUAGES` or a name."""
    found: dict[str, Counter[str]] = {}
    for word in WORD.findall(text.lower()):
        for language in _telling().get(word, ()):
            found.setdefault(language, Counter())[word] += 1
    return found


def _frequent(language: str) -> frozenset[str]:
    return _list("words.txt", f"{language} frequent")


@cache
def _telling() -> dict[str, list[str]]:
    """Which languages a word tells: of ours, or other ones in Latin letters by their names."""
    languages: dict[str, list[str]] = {}
    for name in _lines("words.txt"):
        if name.endswith(" frequent") or name.startswith("other "):
            for word in _list("words.txt", name):
                languages.setdefault(word, []).append(
                    name.removeprefix("other ").removesuffix(" frequent")
                )
    return languages


@cache
def _list(file: str, name: str) -> frozenset[str]:
    return frozenset(_lines(file)[name].split("|" if name == "towns" else None))


@cache
def _lines(file: str) -> dict[str, str]:
    """Lists by name, each as one line, which is taken apart when it is asked for."""
    if file == "names.txt":  # with what is imported for the first text
        _log.info("loading names, 1 s")
    text = gzip.decompress((DATA / f"{file}.gz").read_bytes()).decode()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name[1:-1]: line for name, line in zip(lines[::2], lines[1::2], strict=True)}
