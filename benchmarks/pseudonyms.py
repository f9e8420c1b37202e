"""Whether pseudonyms leave nothing private in a text, come back, and what that costs.

    OMP_NUM_THREADS=1 python benchmarks/pseudonyms.py FOLDER [--texts 500] [--fuzz 100000] [--write]

FOLDER has ``presidio_synth/dev.jsonl`` and ``wikibio/dev.jsonl``, whose lines have ``text``. With
the default detector, a conversation a text:

- leaks: detected values, and parts of them that were replaced, that are found in the released text
  at the boundaries of words where no pseudonym stands. By chance: those found where one stands, or
  where the words of the value that stay ("from", "late") meet one. Signs alone are no value;
- restored: texts that come back, equal up to case and blanks, in brackets how many character by
  character, as a whole, in pieces with random cuts, and inside of nested JSON.

Then random texts with random entities, outside of which nothing may be lost, and all come back: of
signs of all planes, right to left, emoji, combining and control characters, digits and words, with
overlapping, nested and empty spans of all kinds, also at the ends; one in 20,000 has 1 MB. And
tokens (words and signs) per CPU second with the entities given, the best of five passes.
``--write`` puts the table into docs/pseudonyms.md.
"""

import json
import random
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pages

from dp_middleware.errors import ParameterError
from dp_middleware.pseudonyms import Pseudonyms, PseudonymSession, default_detector
from dp_middleware.pseudonyms.detection import Entity, entities_of
from dp_middleware.pseudonyms.json_pieces import JsonRestorer
from dp_middleware.pseudonyms.kinds import default_kinds
from dp_middleware.pseudonyms.mapping import Mapping
from dp_middleware.pseudonyms.matching import Names
from dp_middleware.pseudonyms.rewriting import count

Found = dict[str, list[Entity]]

PASSES = 5  # through all texts; what a busy neighbour takes is not ours
SAMPLES = (
    " ", " ", " ", "\n", "\t", ".", ",", "-", "'", "’s", "@", "$", "0", "1", "23", "4,567.80", "%",
    "Maria", "Lopez", "MARIA", "van", "Dr.", "Ltd", "2024-03-01", "March 3, 2021", "10:30 pm",
    "a@b.com", "https://x.org/y", "+1 415 555 2671", "192.0.2.7", "😀", "👩‍👩‍👧", "é", "\u0301",
    "שלום", "مرحبا", "漢字", "かな", "ไทย", "ß", "İ", "ﬁ", "ǅ", "\u200b", "\u202e", "\x00", "\x1b",
    "\u2028", "²", "٣", "Ⅷ", "𝔘", "\U0010ffff", "\"", "\\", "{", "_",
)  # fmt: skip
KINDS = (*default_kinds(), "other")
LARGE = 20_000  # one of so many random texts


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


