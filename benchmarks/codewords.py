"""The words that a shipped codebook may hold: dp_middleware/vocabulary/data/codewords.txt.

    pip install better-profanity==0.7.0
    python benchmarks/codewords.py

An ordinary word is one of the 30,000 of english.txt that the dictionary's own sentences
(definitions and examples of Open English WordNet, english_units.txt) write in small letters, or an
inflection of such a word. So there are no names of persons, places and brands. What
better-profanity lists is left out, with its inflections; the same for units of several words, which
are written anew. So are, as single words, those that read as violence or contempt where another
word stood.
"""

import re
import textwrap
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from dp_middleware.vocabulary import frequencies

PACKAGE = Path(__file__).parents[1] / "dp_middleware"
WORDS = PACKAGE / "vocabulary" / "data" / "codewords.txt"
UNITS = PACKAGE / "mechanisms" / "data" / "english_units.txt"
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
HEAD = """\
# Ordinary English words in lower case: what a codebook may hold. Made by benchmarks/codewords.py
# from english.txt (wordfreq, CC BY-SA 4.0) and the sentences of english_units.txt (Open English
# WordNet, CC BY 4.0 and WordNet License), without the words that better-profanity 0.7.0 lists
# (Son Nguyen Thanh, MIT). This file, unlike the program, is under Creative Commons
# Attribution-ShareAlike 4.0, https://creativecommons.org/licenses/by-sa/4.0/.
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


def units() -> list[str]:
    """The lines of the units."""
    return UNITS.read_text("utf-8").splitlines()


def words_of(unit: str) -> list[str]:
    """Its words, as they are written."""
    return re.findall(r"[A-Za-z][A-Za-z'-]*", unit)


def main() -> None:
    """Write both files."""
    bad = blocked()
    sentences = [words_of(unit) for unit in units() if unit[0] != "#" and unit.count(" ") > 2]
    ordinary = {word for words in sentences for word in words if word.islower()}
    for name in PUBLIC:
        ordinary |= {*WORDS.with_name(f"{name}.txt").read_text("utf-8").lower().split()}
    kept = sorted(
        word
        for word in frequencies.words()
        if not ordinary.isdisjoint(forms(word)) and (bad | GRIM).isdisjoint(forms(word))
    )
    WORDS.write_text(HEAD + "\n".join(textwrap.wrap(" ".join(kept), 98)) + "\n", "utf-8")
    lines = [
        unit
        for unit in units()
        if unit[0] == "#" or (bad | PERSONS).isdisjoint(w.lower() for w in words_of(unit))
    ]
    UNITS.write_text("\n".join(lines) + "\n", "utf-8")
    print(f"{len(kept)} words, {len(lines)} lines of units")


if __name__ == "__main__":
    main()
