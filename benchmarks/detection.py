"""What the detector for English finds of two annotated collections, and what that costs.

    OMP_NUM_THREADS=1 python benchmarks/detection.py FOLDER [--errors 0] [--write]

FOLDER has ``presidio_synth/dev.jsonl`` and ``wikibio/dev.jsonl``, whose lines have ``text`` and
``spans`` with ``start``, ``end`` and ``type``: the synthetic sentences of presidio-research, and
the biographies of Papadopoulou et al. (LREC 2022) with the spans of the first annotator.

- recall: true spans that an entity of the right kind overlaps (of an address also the kinds of
  its parts);
- any kind: true spans that an entity of whatever kind overlaps, so that something is replaced;
- characters: of the true spans, blanks aside, inside entities of whatever kind, so replaced;
- precision: entities of the kind that overlap a true span that is right for it.

``--errors`` prints this many true spans of each type that are not wholly covered; ``--write`` puts
the table into docs/pseudonyms.md.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pages

from dp_middleware.pseudonyms.detection import Entity, entities_of
from dp_middleware.pseudonyms.english import default_detector

KINDS = {
    "presidio_synth": {
        "PERSON": "person",
        "ORGANIZATION": "organisation",
        "GPE": "place",
        "STREET_ADDRESS": "address",
        "ZIP_CODE": "zip",
        "DATE_TIME": "date",
        "AGE": "age",
        "EMAIL_ADDRESS": "email",
        "PHONE_NUMBER": "phone",
        "DOMAIN_NAME": "url",
        "CREDIT_CARD": "card",
        "IBAN_CODE": "iban",
        "IP_ADDRESS": "ip",
        "TITLE": None,
        "NRP": None,
    },
    "wikibio": {
        "PERSON": "person",
        "ORG": "organisation",
        "LOC": "place",
        "DATETIME": "date",
        "QUANTITY": "number",
        "DEM": None,
        "MISC": None,
    },
}
"""The kind of each type of a collection; None where the detector looks for nothing of it."""

PARTS = {"STREET_ADDRESS": {"zip", "place", "number"}, "QUANTITY": {"amount", "age"}}
"""Kinds that parts of a type are rightly found as."""


class Score(NamedTuple):
    """How a type was found: true spans, three shares of them, and a share of the entities."""

    spans: int
    recall: float
    any_kind: float
    characters: float
    precision: float


class Tally(Counter[str]):
    """Counts for one type."""

    def score(self) -> Score:
        whole = max(1, self["spans"])
        return Score(
            self["spans"],
            self["right"] / whole,
            self["any"] / whole,
            self["covered"] / max(1, self["characters"]),
            self["confirmed"] / self["entities"] if self["entities"] else float("nan"),
        )


def overlap(one: Any, other: Any) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def count(
    text: str, spans: list[tuple[int, int, str]], entities: list[Entity], kinds: dict[str, Any]
) -> dict[str, Tally]:
    """What one text adds to the tally of each type."""
    tallies = {name: Tally() for name in kinds}
    replaced = {place for start, end, _ in entities for place in range(start, end)}
    for start, end, name in spans:
        near = [each for each in entities if overlap(each, (start, end))]
        places = [place for place in range(start, end) if not text[place].isspace()]
        tallies[name]["spans"] += 1
        tallies[name]["right"] += any(
            each.kind == kinds[name] or each.kind in PARTS.get(name, ()) for each in near
        )
        tallies[name]["any"] += bool(near)
        tallies[name]["covered"] += len(replaced.intersection(places))
        tallies[name]["characters"] += len(places)
    for name, kind in kinds.items():
        true = [each for each in spans if kinds[each[2]] == kind or kind in PARTS.get(each[2], ())]
        own = [each for each in entities if each.kind == kind]
        tallies[name]["entities"] += len(own)
        tallies[name]["confirmed"] += sum(any(overlap(e, s) for s in true) for e in own)
    return tallies


def measure(path: Path, kinds: dict[str, Any], errors: int) -> tuple[dict[str, Score], float]:
    """Scores by type, and CPU seconds per 1,000 tokens."""
    detector = default_detector()
    entities_of("Warm, Maria Lopez, maria@example.com", detector)
    tallies, missed = {name: Tally() for name in kinds}, Counter[str]()
    tokens, seconds = 0, 0.0
    for line in path.read_text("utf-8").splitlines():
        record = json.loads(line)
        text = record["text"]
        spans = [(each["start"], each["end"], each["type"]) for each in record["spans"]]
        begin = time.process_time()
        entities = entities_of(text, detector)
        seconds += time.process_time() - begin
        tokens += len(re.findall(r"\w+|[^\w\s]", text))
        for name, tally in count(text, spans, entities, kinds).items():
            tallies[name].update(tally)
            if errors > missed[name] and tally["spans"] and tally["covered"] < tally["characters"]:
                missed[name] += 1
                true = [text[a:b] for a, b, which in spans if which == name]
                print(name, true, [(text[a:b], kind) for a, b, kind in entities], repr(text[:150]))
            wrong = tally["entities"] - tally["confirmed"]
            if errors > missed["wrong " + name] and wrong:
                missed["wrong " + name] += 1
                print("WRONG", name, [text[a:b] for a, b, k in entities if k == kinds[name]])
    return {name: tally.score() for name, tally in tallies.items()}, 1e3 * seconds / tokens


def table(folder: Path, errors: int) -> str:
    """All collections, in Markdown."""
    head = ["collection", "type", "kind", "spans", "recall", "any kind", "characters", "precision"]
    lines = ["| " + " | ".join(head) + " |", "|---|---|---|" + "---:|" * 5]
    times = []
    for name, kinds in KINDS.items():
        scores, seconds = measure(folder / name / "dev.jsonl", kinds, errors)
        times.append(f"{seconds:.2f} ({name})")
        for kind, score in scores.items():
            is_found = kinds[kind] is not None
            shares = [f"{share:.2f}" for share in score[1:]]
            shown = shares if is_found else ["", *shares[1:3], ""]
            lines.append(f"| {name} | {kind} | {kinds[kind] or ''} | {score.spans} | ")
            lines[-1] += " | ".join(shown) + " |"
    lines += ["", f"CPU seconds per 1,000 words and signs, one core: {', '.join(times)}."]
    return "\n".join(lines)


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--errors", type=int, default=0)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    content = table(options.folder, options.errors)
    print(content)
    if options.write:
        pages.write("detection", content)


if __name__ == "__main__":
    main()
