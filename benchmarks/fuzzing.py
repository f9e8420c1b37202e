"""Random texts with random entities: nothing outside of them is lost, and all come back.

    python benchmarks/fuzzing.py [--texts 1000] [--seed 0]

Of signs of all planes, right to left, emoji, combining and control characters, digits and words,
with overlapping, nested and empty spans of all kinds, also at the ends; one in 20,000 has 1 MB.
"""

import argparse
import random
import traceback

from dp_middleware.errors import ParameterError
from dp_middleware.pseudonyms import Pseudonyms
from dp_middleware.pseudonyms.kinds import default_kinds
from dp_middleware.pseudonyms.mapping import Mapping

SAMPLES = (
    " ", " ", " ", "\n", "\t", ".", ",", "-", "'", "’s", "@", "$", "0", "1", "23", "4,567.80", "%",
    "Maria", "Lopez", "MARIA", "van", "Dr.", "Ltd", "2024-03-01", "March 3, 2021", "10:30 pm",
    "a@b.com", "https://x.org/y", "+1 415 555 2671", "192.0.2.7", "😀", "👩‍👩‍👧", "é", "\u0301",
    "שלום", "مرحبا", "漢字", "かな", "ไทย", "ß", "İ", "ﬁ", "ǅ", "\u200b", "\u202e", "\x00", "\x1b",
    "\u2028", "²", "٣", "Ⅷ", "𝔘", "\U0010ffff", "\"", "\\", "{", "_",
)  # fmt: skip
KINDS = (*default_kinds(), "other")
LARGE = 20_000  # one of so many texts


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


def case_matters(text: str) -> bool:
    """Whether some sign is another one after a change of case."""
    return text.upper().lower() != text.lower() or text.casefold() != text.lower()


def problem(text: str, spans: list[tuple[int, int, str]]) -> str | None:
    """What went wrong with one text."""
    talk = Pseudonyms(lambda _: spans, on_empty="pass").session()
    pseudonyms = talk.sanitizer
    try:
        released = talk.release("1", "user", text).text
        draft = Pseudonyms.read(pseudonyms, text).complete(Mapping())
        restored = talk.restore(released)
    except ParameterError:
        return "ParameterError"
    except Exception:
        return traceback.format_exc(limit=-3)
    place = 0
    for start, end in draft.gaps:
        place = released.find(text[start:end], place)
        if place < 0:
            return "lost"
        place += end - start
    if restored.casefold().split() == text.casefold().split() or case_matters(text):
        return None
    return f"not restored: {released!r}, {restored!r}"


def wrong(texts: int, seed: int = 0, show: int = 0) -> int:
    """How many random texts lose something."""
    draws, failures = random.Random(seed), 0
    for number in range(texts):
        large = number % LARGE == LARGE - 1
        text = random_text(draws, 400_000 if large else draws.randrange(30))
        spans = random_spans(draws, text)
        if (found := problem(text, spans)) is not None:
            failures += 1
            if failures <= show:
                print(repr(text[:300]), spans, found)
    return failures


def main() -> None:
    """Print the number of failures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(wrong(options.texts, options.seed, show=20), "of", options.texts)


if __name__ == "__main__":
    main()
