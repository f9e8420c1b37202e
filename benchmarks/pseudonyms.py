"""Whether pseudonyms leave nothing private in a text, come back, and what that costs.

    OMP_NUM_THREADS=1 python benchmarks/pseudonyms.py FOLDER [--texts 500] [--fuzz 100000] [--write]

docs/pseudonyms.md says what is measured. FOLDER has ``presidio_synth/dev.jsonl`` and
``wikibio/dev.jsonl``, whose lines have ``text``. Leaks are detected values, and parts of them that
were replaced, at the boundaries of words where no pseudonym stands; by chance are those where one
stands, or where the words of the value that stay ("from", "late") meet one. Signs alone are no
value. One in 20,000 random texts has 1 MB. Tokens are words and signs, the entities are given, and
the best of five passes counts. ``--write`` puts the table into the page.
"""

import json
import random
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any

import pages

from dp_middleware.errors import ParameterError
from dp_middleware.pseudonyms import Pseudonyms, PseudonymSession, default_detector
from dp_middleware.pseudonyms.detection import Entity, entities_of
from dp_middleware.pseudonyms.kinds import default_kinds
from dp_middleware.pseudonyms.mapping import Mapping
from dp_middleware.pseudonyms.matching import Names
from dp_middleware.pseudonyms.rewriting import count
from dp_middleware.pseudonyms.structured import JsonRestorer

Found = dict[str, list[Entity]]
Spans = list[tuple[int, int, str]]

PASSES = 5  # through all texts; what a busy neighbour takes is not ours
SAMPLES = (
    " ", " ", " ", "\n", "\t", ".", ",", "-", "'", "’s", "@", "$", "0", "1", "23", "4,567.80", "%",
    "Maria", "Lopez", "MARIA", "van", "Dr.", "Ltd", "2024-03-01", "March 3, 2021", "10:30 pm",
    "a@b.com", "https://x.org/y", "+1 415 555 2671", "192.0.2.7", "😀", "👩‍👩‍👧", "é", "\u0301",
    "שלום", "مرحبا", "漢字", "かな", "ไทย", "ß", "İ", "ﬁ", "ǅ", "\u200b", "\u202e", "\x00", "\x1b",
    "\u2028", "²", "٣", "Ⅷ", "𝔘", "\U0010ffff", "\"", "\\", "{", "_",
)  # fmt: skip
KINDS = (*default_kinds(), "other")
FORMS = ("plain", "streamed", "tool argument", "streamed tool argument")
LARGE, SHOWN = 20_000, 20  # one of so many random texts; wrong ones


@dataclass(frozen=True)
class Known:
    found: Found
    reads_whole_texts = True

    def __call__(self, text: str) -> list[Entity]:
        return self.found[text]


def session(found: Found) -> PseudonymSession:
    return Pseudonyms(Known(found), on_empty="pass").session()


def leaks(text: str, released: str, entities: list[Entity], talk: PseudonymSession) -> Counter[str]:
    """Private values in a released text, and how many of them a pseudonym stands for by chance."""
    mapping, tally = talk.mapping(), Counter[str]()
    values = (*(text[start:end] for start, end, _ in entities), *mapping.values())
    pseudonyms = Names((name, name) for name in mapping).find(released)
    chosen = {place for start, end, _ in pseudonyms for place in range(start, end)}
    for start, end, value in Names((value, value) for value in values).find(released):
        if any(map(str.isalnum, value)):
            by_chance = not chosen.isdisjoint(range(start, end))
            lower = released[start:end].islower() and not value.islower()
            tally["chance" if by_chance else "ordinary" if lower else "leak"] += 1
    return tally


