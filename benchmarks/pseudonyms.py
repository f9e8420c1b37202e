"""Whether pseudonyms leave nothing private in a text, come back, and what that costs.

    OMP_NUM_THREADS=1 python benchmarks/pseudonyms.py FOLDER [--texts 500] [--fuzz 100000] [--write]

FOLDER has ``presidio_synth/dev.jsonl`` and ``wikibio/dev.jsonl``, whose lines have ``text``. With
the default detector, a conversation a text:

- leaks: detected values, and parts of them that were replaced, that are found in the released text
  at the boundaries of words where no pseudonym stands. By chance: those found where one stands, or
  where the words of the value that stay ("from", "late") meet one. Signs alone are no value;
- restored: texts that come back, equal up to case and blanks, in brackets how many character by
  character, as a whole, in pieces with random cuts, and inside of nested JSON.

Then random texts (see fuzzing.py), and tokens (words and signs) per CPU second with the entities
given, the best of five passes. ``--write`` puts the table into docs/pseudonyms.md.
"""

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import fuzzing
import pages

from dp_middleware.pseudonyms import Pseudonyms, PseudonymSession, default_detector
from dp_middleware.pseudonyms.detection import Entity, entities_of
from dp_middleware.pseudonyms.json_pieces import JsonRestorer
from dp_middleware.pseudonyms.matching import Names
from dp_middleware.pseudonyms.rewriting import count

Found = dict[str, list[Entity]]

PASSES = 5  # through all texts; what a busy neighbour takes is not ours


@dataclass(frozen=True)
class Known:
    """A detector that has found everything before."""

    found: Found
    reads_whole_texts = True

    def __call__(self, text: str) -> list[Entity]:
        return self.found[text]


def session(found: Found) -> PseudonymSession:
    """A session whose detector has found everything before."""
    return Pseudonyms(Known(found), on_empty="pass").session()


def detected(texts: list[str]) -> tuple[Found, float]:
    """The entities of all texts, and CPU seconds."""
    detector = default_detector()
    entities_of("Warm, Maria Lopez, maria@example.com", detector)
    begin = time.process_time()
    found = {text: entities_of(text, detector) for text in texts}
    return found, time.process_time() - begin


def leaks(text: str, released: str, entities: list[Entity], talk: PseudonymSession) -> Counter[str]:
    """Private values in a released text, and how many of them a pseudonym stands for by chance."""
    values = Names[str]()
    for start, end, _ in entities:
        values.add(text[start:end], text[start:end])
    for value in talk.mapping().values():
        values.add(value, value)
    pseudonyms = Names[str]()
    for pseudonym in talk.mapping():
        pseudonyms.add(pseudonym, pseudonym)
    chosen = {place for a, b, _ in pseudonyms.find(released) for place in range(a, b)}
    tally = Counter[str]()
    for start, end, value in values.find(released):
        if not any(map(str.isalnum, value)):
            continue
        by_chance = not chosen.isdisjoint(range(start, end))
        lower = released[start:end].islower() and not value.islower()
        tally["chance" if by_chance else "ordinary" if lower else "leak"] += 1
    return tally


