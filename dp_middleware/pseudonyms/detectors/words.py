"""Public lists of names, towns and common words, and which language a text is in."""

from __future__ import annotations

import gzip
import logging
import re
import unicodedata
from collections import Counter
from enum import IntFlag
from functools import cache
from typing import Literal

from dp_middleware.errors import UnknownLanguage
from dp_middleware.pseudonyms.cues import DATA, words as words_of
from dp_middleware.vocabulary import frequencies

LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "pl")  # whose words and signs are known
WORD = re.compile(r"[^\W\d_]+(?:['’.-](?=[^\W\d_])[^\W\d_]+)*")  # with hyphens and apostrophes
_log = logging.getLogger("dp_middleware.pseudonyms")
_LONGEST = 30  # letters of the last word in a compound
_SURE = 5  # words that surely tell a language


class Listed(IntFlag):
    """The lists that a word is in."""

    WORD = 1  # of the text's language or of English
    FREQUENT = 2
    ORDINARY = 4  # of those that are names too, rather words: "may", "baker"
    GIVEN = 8  # names of many cultures
    FAMILY = 16
    TOWN = 32  # or country, or state


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
    """Returns the :class:`Listed` of a word in lower case; of several parts, those of the last."""
    if found := _lists_of(word, language):
        return found
    last = re.split(r"[-.'’]", word)[-1]
    return _lists_of(last, language) if 1 < len(last) < len(word) else 0


def _lists_of(word: str, language: str) -> int:
    languages = {language, "en"}
    frequent = _list("words.txt", f"{language} frequent")
    is_frequent = word in frequent or word in frequencies.stop_words()
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
    """Tells the language of a private text by its most frequent words; else English."""
    scores = Counter({each: words.total() for each, words in told(text).items()})
    if max(scores[each] for each in LANGUAGES) < _SURE:  # as of a form, or a line
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


OnLanguage = Literal["refuse", "warn", "pass"]

KNOWN = "English, German, French, Spanish, Italian, Portuguese, Dutch and Polish"
_LATIN = (  # with phonetic, mathematical and letterlike signs
    r"A-Za-z\u00aa-\u02ff\u1d00-\u1eff\u2100-\u218f\u2c60-\u2c7f\ua720-\ua7ff\uab30-\uab6f"
    r"\ufb00-\ufb06\uff21-\uff5a\U0001d400-\U0001d7ff"
)
_WRITTEN = re.compile(rf"[{_LATIN}]+")
_OTHER = re.compile(rf"[^\W\d_{_LATIN}]")
_DENSE = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]"
)
_KANA = re.compile("[\u3040-\u30ff]")
_PARTICLE = re.compile("[的是在了我你他她们們这這就说說请請吗嗎吧呢把被很はがをでにのす]")
_NAMES = {
    "CJK": "Chinese",
    "HANGUL": "Korean",
    "THAI": "Thai",
    "GREEK": "Greek",
    "HEBREW": "Hebrew",
}
_PER_WORD = 3  # letters of a script without blanks that count as a word
_SENTENCE, _MOSTLY = 5, 4  # words in a row of another script; in a text that is mostly in it
_PHRASE = 6  # letters of Chinese or Japanese with a particle among them
_TELLING, _SHARE = 3, 0.05  # words of a language that tell it: different ones, and of all words


def on_unknown(text: str, on_language: OnLanguage) -> tuple[str, ...]:
    """Returns what a certificate says of a text that goes out, if names in it may be missed.

    UnknownLanguage: it is in a language that is not known, and refused.
    """
    language = unknown_language(text)
    if language is None:
        return ()
    if on_language == "refuse":
        raise UnknownLanguage(
            f"expected a text in {KNOWN}, got one in {language}, in which most names would go out "
            'as they are; give a detector= of yours, rest="common" or a sanitizer=, or let it out '
            'with on_language="pass"'
        )
    note = f"this text is in {language}: the default detector finds few of its names"
    if on_language == "warn":
        _log.warning("%s, and they went out as they are", note)
    return (note,)


def unknown_language(text: str) -> str | None:
    """Returns the language of a text, or of a sentence in it, that is none of :data:`KNOWN`.

    Another script tells it, where all letters are of it, five words in a row, or most letters and
    four words. A language in Latin letters is told by words that are frequent in it and rare in
    the known ones: three different ones, a twentieth of all words, and more than tell any of
    these. A name, and a short or mixed text, tells nothing.
    """
    if not text.isascii() and (script := _other_script(text)):
        return script
    found = told(text)
    scores = {language: words.total() for language, words in found.items()}
    most = max(scores.get(each, 0) for each in LANGUAGES)
    rank = lambda each: (scores[each], len(found[each]), each)  # noqa: E731
    best = max(scores.keys() - {*LANGUAGES}, key=rank, default=None)
    if best is None or len(found[best]) < _TELLING or scores[best] <= most:
        return None
    return best if scores[best] > _SHARE * len(WORD.findall(text)) else None


def _other_script(text: str) -> str | None:
    """What a text is in by its letters; a single one between others, as in formulas, is none."""
    passages = [_words(piece) for piece in _WRITTEN.split(text)]
    words = [word for passage in passages for word in passage]
    if not words:
        return None
    latin = sum(len(match.group()) for match in _WRITTEN.finditer(text))
    letters = "".join(words)
    is_mostly = not latin or (_size(words) >= _MOSTLY and len(letters) > latin)
    if not is_mostly and not any(map(_is_sentence, passages)):
        return None
    if _KANA.search(letters):
        return "Japanese"
    counts = Counter(unicodedata.name(letter, "other").split()[0] for letter in letters)
    script = max(counts, key=counts.__getitem__)
    return _NAMES.get(script, f"{script.title()} letters")


def _words(piece: str) -> list[str]:
    """The words of a piece without Latin letters that have two letters."""
    return [word for each in piece.split() if len(word := "".join(_OTHER.findall(each))) > 1]


def _size(words: list[str]) -> float:
    """How many words they are, also without blanks between them."""
    return max(len(words), len(_DENSE.findall("".join(words))) / _PER_WORD)


def _is_sentence(words: list[str]) -> bool:
    """Whether what stands without a Latin letter in it says something."""
    joined = "".join(words)
    is_phrase = len(_DENSE.findall(joined)) >= _PHRASE and _PARTICLE.search(joined) is not None
    return is_phrase or _size(words) >= _SENTENCE
