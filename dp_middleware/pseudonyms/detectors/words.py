"""Public lists of names, towns and common words, and which language a text is in."""

from __future__ import annotations

import gzip
import logging
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection
from enum import IntEnum
from functools import cache, lru_cache

from dp_middleware.pseudonyms.detectors.cues import DATA, words as words_of
from dp_middleware.vocabulary import frequencies

LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "pl")
"""Whose words and signs are known."""

WORD = re.compile(r"[^\W\d_]+(?:['’.-](?=[^\W\d_])[^\W\d_]+)*")
"""A word, with the hyphens and apostrophes in it."""

_log = logging.getLogger("dp_middleware.pseudonyms")
_CASE = re.compile(r"i?(?:a|ą|e|ę|u|em|owi|ami|ach|om|ego|emu|ej|im)|[iy]")  # of Polish
_TELLING = 5  # words that surely tell a language
_FREQUENT = 10_000  # words of English that are no names even beside one


class Class(IntEnum):
    """What a word is by the lists."""

    WORD = 0
    """A common word, and no name."""

    COMMON = 1
    """A very common word of a language that is a name too: "may", "young"."""

    BOTH = 2
    """A word of a language and a name: "baker", "rose"."""

    UNKNOWN = 3
    """In no list."""

    NAME = 4
    """A name, and no word of the language."""


@cache
def given() -> frozenset[str]:
    """Given names in lower case, of many cultures."""
    return _list("names.txt", "given") | _list("names.txt", "both") | words_of("nicknames")


@cache
def family() -> frozenset[str]:
    """Family names in lower case, of many cultures."""
    return _list("names.txt", "family") | _list("names.txt", "both")


def is_name(word: str) -> bool:
    """Whether a word in lower case is a given or a family name, with its accents or without."""
    return is_given(word) or is_family(word)


def is_given(word: str) -> bool:
    """Whether a word in lower case is a given name."""
    return word in given() or (not word.isascii() and ascii_of(word) in given())


def is_family(word: str) -> bool:
    """Whether a word in lower case is a family name."""
    return word in family() or (not word.isascii() and ascii_of(word) in family())


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
    words = _list("words.txt", language) | words_of("technical")
    return words | frequencies.word_set() if language == "en" else words


@lru_cache(20_000)
def class_of(word: str, language: str) -> Class:
    """What a word is, whose parts may be joined by hyphens.

    Args:
        word: In lower case, without a possessive.
        language: Of the text; where it is another one English words are known too.
    """
    parts = re.split(r"[-.'’]", word)
    known = Class.UNKNOWN if "-" in word and is_family(parts[-1]) else _class_of(word, language)
    if known is not Class.UNKNOWN or not parts[1:]:
        return known
    classes = {_class_of(part, language) for part in parts if len(part) > 1}
    return max(classes, default=Class.WORD)


def _class_of(word: str, language: str) -> Class:
    if word in _public() or (language == "de" and word in _list("words.txt", "de nouns")):
        return Class.WORD
    if is_name(word):
        if word in _list("words.txt", "en words") or word in frequencies.stop_words():
            return Class.COMMON
        if language == "de" and is_frequent(word, language) and word not in towns():
            return Class.COMMON  # "Mein" stands before nouns, which have capitals
        is_word = any(word in _list("words.txt", f"{each} names") for each in (language, "en"))
        if word in words_of("nicknames"):
            is_word = word in words_of("word_nicknames") or (
                language != "en" and word in common(language)
            )
        if not word.isascii() and word not in given() and word not in family():
            is_word = word in common(language)
        return Class.BOTH if is_word else Class.NAME
    if any(_is_word(word, each) for each in {language, "en"}):
        return Class.WORD
    return (
        Class.NAME if language == "pl" and is_case_of(word, is_given, language) else Class.UNKNOWN
    )


