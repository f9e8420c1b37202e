"""What is left of the vectors of whole texts, and of retrieval, by budget of a text.

    python benchmarks/vectors.py DATA_FOLDER [--texts 200] [--documents 1000] [--draws 5]

DATA_FOLDER has sst2/dev.jsonl and medquad/dev.jsonl (lines with "text"; MedQuAD also "question").
Cosine of a text's vector and its release on held-out texts; recall at 10 of the answer to a
question, raw answers against released questions. By components of random words (the default) and of
texts of the same kind, disjoint from those measured. Intervals: 95 % by the bootstrap over texts.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import dp_middleware as dp
from dp_middleware.sampling.sampler import bulk_entropy

BUDGETS = (10.0, 20.0, 50.0, 100.0)
WORDS = 60  # of a text, at most
FITTED = 600  # texts that components are fitted on

Vectors = NDArray[np.float64]


def texts(folder: Path, name: str, field: str) -> list[str]:
    """Texts of a set in a fixed random order, cut to :data:`WORDS`."""
    lines = (folder / name / "dev.jsonl").read_text(encoding="utf-8").splitlines()
    found = [" ".join(json.loads(line)[field].split()[:WORDS]) for line in lines]
    return [found[k] for k in np.random.default_rng(0).permutation(len(found))]


def interval(values: Vectors) -> str:
    """Mean and its bootstrap interval over texts."""
    picks = np.random.default_rng(1).integers(0, len(values), (2000, len(values)))
    low, high = np.quantile(values[picks].mean(axis=1), [0.025, 0.975])
    return f"{values.mean():.3f} [{low:.3f}, {high:.3f}]"


def cosines(mechanism: dp.VectorResponse, raw: Vectors, draws: int) -> Vectors:
    """Of each vector and its releases, mean over draws."""
    drawn = [(mechanism.perturb(raw, bulk_entropy) * raw).sum(axis=1) for _ in range(draws)]
    return np.asarray(np.mean(drawn, axis=0))


def recalls(queries: Vectors, documents: Vectors) -> Vectors:
    """Whether document i is among the ten nearest to query i."""
    scores = queries @ documents.T
    own = scores[np.arange(len(queries)), np.arange(len(queries))]
    return np.asarray((scores > own[:, None]).sum(axis=1) < 10, dtype=np.float64)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=5)
    options = parser.parse_args()
    service = dp.EmbeddingService()

    def encoded(found: list[str]) -> Vectors:
        return service.encode(found).astype(np.float64)

    sentences = encoded(texts(options.folder, "sst2", "text")[: options.texts + FITTED])
    both = [
        encoded(texts(options.folder, "medquad", field)[: options.documents])
        for field in ("question", "text")
    ]
    questions, answers = both
    half = options.documents // 2  # components of the first half, measured on the second
    cases = {
        "SST-2": (sentences[FITTED:], sentences[:FITTED]),
        "MedQuAD questions": (
            questions[half : half + options.texts],
            np.vstack([questions[:half], answers[:half]]),
        ),
    }
    print("| cosine | components | " + " | ".join(f"{e:g} nats" for e in BUDGETS) + " |")
    print("|---|---|" + "---|" * len(BUDGETS))
    for name, (raw, public) in cases.items():
        for label, basis in (("random words", None), ("same kind", public)):
            cells = []
            for epsilon in BUDGETS:
                mechanism = dp.VectorResponse(epsilon=epsilon)
                if basis is not None:
                    mechanism = dp.VectorResponse.fitted(basis, epsilon=epsilon)
                cells.append(interval(cosines(mechanism, raw, options.draws)))
            print(f"| {name} | {label} | " + " | ".join(cells) + " |", flush=True)
    measured, pool = questions[half:], answers[half:]
    print(f"\nRecall@10 among {len(pool)} answers, raw: {interval(recalls(measured, pool))}")
    public = cases["MedQuAD questions"][1]
    for epsilon in BUDGETS:
        row = []
        for mechanism in (
            dp.VectorResponse(epsilon=epsilon),
            dp.VectorResponse.fitted(public, epsilon=epsilon),
        ):
            drawn = [
                recalls(mechanism.perturb(measured, bulk_entropy), pool)
                for _ in range(options.draws)
            ]
            row.append(interval(np.asarray(np.mean(drawn, axis=0))))
        print(f"{epsilon:g} nats: random words {row[0]}, same kind {row[1]}", flush=True)


if __name__ == "__main__":
    main()
