"""The shipped frequencies of English words: english.txt and keywords.txt.gz in vocabulary/data.

    pip install wordfreq==3.1.1 better-profanity==0.7.0
    python benchmarks/english_words.py

writes of wordfreq's large English list the most frequent words in whole decibels, and more of them
as the counts that keyword codes are made of: without stop words and what better-profanity lists,
with its inflections. wordfreq merges counts of eight kinds of public text; its data may be passed
on under CC BY-SA 4.0, and so may these files. The package itself is no dependency: 57 MB and four
packages for lists of 0.8 MB.
"""

import gzip
import math
import re
import textwrap
from collections import defaultdict
from pathlib import Path

from codewords import blocked, forms
from wordfreq import get_frequency_dict

from dp_middleware.vocabulary.frequencies import stop_words

WORDS = 30_000
KEYWORDS = 160_000
OF = 10**10  # words of which a count is
FILE = Path(__file__).parents[1] / "dp_middleware" / "vocabulary" / "data" / "english.txt"
HEAD = """\
# English words in lower case, by how often they occur: "26 way year" says that each of the two is
# 10^(-26/10) of the words of a text. Made by benchmarks/english_words.py from wordfreq 3.1.1, Robyn
# Speer (2022), https://doi.org/10.5281/zenodo.7199437: the 30,000 most frequent words of letters
# and apostrophes, frequencies rounded to whole decibels.
# This file, unlike the program, is under Creative Commons Attribution-ShareAlike 4.0,
# https://creativecommons.org/licenses/by-sa/4.0/, as the data of wordfreq are. Those derive from
# Wikipedia, Google Books Ngrams (http://books.google.com/ngrams), OPUS OpenSubtitles 2018
# (http://www.opensubtitles.org/), ParaCrawl, the Leeds Internet Corpus, web text, Twitter, and
# SUBTLEX-US and SUBTLEX-UK, freely available data by Marc Brysbaert et al.
# (http://crr.ugent.be/programs-data/subtitle-frequencies).
"""
KEYWORDS_HEAD = """\
# English words in lower case without stop words: "398 quorum" says that it is 398 of 10^10 words of
# a text, in steps of one decibel. Made by benchmarks/english_words.py from wordfreq 3.1.1, of words
# of two ASCII letters or more the 160,000 most frequent, without the words that better-profanity
# 0.7.0 lists (Son Nguyen Thanh, MIT).
""" + HEAD.partition("frequencies rounded to whole decibels.\n")[2]
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)*")


def levels(words: list[str], frequencies: dict[str, float]) -> dict[int, list[str]]:
    """The words of each whole decibel, in the order of the alphabet."""
    found: dict[int, list[str]] = defaultdict(list)
    for word in sorted(words):
        found[round(-10 * math.log10(frequencies[word]))].append(word)
    return dict(sorted(found.items()))


def keywords(words: list[str], frequencies: dict[str, float]) -> str:
    """The text of keywords.txt.gz."""
    bad = blocked() | stop_words()
    plain = (word for word in words if len(word) > 1 and "'" not in word)
    kept = [word for word in plain if bad.isdisjoint(forms(word))][:KEYWORDS]
    lines = [
        f"{round(OF * 10 ** (-level / 10))} {' '.join(some)}"
        for level, some in levels(kept, frequencies).items()
    ]
    return KEYWORDS_HEAD + "\n".join(lines) + "\n"


def main() -> None:
    """Write both files."""
    frequencies = get_frequency_dict("en", wordlist="large")
    words = [word for word in frequencies if _WORD.fullmatch(word)]
    words.sort(key=lambda word: (-frequencies[word], word))
    target = FILE.with_name("keywords.txt.gz")
    target.write_bytes(gzip.compress(keywords(words, frequencies).encode(), mtime=0))
    grouped = levels(words[:WORDS], frequencies)
    lines = [
        f"{level} {line}"
        for level, some in grouped.items()
        for line in textwrap.wrap(" ".join(some), width=96)
    ]
    FILE.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")
    for path in (FILE, target):
        print(f"{path.stat().st_size} bytes of {path.name}")


if __name__ == "__main__":
    main()
