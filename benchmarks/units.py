"""Makes the English codebook of DocumentResponse from Open English WordNet, and its map.

    git clone https://github.com/globalwordnet/english-wordnet
    python benchmarks/units.py english-wordnet/src/yaml PUBLIC_TEXTS.jsonl ...

Words, phrases, examples and definitions of the dictionary (CC BY 4.0 and the WordNet licence) are
the units. The "text" of public records decides their order alone: first the units that greedily
bring the texts closest to their nearest unit (facility location), then those that are most often
among the nearest ones of a text. Takes ten minutes on two cores. Then, or without arguments, what
tells roughly which units are near a text: least squares from the mean of the word embeddings of a
unit's WordPieces to its vector by all-MiniLM-L6-v2 (Apache License 2.0), in bytes, and the length
of what this map gives for each unit.
"""

import heapq
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pages
import yaml
from numpy.typing import NDArray

import dp_middleware as dp
from dp_middleware.embedding.plain import searcher
from dp_middleware.mechanisms.kernels import units as shipped
from dp_middleware.vocabulary.frequencies import stop_words

QUOTAS = {"word": 7_000, "phrase": 9_000, "example": 10_000, "definition": 10_300}
CANDIDATES = {"word": 9_000, "phrase": 18_000, "example": 14_000, "definition": 16_000}
LENGTHS = {"phrase": (2, 3), "example": (4, 16), "definition": (3, 12)}  # in words
GREEDY = 3_000  # units in the order of facility location
NEAREST = 64  # units that a public text votes for
COMMON = 20_000  # words of the glosses that phrases and sentences are made of
WORDS = re.compile(r"[a-z][a-z'-]*")
Vectors = NDArray[np.float32]


def entries(folder: Path) -> Iterator[tuple[str, str]]:
    """Kind and text of all that may become a unit."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for path in sorted(folder.glob("*.yaml")):
        content: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), loader)
        if path.name.startswith("entries-"):
            for lemma in content:
                yield ("phrase" if " " in lemma else "word"), lemma.lower()
        elif path.name != "frames.yaml":
            for synset in content.values():
                for definition in synset.get("definition", ()):
                    yield "definition", definition
                for example in synset.get("example", ()):
                    yield "example", example if isinstance(example, str) else example["text"]


def candidates(folder: Path) -> list[tuple[str, str]]:
    """Distinct units of each kind: of common words, the commonest words first."""
    by_kind: dict[str, set[str]] = {kind: set() for kind in QUOTAS}
    for kind, text in entries(folder):
        if isinstance(text, str):
            by_kind[kind].add(" ".join(text.split()))
    sentences = by_kind["definition"] | by_kind["example"]
    counts = Counter(word for text in sentences for word in WORDS.findall(text.lower()))
    function_words, total = stop_words(), counts.total()
    content = {w: n / total for w, n in counts.items() if w not in function_words and len(w) > 1}
    ranked = sorted(content, key=lambda w: (-content[w] / (1 + 1000 * content[w]), w))
    common = set(ranked[:COMMON]) | function_words

    def fits(text: str, shortest: int, longest: int) -> bool:
        words = WORDS.findall(text.lower())
        return shortest <= len(words) <= longest and common.issuperset(words)

    listed = {"word": [word for word in ranked if word in by_kind["word"]]}
    for kind, lengths in LENGTHS.items():
        listed[kind] = [text for text in sorted(by_kind[kind]) if fits(text, *lengths)]
    chosen: dict[str, str] = {}
    for kind, texts in listed.items():
        step = 1 if kind == "word" else max(1, len(texts) // CANDIDATES[kind])
        for text in texts[::step][: CANDIDATES[kind]]:
            if not text.startswith("#"):
                chosen.setdefault(text, kind)
    return [(kind, text) for text, kind in chosen.items()]


def ordered(units: list[tuple[str, str]], vectors: Vectors, texts: Vectors) -> list[str]:
    """The units of a codebook, the most useful first."""
    similar, votes = vectors @ texts.T, np.zeros(len(units))
    for column in similar.T:
        nearest = np.argpartition(-column, NEAREST)[:NEAREST]
        votes[nearest[np.argsort(-column[nearest])]] += 1.0 / np.arange(1, NEAREST + 1)
    greedy, room, chosen = facility_location(similar, GREEDY), Counter(QUOTAS), list[str]()
    for number in dict.fromkeys([*greedy, *np.argsort(-votes, kind="stable").tolist()]):
        kind, text = units[number]
        if room[kind] > 0:
            room[kind] -= 1
            chosen.append(text)
    return chosen


def facility_location(similar: Vectors, count: int) -> list[int]:
    """Rows that greedily raise the sum over columns of the largest similarity; lazily updated."""
    reached = np.zeros(similar.shape[1], dtype=np.float32)
    queue = [(-float(row.clip(0).sum()), number) for number, row in enumerate(similar)]
    heapq.heapify(queue)
    chosen: list[int] = []
    while queue and len(chosen) < count:
        _, number = heapq.heappop(queue)
        gain = float((similar[number] - reached).clip(0).sum())
        if queue and gain < -queue[0][0]:
            heapq.heappush(queue, (-gain, number))
        else:
            chosen.append(number)
            np.maximum(reached, similar[number], out=reached)
    return chosen


if __name__ == "__main__":
    given, encode = pages.options(__doc__, "wordnet?", "texts*"), dp.EmbeddingService().encode
    if given.wordnet:
        texts = [record["text"] for path in given.texts for record in pages.records(path)]
        units = candidates(given.wordnet)
        made = ordered(units, encode([text for _, text in units]), encode(texts))
        target = Path(shipped.FILE).with_name("english_units.txt")
        target.write_text(pages.LISTS["heads"]["units"] + "\n".join(made) + "\n", "utf-8")
        shipped.english.cache_clear()
    encoder, listed = searcher(), shipped.english()  # for the map
    exact = dp.EmbeddingService().space(dp.Vocabulary(listed), "encoded").vectors
    pieces = shipped.Pieces(listed)
    means = np.stack([pieces.means(column) for column in encoder.pieces.T], axis=1)
    inputs = np.hstack([means, np.full((len(means), 1), shipped.CONSTANT)])
    ridge = inputs.T @ inputs + 1e-2 * np.eye(inputs.shape[1])
    linear = np.linalg.solve(ridge, inputs.T @ exact)
    scale = np.abs(linear).max(axis=1, keepdims=True) / 127
    rounded = np.rint(linear / scale).astype(np.int8)
    lengths = np.linalg.norm(inputs @ (rounded * scale), axis=1)
    bytes_ = np.clip(np.rint(lengths / lengths.max() * 255), 1, 255).astype(np.uint8)
    np.savez_compressed(shipped.FILE, map=rounded, scale=scale.astype(np.float32), lengths=bytes_)