def leaks(text: str, released: str, entities: list[Entity], talk: PseudonymSession) -> Counter[str]:
    """Private values in a released text, and how many of them a pseudonym stands for by chance."""
    values, pseudonyms, tally = Names[str](), Names[str](), Counter[str]()
    for value in (*(text[start:end] for start, end, _ in entities), *talk.mapping().values()):
        values.add(value, value)
    for pseudonym in talk.mapping():
        pseudonyms.add(pseudonym, pseudonym)
    chosen = {place for a, b, _ in pseudonyms.find(released) for place in range(a, b)}
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
    pieces = [released[a:b] for a, b in pairwise([0, *cuts, len(released)])]
    argument = json.dumps({"a": [{"text": released}, 7]})

    def streamed_json(talk: PseudonymSession) -> str:
        restorer = JsonRestorer(talk._read("").pseudonyms)
        fed = [restorer.feed(argument[k : k + 3]) for k in range(0, len(argument), 3)]
        return str(json.loads("".join([*fed, restorer.close()]))["a"][0]["text"])

    return {
        "plain": lambda talk: talk.restore(released),
        "streamed": lambda talk: "".join(talk.restore_stream(pieces)),
        "tool argument": lambda talk: talk.restore_value(json.loads(argument))["a"][0]["text"],
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
        tally.update(texts=1, entities=len(entities))
        for name, form in forms(released, draws).items():
            restored = form(talk)
            tally[name] += same(restored, text)
            tally[f"{name}, exactly"] += restored == text
    return tally


def random_text(draws: random.Random, size: int) -> str:
    """Signs of all planes between samples."""
    return "".join(
        chr(draws.choice((draws.randrange(32, 0xD800), draws.randrange(0xE000, 0x110000))))
        if draws.random() < 0.15
        else draws.choice(SAMPLES)
        for _ in range(size)
    )


def random_spans(draws: random.Random, text: str) -> list[tuple[int, int, str]]:
    """Of any length, many at the ends."""
    spans, size = [], len(text)
    for _ in range(draws.randrange(7)):
        start = draws.choice((0, size, draws.randrange(size + 1), draws.randrange(size + 1)))
        end = min(size, max(0, start + draws.choice((-1, 1)) * draws.randrange(25)))
        spans.append((min(start, end), max(start, end), draws.choice(KINDS)))
    return spans


def problem(text: str, spans: list[tuple[int, int, str]]) -> str | None:
    """What went wrong with one random text."""
    talk, place = Pseudonyms(lambda _: spans, on_empty="pass").session(), 0
    try:
        released = talk.release("1", "user", text).text
        draft = Pseudonyms.read(talk.sanitizer, text).complete(Mapping())
        restored = talk.restore(released)
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
    return None if changed or same(restored, text) else f"not restored: {released!r}, {restored!r}"


def wrong(texts: int, seed: int = 0, show: int = 20) -> int:
    """How many random texts lose something; some are shown."""
    draws, failures = random.Random(seed), 0
    for number in range(texts):
        text = random_text(draws, 400_000 if number % LARGE == LARGE - 1 else draws.randrange(30))
        spans = random_spans(draws, text)
        if (found := problem(text, spans)) is not None:
            failures += 1
            if failures <= show:
                print(repr(text[:300]), spans, found)
    return failures


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
    whole, entities, number = "", list[Entity](), 0
    while len(whole) < size:
        text = texts[number % len(texts)]
        entities += [Entity(a + len(whole), b + len(whole), kind) for a, b, kind in found[text]]
        whole, number = f"{whole}{text}\n\n", number + 1
    return whole, {whole: entities}


def rows(folder: Path, texts: int, fuzz: int) -> Iterator[tuple[str, Any]]:
    """Names and figures."""
    detector = default_detector()
    entities_of("Warm, Maria Lopez, maria@example.com", detector)
    for name in ("presidio_synth", "wikibio"):
        lines = (folder / name / "dev.jsonl").read_text("utf-8").splitlines()[:texts]
        begin = time.process_time()
        found = {
            text: entities_of(text, detector) for text in (json.loads(r)["text"] for r in lines)
        }
        seconds, tally = time.process_time() - begin, checked(found, seed=1)
        yield f"{name}: texts, entities", f"{tally['texts']}, {tally['entities']}"
        yield f"{name}: values that leaked", tally["leak"]
        yield f"{name}: pseudonyms equal to a value by chance", tally["chance"]
        yield f"{name}: English words in small letters, no mentions", tally["ordinary"]
        for form in ("plain", "streamed", "tool argument", "streamed tool argument"):
            yield f"{name}: restored, {form}", f"{tally[form]} ({tally[f'{form}, exactly']})"
    yield f"random texts of {fuzz}: wrong", wrong(fuzz)
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
    parser = pages.parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--texts", type=int, default=500)
    parser.add_argument("--fuzz", type=int, default=100_000)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    figures = rows(options.folder, options.texts, options.fuzz)
    table = pages.markdown(("", ""), [(name, str(figure)) for name, figure in figures])
    print(table)
    if options.write:
        pages.write("pseudonyms", table)


if __name__ == "__main__":
    main()