def forms(released: str, draws: random.Random) -> dict[str, Callable[[PseudonymSession], str]]:
    """Ways in which a remote answer comes back."""
    cuts = sorted(draws.randrange(len(released) + 1) for _ in range(1 + len(released) // 5))
    edges = [0, *cuts, len(released)]
    pieces = [released[a:b] for a, b in pairwise(edges)]
    argument = json.dumps({"a": [{"text": released}, 7]})
    tokens = [argument[k : k + 3] for k in range(0, len(argument), 3)]

    def streamed_json(talk: PseudonymSession) -> str:
        restorer = JsonRestorer(talk._read("").pseudonyms)
        whole = "".join([*map(restorer.feed, tokens), restorer.close()])
        return str(json.loads(whole)["a"][0]["text"])

    def nested(talk: PseudonymSession) -> str:
        return str(talk.restore_value(json.loads(argument))["a"][0]["text"])

    return {
        "plain": lambda talk: talk.restore(released),
        "streamed": lambda talk: "".join(talk.restore_stream(pieces)),
        "tool argument": nested,
        "streamed tool argument": streamed_json,
    }


def same(one: str, other: str) -> bool:
    """Equal up to case and blanks."""
    return one.casefold().split() == other.casefold().split()


def checked(found: Found, seed: int) -> Counter[str]:
    """Counts over all texts."""
    tally, draws = Counter[str](), random.Random(seed)
    for text, entities in found.items():
        talk = session(found)
        released = talk.release("1", "user", text).text
        tally.update(leaks(text, released, entities, talk))
        tally["texts"] += 1
        tally["entities"] += len(entities)
        for name, form in forms(released, draws).items():
            restored = form(talk)
            tally[name] += same(restored, text)
            tally[f"{name}, exactly"] += restored == text
    return tally


def speed(texts: list[str], found: Found, together: bool) -> tuple[float, float]:
    """Tokens per CPU second, released and restored: the best of some passes."""
    passes = [_pass(texts, found, together) for _ in range(PASSES)]
    return max(one for one, _ in passes), max(other for _, other in passes)


def _pass(texts: list[str], found: Found, together: bool) -> tuple[float, float]:
    talk, tokens = session(found), sum(map(count, texts))
    names = ["" if together else str(n) for n in range(len(texts))]
    begin = time.process_time()
    released = [
        talk.release_once("user", text, conversation=name).text
        for text, name in zip(texts, names, strict=True)
    ]
    middle = time.process_time()
    for text, name in zip(released, names, strict=True):
        talk.restore(text, conversation=name)
    return tokens / (middle - begin), tokens / (time.process_time() - middle)


def joined(texts: list[str], found: Found, size: int) -> tuple[str, Found]:
    """One text of a size, made of many."""
    pieces, entities, length = list[str](), list[Entity](), 0
    while length < size:
        text = texts[len(pieces) % len(texts)]
        entities += [Entity(a + length, b + length, kind) for a, b, kind in found[text]]
        pieces.append(text + "\n\n")
        length += len(pieces[-1])
    whole = "".join(pieces)
    return whole, {whole: entities}


def rows(folder: Path, texts: int, fuzz: int) -> Iterator[tuple[str, Any]]:
    """Names and figures."""
    for name, most in (("presidio_synth", texts), ("wikibio", texts)):
        lines = (folder / name / "dev.jsonl").read_text("utf-8").splitlines()[:most]
        found, seconds = detected([json.loads(line)["text"] for line in lines])
        tally = checked(found, seed=1)
        yield f"{name}: texts, entities", f"{tally['texts']}, {tally['entities']}"
        yield f"{name}: values that leaked", tally["leak"]
        yield f"{name}: pseudonyms equal to a value by chance", tally["chance"]
        yield f"{name}: English words in small letters, no mentions", tally["ordinary"]
        for form in ("plain", "streamed", "tool argument", "streamed tool argument"):
            yield f"{name}: restored, {form}", f"{tally[form]} ({tally[f'{form}, exactly']})"
    yield f"random texts of {fuzz}: wrong", fuzzing.wrong(fuzz)
    every = list(found)
    tokens = sum(map(count, every))
    speed(every[:10], found, together=False)
    text, one = joined(every, found, 1_000_000)
    for label, way in (
        ("a conversation each", speed(every, found, False)),
        ("one conversation", speed(every, found, True)),
        ("one text of 1 MB", speed([text], one, True)),
    ):
        yield f"tokens per CPU second, {label}: release, restore", "{:,.0f}, {:,.0f}".format(*way)
    own = 1 / speed(every, found, together=False)[0]
    share = seconds / tokens / (seconds / tokens + own)
    yield "detection, CPU seconds per 1,000 tokens (wikibio)", f"{1e3 * seconds / tokens:.2f}"
    yield "detection's share of release", f"{100 * share:.1f} %"


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--texts", type=int, default=500)
    parser.add_argument("--fuzz", type=int, default=100_000)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    lines = ["| | |", "|---|---:|"]
    for name, figure in rows(options.folder, options.texts, options.fuzz):
        lines.append(f"| {name} | {figure} |")
    print("\n".join(lines))
    if options.write:
        pages.write("pseudonyms", "\n".join(lines))


if __name__ == "__main__":
    main()
