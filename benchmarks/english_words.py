"""The shipped lists of English words in vocabulary/data, which codes and codebooks are made of.

    pip install wordfreq==3.1.1 better-profanity==0.7.0
    python benchmarks/english_words.py

``english.txt`` and ``keywords.txt.gz`` are of wordfreq's large English list: the most frequent
words in whole decibels, and more of them as the counts that keyword codes are made of, without stop
words and what better-profanity lists. ``codewords.txt`` has what a shipped codebook may hold: words
of english.txt that the dictionary's own sentences (english_units.txt) write in small letters: so no
names of persons, places and brands. What better-profanity lists is left out, and words that read as
violence or contempt where another word stood; the same for units of several words, which are
written anew. Inflections count as their words.
"""

import gzip
import math
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from importlib.resources import files

import pages
from wordfreq import get_frequency_dict

from dp_middleware.vocabulary import frequencies

PACKAGE = pages.ROOT / "dp_middleware"
DATA = PACKAGE / "vocabulary" / "data"
UNITS = PACKAGE / "mechanisms" / "data" / "english_units.txt"
WORDS, KEYWORDS = 30_000, 160_000
HEADS = pages.LISTS["heads"]
OF = 10**10  # words of which a count is
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)*")
_WRITTEN = re.compile(r"[A-Za-z][A-Za-z'-]*")
PUBLIC = ("months", "weekdays", "number_words", "ordinals")
GRIM, PERSONS = (set(pages.LISTS["words"][name].split()) for name in ("grim", "persons"))
ENDINGS = [("s", ""), ("es", ""), ("ies", "y"), ("ed", ""), ("ed", "e"), ("ied", "y"), ("ing", "")]
ENDINGS += [("ing", "e"), ("er", ""), ("er", "e"), ("ers", "er"), ("est", ""), ("ly", "")]


def forms(word: str) -> Iterator[str]:
    """The word, and those that it may be an inflection of."""
    yield word
    for ending, instead in ENDINGS:
        stem = word.removesuffix(ending) + instead
        if word.endswith(ending) and len(stem) > 3:
            yield stem
            if ending[0] == "e" or ending == "ing":
                yield re.sub(r"(.)\1$", r"\1", stem)  # stopped, running


def blocked() -> frozenset[str]:
    """Slurs, obscenities and the like, of a public list, in lower case."""
    listed = files("better_profanity") / "profanity_wordlist.txt"
    return frozenset(line.strip().lower() for line in listed.read_text("utf-8").splitlines())


def levels(words: list[str], shares: dict[str, float]) -> list[tuple[int, list[str]]]:
    """The words of each whole decibel, in the order of the alphabet."""
    found: dict[int, list[str]] = defaultdict(list)
    for word in sorted(words):
        found[round(-10 * math.log10(shares[word]))].append(word)
    return sorted(found.items())


def write_words() -> None:
    shares = get_frequency_dict("en", wordlist="large")
    words = sorted(filter(_WORD.fullmatch, shares), key=lambda word: (-shares[word], word))
    bad = blocked() | frequencies.stop_words()
    plain = (word for word in words if len(word) > 1 and "'" not in word)
    kept = [word for word in plain if bad.isdisjoint(forms(word))][:KEYWORDS]
    lines = [f"{round(OF * 10 ** (-n / 10))} {' '.join(some)}" for n, some in levels(kept, shares)]
    text = HEADS["keywords"] + "\n".join(lines) + "\n"
    (DATA / "keywords.txt.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    wrapped = [(n, textwrap.wrap(" ".join(some), 96)) for n, some in levels(words[:WORDS], shares)]
    lines = [f"{level} {line}" for level, some in wrapped for line in some]
    (DATA / "english.txt").write_text(HEADS["english"] + "\n".join(lines) + "\n", "utf-8")


def write_codewords() -> None:
    """Of the words and the units that ship, which are written again without bad words."""
    bad, units = blocked(), UNITS.read_text("utf-8").splitlines()
    words = {unit: _WRITTEN.findall(unit) for unit in units if unit[0] != "#"}
    sentences = [words[unit] for unit in words if unit.count(" ") > 2]
    ordinary = {word for some in sentences for word in some if word.islower()}
    for name in PUBLIC:
        ordinary |= {*(DATA / f"{name}.txt").read_text("utf-8").lower().split()}
    plain = (w for w in frequencies.words() if not ordinary.isdisjoint(forms(w)))
    kept = sorted(word for word in plain if (bad | GRIM).isdisjoint(forms(word)))
    text = HEADS["codewords"] + "\n".join(textwrap.wrap(" ".join(kept), 98)) + "\n"
    (DATA / "codewords.txt").write_text(text, "utf-8")
    refused = bad | PERSONS
    lines = [u for u in units if refused.isdisjoint(w.lower() for w in words.get(u, ()))]
    UNITS.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    write_words()
    write_codewords()
