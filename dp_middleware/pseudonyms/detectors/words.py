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
from dp_middleware.pseudonyms.cues import CUES, DATA, rules, words as words_of
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
def _names(of: str) -> frozenset[str]:
    """Given or family names in lower case, of many cultures."""
    nicknames = words_of("nicknames") if of == "given" else frozenset[str]()
    return _list("names.txt", of) | _list("names.txt", "both") | nicknames


def _is_name(of: str, word: str) -> bool:
    return word in _names(of) or (not word.isascii() and ascii_of(word) in _names(of))


def ascii_of(word: str) -> str:
    """A word in lower case without accents."""
    if word.isascii():
        return word
    parts = unicodedata.normalize("NFKD", word.replace("ł", "l").replace("ß", "ss"))
    return "".join(part for part in parts if not unicodedata.combining(part))


@cache
def common(language: str) -> frozenset[str]:
    """Frequent words of a language in lower case; of English also its names."""
    words = _list("words.txt", language)
    return words | frequencies.word_set() if language == "en" else words


def lists_of(word: str, language: str) -> int:
    """Returns the :class:`Listed` of a word in lower case; of several parts, those of the last."""
    languages = {language, "en"}
    is_frequent = word in _list("words.txt", f"{language} frequent")
    is_ordinary = any(word in _list("words.txt", f"{each} names") for each in languages)
    found = int(
        any(_is_word(word, each) for each in languages) * Listed.WORD
        | (is_frequent or word in frequencies.stop_words()) * Listed.FREQUENT
        | is_ordinary * Listed.ORDINARY
        | _is_name("given", word) * Listed.GIVEN
        | _is_name("family", word) * Listed.FAMILY
        | (word in _list("towns.txt", "towns")) * Listed.TOWN
    )
    last = "" if found else re.split(r"[-.'’]", word)[-1]
    return lists_of(last, language) if 1 < len(last) < len(word) else found


def _is_word(word: str, language: str) -> bool:
    words = common(language)
    if word in words or word.replace("ß", "ss") in words:  # as the list spells it
        return True
    if language in ("de", "nl"):  # what ends in a word is one: "Kundennummer"
        return any(word[k:] in words for k in range(max(3, len(word) - _LONGEST), len(word) - 4))
    return False


def language_of(text: str) -> str:
    """Tells the language of a private text by its most frequent words; else English."""
    scores = Counter({each: words.total() for each, words in _told(text).items()})
    if max(scores[each] for each in LANGUAGES) < _SURE:  # as of a form, or a line
        for word in {each for each in WORD.findall(text.lower()) if len(each) > 3}:
            is_name = _is_name("given", word) or _is_name("family", word)
            known = [each for each in LANGUAGES if not is_name and word in common(each)]
            scores.update(known if len(known) < 3 else ())
    best = max(LANGUAGES, key=lambda each: scores[each])
    return best if scores[best] > scores["en"] else "en"


def _told(text: str) -> dict[str, Counter[str]]:
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
            language = name.removeprefix("other ").removesuffix(" frequent")
            for word in _list("words.txt", name):
                languages.setdefault(word, []).append(language)
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
_LATIN, _OTHER, _DENSE, _KANA, _PARTICLE = rules(
    "unknown", "latin", "other", "dense", "kana", "particle"
)
_PER_WORD = 3  # letters of a script without blanks that count as a word
_SENTENCE, _MOSTLY = 5, 4  # words in a row of another script; in a text that is mostly in it
_PHRASE = 6  # letters of Chinese or Japanese with a particle among them
_TELLING, _SHARE = 3, 0.05  # words of a language that tell it: different ones, and of all words


def on_unknown(text: str, on_language: OnLanguage) -> tuple[str, ...]:
    """Returns what a certificate says of a text with unknown names that goes out, or refuses it."""
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

    Its script tells it, or words that are frequent in it and rare in the known ones, as
    docs/pseudonyms.md says. A name, and a short or mixed text, tells nothing.
    """
    if not text.isascii() and (script := _other_script(text)):
        return script
    ranks = [(words.total(), len(words), language) for language, words in _told(text).items()]
    most = max((score for score, _, language in ranks if language in LANGUAGES), default=0)
    ranks = [rank for rank in ranks if rank[2] not in LANGUAGES]
    score, different, best = max(ranks, default=(0, 0, ""))
    is_told = different >= _TELLING and score > most
    return best if is_told and score > _SHARE * len(WORD.findall(text)) else None


def _other_script(text: str) -> str | None:
    """What a text is in by its letters; a single one between others, as in formulas, is none."""
    passages = [
        [word for each in piece.split() if len(word := "".join(_OTHER.findall(each))) > 1]
        for piece in _LATIN.split(text)
    ]
    words = [word for passage in passages for word in passage]
    letters = "".join(words)
    latin = sum(len(match.group()) for match in _LATIN.finditer(text))
    is_mostly = not latin or (_size(words) >= _MOSTLY and len(letters) > latin)
    if not letters or not (is_mostly or any(map(_is_sentence, passages))):
        return None
    if _KANA.search(letters):
        return "Japanese"
    counts = Counter(unicodedata.name(letter, "other").split()[0] for letter in letters)
    script: str = max(counts, key=counts.__getitem__)
    return str(CUES["script_names"].get(script, f"{script.title()} letters"))


def _size(words: list[str]) -> float:
    """How many words they are, also without blanks between them."""
    return max(len(words), len(_DENSE.findall("".join(words))) / _PER_WORD)


def _is_sentence(words: list[str]) -> bool:
    """Whether what stands without a Latin letter in it says something."""
    joined = "".join(words)
    is_phrase = len(_DENSE.findall(joined)) >= _PHRASE and _PARTICLE.search(joined) is not None
    return is_phrase or _size(words) >= _SENTENCE