def restored(released: str, talk: PseudonymSession, draws: random.Random) -> Iterator[str]:
    """What comes back in each of FORMS of a remote answer."""
    cuts = sorted(draws.randrange(len(released) + 1) for _ in range(1 + len(released) // 5))
    pieces = [released[a:b] for a, b in pairwise([0, *cuts, len(released)])]
    argument = json.dumps({"a": [{"text": released}, 7]})
    with talk.opened() as mapping:
        restorer = JsonRestorer(mapping.pseudonyms)
    fed = [restorer.feed(argument[k : k + 3]) for k in range(0, len(argument), 3)]
    yield talk.restore(released)
    yield "".join(talk.restore_stream(pieces))
    yield talk.restore_value(json.loads(argument))["a"][0]["text"]
    yield json.loads("".join([*fed, restorer.close()]))["a"][0]["text"]


def same(one: str, other: str) -> bool:
    return one.casefold().split() == other.casefold().split()


def checked(found: Found, seed: int) -> Counter[str]:
    tally, draws = Counter[str](texts=len(found)), random.Random(seed)
    for text, entities in found.items():
        talk = session(found)
        released = talk.release("1", "user", text).text
        tally.update(leaks(text, released, entities, talk))
        tally["entities"] += len(entities)
        for name, back in zip(FORMS, restored(released, talk, draws), strict=True):
            tally[name] += same(back, text)
            tally[f"{name}, exactly"] += back == text
    return tally


def random_text(draws: random.Random, size: int) -> str:
    """Signs of all planes between samples."""
    return "".join(
        chr(draws.choice((draws.randrange(32, 0xD800), draws.randrange(0xE000, 0x110000))))
        if draws.random() < 0.15
        else draws.choice(SAMPLES)
        for _ in range(size)
    )


def random_spans(draws: random.Random, text: str) -> Spans:
    """Of any length, many at the ends."""
    spans, size = [], len(text)
    for _ in range(draws.randrange(7)):
        start = draws.choice((0, size, draws.randrange(size + 1), draws.randrange(size + 1)))
        end = min(size, max(0, start + draws.choice((-1, 1)) * draws.randrange(25)))
        spans.append((min(start, end), max(start, end), draws.choice(KINDS)))
    return spans


def problem(text: str, spans: Spans) -> str | None:
    """What went wrong with one random text."""
    talk, place = Pseudonyms(lambda _: spans, on_empty="pass").session(), 0
    try:
        released = talk.release("1", "user", text).text
        draft = Pseudonyms.read(talk.sanitizer, text).complete(Mapping())
        back = talk.restore(released)
    except ParameterError:
        return "ParameterError"
    except Exception:
        return traceback.format_exc(limit=-3)
    for start, end in draft.gaps:
        place = released.find(text[start:end], place)
        if place < 0:
            return "lost"
        place += end - start
    # some signs are other ones after a change of case
    changed = text.upper().lower() != text.lower() or text.casefold() != text.lower()
    return None if changed or same(back, text) else f"not restored: {released!r}, {back!r}"


def wrong(texts: int) -> int:
    draws, failures = random.Random(0), 0
    for number in range(texts):
        text = random_text(draws, 400_000 if number % LARGE == LARGE - 1 else draws.randrange(30))
        spans = random_spans(draws, text)
        if (found := problem(text, spans)) is not None:
            failures += 1
            if failures <= SHOWN:
                print(repr(text[:300]), spans, found)
    return failures


def speed(texts: list[str], found: Found, *, together: bool) -> list[float]:
    """Tokens per CPU second, released and restored: the best of some passes."""

    def release(talk: PseudonymSession) -> list[tuple[str, str]]:
        pairs = [("" if together else str(n), text) for n, text in enumerate(texts)]
        return [(n, talk.release_once("user", text, conversation=n).text) for n, text in pairs]

    def restore(talk: PseudonymSession, released: list[tuple[str, str]]) -> None:
        for name, text in released:
            talk.restore(text, conversation=name)

    seconds, tokens = [], sum(map(count, texts))
    for _ in range(PASSES):
        talk = session(found)
        first, released = pages.timed(release, talk)
        seconds.append((first, pages.timed(restore, talk, released)[0]))
    return [tokens / min(some) for some in zip(*seconds, strict=True)]


def joined(texts: list[str], found: Found, size: int) -> tuple[str, Found]:
    """One text of a size, made of many."""
    whole, entities = "", list[Entity]()
    for text in cycle(texts):
        if len(whole) >= size:
            return whole, {whole: entities}
        entities += [Entity(a + len(whole), b + len(whole), kind) for a, b, kind in found[text]]
        whole = f"{whole}{text}\n\n"
    raise AssertionError


def rows(folder: Path, texts: int, fuzz: int) -> Iterator[tuple[str, Any]]:
    detector = default_detector()

    def detected(records: list[dict[str, Any]]) -> Found:
        return {record["text"]: entities_of(record["text"], detector) for record in records}

    detected([{"text": "Warm, Maria Lopez, maria@example.com"}])
    for name in ("presidio_synth", "wikibio"):
        records = pages.records(folder / name / "dev.jsonl")[:texts]
        seconds, found = pages.timed(detected, records)
        tally = checked(found, seed=1)
        yield f"{name}: texts, entities", f"{tally['texts']}, {tally['entities']}"
        yield f"{name}: values that leaked", tally["leak"]
        yield f"{name}: pseudonyms equal to a value by chance", tally["chance"]
        yield f"{name}: English words in small letters, no mentions", tally["ordinary"]
        for form in FORMS:
            yield f"{name}: restored, {form}", f"{tally[form]} ({tally[f'{form}, exactly']})"
    yield f"random texts of {fuzz}: wrong", wrong(fuzz)
    every = list(found)
    tokens = sum(map(count, every))
    speed(every[:10], found, together=False)
    text, one = joined(every, found, 1_000_000)
    alone = speed(every, found, together=False)
    ways = {"a conversation each": alone, "one conversation": speed(every, found, together=True)}
    ways["one text of 1 MB"] = speed([text], one, together=True)
    for label, way in ways.items():
        yield f"tokens per CPU second, {label}: release, restore", "{:,.0f}, {:,.0f}".format(*way)
    yield "detection, CPU seconds per 1,000 tokens (wikibio)", f"{1e3 * seconds / tokens:.2f}"
    share = seconds / (seconds + tokens / alone[0])
    yield "detection's share of release", f"{100 * share:.1f} %"


if __name__ == "__main__":
    given = pages.options(__doc__, "folder", texts=500, fuzz=100_000, write=False)
    figures = rows(given.folder, given.texts, given.fuzz)
    table = pages.markdown(("", ""), [(name, str(figure)) for name, figure in figures])
    print(table)
    if given.write:
        pages.write("pseudonyms", table)
