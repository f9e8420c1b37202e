"""The shipped frequencies of English words: dp_middleware/vocabulary/data/english.txt.

    pip install wordfreq==3.1.1
    python benchmarks/english_words.py

writes the most frequent words of wordfreq's large English list, in whole decibels. wordfreq merges
counts of eight kinds of public text; its data may be passed on under CC BY-SA 4.0, and so may this
file. The package itself is no dependency: 57 MB and four packages for a list of 0.2 MB.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections import defaultdict
from pathlib import Path

from wordfreq import get_frequency_dict

WORDS = 30_000
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
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)*")


def main() -> None:
    """Write the file."""
    frequencies = get_frequency_dict("en", wordlist="large")
    words = [word for word in frequencies if _WORD.fullmatch(word)]
    words.sort(key=lambda word: (-frequencies[word], word))
    levels: dict[int, list[str]] = defaultdict(list)
    for word in words[:WORDS]:
        levels[round(-10 * math.log10(frequencies[word]))].append(word)
    lines = [
        f"{level} {line}"
        for level in sorted(levels)
        for line in textwrap.wrap(" ".join(sorted(levels[level])), width=96)
    ]
    FILE.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")
    print(f"{FILE.stat().st_size} bytes, {min(len(words), WORDS)} words, {len(levels)} levels")


if __name__ == "__main__":
    main()