def _is_word(word: str, language: str) -> bool:
    words = common(language)
    if word in words or word.replace("ß", "ss") in words:  # as the list spells it
        return True
    if language == "en" and word.endswith("'s"):
        return word[:-2] in words
    if language in ("de", "nl"):  # what ends in a word is one: "Kundennummer"
        return any(word[k:] in words for k in range(3, len(word) - 4))
    return False


def is_case_of(word: str, names: Callable[[str], bool], language: str) -> bool:
    """Whether a word is a name in another case: "Pawła", "Krakowie", "Kölns".

    Args:
        word: In lower case.
        names: Tells names in lower case; of Polish ones also without accents.
        language: Of the text.
    """
    if language == "pl":
        stems = {
            word[:-n] for n in (1, 2, 3, 4) if len(word) - n > 2 and _CASE.fullmatch(word[-n:])
        }
        stems |= {f"{stem[:-1]}e{stem[-1]}" for stem in stems}  # Paweł
        return any(names(ascii_of(stem) + end) for stem in stems for end in ("", *"aoeyi"))
    if language not in ("de", "en", "nl") or word[-1] != "s" or word in common(language):
        return False
    return names(word[:-1])


def is_town(word: str, language: str) -> bool:
    """Whether a word in lower case is a town, in any case of a language."""
    if word in towns() or language == "en":
        return word in towns()
    if language == "de" and word[-1:] == "s" and len(word) > 6:
        return word[:-1] in towns()  # "Münchens", whatever words end so
    known = _plain_towns() if language == "pl" else towns()
    return is_case_of(word, known.__contains__, language)


@cache
def _plain_towns() -> frozenset[str]:
    return frozenset(map(ascii_of, towns()))


def may_be_name(word: str, language: str) -> bool:
    """Whether a word is rare, or as frequent in other languages, as names of the news are."""
    if language != "en" and word in common(language):
        return False
    is_shared = word in _list("words.txt", "en shared") or word not in _frequent_words()
    return is_shared and word not in _public()


@cache
def _frequent_words() -> frozenset[str]:
    return frozenset(frequencies.words()[:_FREQUENT])


def is_public_word(word: str) -> bool:
    """Tells whether a word in lower case names a people, a tool or the like, or greets."""
    return word in _public()


def is_rarely_a_word(word: str) -> bool:
    """Tells whether a word in lower case has four letters and is rare in English, or none."""
    return len(word) > 3 and word not in _frequent_words()


def language_of(text: str) -> str:
    """The language of a text, by its most frequent words; English where nothing tells.

    Private; one of :data:`LANGUAGES`.
    """
    scores = Counter({each: words.total() for each, words in told(text).items()})
    if max(scores[each] for each in LANGUAGES) < _TELLING:  # as of a form, or a line
        for word in {each for each in WORD.findall(text.lower()) if len(each) > 3}:
            known = [] if is_name(word) else [each for each in LANGUAGES if word in _known(each)]
            scores.update(known if len(known) < 3 else ())
    best = max(LANGUAGES, key=lambda each: scores[each])
    return best if scores[best] > scores["en"] else "en"


def _known(language: str) -> Collection[str]:
    return common("en") if language == "en" else _list("words.txt", language)


def told(text: str) -> dict[str, Counter[str]]:
    """Counts the words of a private text that tell languages, by :data:`LANGUAGES` or a name."""
    found: dict[str, Counter[str]] = {}
    for word in WORD.findall(text.lower()):
        for language in _telling().get(word, ()):
            found.setdefault(language, Counter())[word] += 1
    return found


def is_frequent(word: str, language: str) -> bool:
    """Tells whether a word in lower case is one of the most frequent of a language but English."""
    return language != "en" and word in _frequent()[language]


@cache
def _public() -> frozenset[str]:
    return words_of("peoples") | words_of("technical") | words_of("greetings")


@cache
def _frequent() -> dict[str, frozenset[str]]:
    """Words that are frequent in one language, by language."""
    names = [name for name in _lines("words.txt") if "frequent" in name]
    return {name[:2]: _list("words.txt", name) for name in names}


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
