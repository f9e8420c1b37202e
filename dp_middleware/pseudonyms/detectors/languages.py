"""What happens to a text in a language whose names the default detector does not know."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections import Counter
from typing import Literal

from dp_middleware.errors import UnknownLanguage
from dp_middleware.pseudonyms.detectors.words import LANGUAGES, WORD, told

OnLanguage = Literal["refuse", "warn", "pass"]

KNOWN = "English, German, French, Spanish, Italian, Portuguese, Dutch and Polish"
"""Whose names are known."""

_log = logging.getLogger("dp_middleware.pseudonyms")
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
    """Refuses a text, or says in which language it is, if names in it would go out as they are.

    Args:
        text: What goes out as it is; public.
        on_language: As of :class:`~dp_middleware.Pseudonyms`.

    Returns:
        What its certificate says of it.

    Raises:
        UnknownLanguage: It is in one that is not known, and refused.
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

    Returns:
        Such as ``"Chinese"`` or ``"Cyrillic letters"``; ``None`` where nothing tells.
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
