"""The shipped lists of English words in vocabulary/data, which codes and codebooks are made of.

    pip install wordfreq==3.1.1 better-profanity==0.7.0
    python benchmarks/english_words.py

``english.txt`` and ``keywords.txt.gz`` are of wordfreq's large English list: the most frequent
words in whole decibels, and more of them as the counts that keyword codes are made of, without stop
words and what better-profanity lists, with its inflections. wordfreq's data may be passed on under
CC BY-SA 4.0, and so may these files; 57 MB and four packages for lists of 0.8 MB are no dependency.

``codewords.txt`` has what a shipped codebook may hold: words of english.txt that the dictionary's
own sentences (definitions and examples of Open English WordNet, english_units.txt) write in small
letters, or inflections of such words. So there are no names of persons, places and brands. What
better-profanity lists is left out, with its inflections; the same for units of several words, which
are written anew. So are, as single words, those that read as violence or contempt where another
word stood.
"""

import gzip
import math
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from wordfreq import get_frequency_dict

from dp_middleware.vocabulary import frequencies

PACKAGE = Path(__file__).parents[1] / "dp_middleware"
DATA = PACKAGE / "vocabulary" / "data"
UNITS = PACKAGE / "mechanisms" / "data" / "english_units.txt"
WORDS, KEYWORDS = 30_000, 160_000
OF = 10**10  # words of which a count is
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
PUBLIC = ("months", "weekdays", "number_words", "ordinals")
_GRIM = """
abort abuse addict assassin atrocity attacker barbaric behead bomb brutal bugger cannibal captive
carter casualty colored colony concubine coolie corpse coup cremate cripple cruel cult curse
cyanide dead death decapitate deport destroy devil dictator die dictatorship disgust doom drown
drug dwarf enslave execute execution executioner explode explosive exterminate evil extremist
fascism fascist feeble filth filthy genocide ghetto grave greed guerrilla gun hang harass hate
hatred heathen holocaust homicide hostage hypocrite idiot ignorant imbecile immoral infidel
inferior insane invade jihad kidnap lesbian lethal lunatic lust lynch madman maniac martyr mass
massacre missile mistress molest moron musk mutilate native obese obscene oppress oriental orphan
parasite perverse pervert plague poison primitive prison prisoner prostitute prostitution race
racial racism racist ransom refugee rifle rob savage sin slaughter slavery sniper starve strangle
suicide swastika tank terror terrorism terrorist thief torture traitor tribe tyrant ugly victim
vile violence violent vomit war weapon whites whore wicked witch yellow blacks
"""
GRIM = frozenset(_GRIM.split())
"""Words of violence, contempt and groups of people: no harm in a text, but in the place of another
word."""

PERSONS = {"stalin", "mussolini", "clinton", "bush", "obama", "trump", "putin", "nixon", "reagan"}
ENDINGS = [("s", ""), ("es", ""), ("ies", "y"), ("ed", ""), ("ed", "e"), ("ied", "y"), ("ing", "")]
ENDINGS += [("ing", "e"), ("er", ""), ("er", "e"), ("ers", "er"), ("est", ""), ("ly", "")]
CODEWORDS_HEAD = """\
# Ordinary English words in lower case: what a codebook may hold. Made by
# benchmarks/english_words.py from english.txt (wordfreq, CC BY-SA 4.0) and the sentences of
# english_units.txt (Open English WordNet, CC BY 4.0 and WordNet License), without the words that
# better-profanity 0.7.0 lists (Son Nguyen Thanh, MIT). This file, unlike the program, is under
# Creative Commons Attribution-ShareAlike 4.0, https://creativecommons.org/licenses/by-sa/4.0/.
"""


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


def words_of(unit: str) -> list[str]:
    """Its words, as they are written."""
    return re.findall(r"[A-Za-z][A-Za-z'-]*", unit)


def levels(words: list[str], shares: dict[str, float]) -> dict[int, list[str]]:
    """The words of each whole decibel, in the order of the alphabet."""
    found: dict[int, list[str]] = defaultdict(list)
    for word in sorted(words):
        found[round(-10 * math.log10(shares[word]))].append(word)
    return dict(sorted(found.items()))


def keywords(words: list[str], shares: dict[str, float]) -> str:
    """The text of keywords.txt.gz."""
    bad = blocked() | frequencies.stop_words()
    plain = (word for word in words if len(word) > 1 and "'" not in word)
    kept = [word for word in plain if bad.isdisjoint(forms(word))][:KEYWORDS]
    lines = [
        f"{round(OF * 10 ** (-level / 10))} {' '.join(some)}"
        for level, some in levels(kept, shares).items()
    ]
    return KEYWORDS_HEAD + "\n".join(lines) + "\n"


def write_words() -> None:
    """Of wordfreq's list."""
    shares = get_frequency_dict("en", wordlist="large")
    words = [word for word in shares if _WORD.fullmatch(word)]
    words.sort(key=lambda word: (-shares[word], word))
    packed = gzip.compress(keywords(words, shares).encode(), mtime=0)
    (DATA / "keywords.txt.gz").write_bytes(packed)
    lines = [
        f"{level} {line}"
        for level, some in levels(words[:WORDS], shares).items()
        for line in textwrap.wrap(" ".join(some), width=96)
    ]
    (DATA / "english.txt").write_text(HEAD + "\n".join(lines) + "\n", "utf-8")


def write_codewords() -> None:
    """Of the words and the units that ship."""
    bad, units = blocked(), UNITS.read_text("utf-8").splitlines()
    sentences = [words_of(unit) for unit in units if unit[0] != "#" and unit.count(" ") > 2]
    ordinary = {word for words in sentences for word in words if word.islower()}
    for name in PUBLIC:
        ordinary |= {*(DATA / f"{name}.txt").read_text("utf-8").lower().split()}
    kept = sorted(
        word
        for word in frequencies.words()
        if not ordinary.isdisjoint(forms(word)) and (bad | GRIM).isdisjoint(forms(word))
    )
    text = CODEWORDS_HEAD + "\n".join(textwrap.wrap(" ".join(kept), 98)) + "\n"
    (DATA / "codewords.txt").write_text(text, "utf-8")
    refused = bad | PERSONS
    lines = [u for u in units if u[0] == "#" or refused.isdisjoint(w.lower() for w in words_of(u))]
    UNITS.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    write_words()
    write_codewords()
