"""The tuned codebook: how long it takes, and how near it comes to the best mechanism there is.

    python benchmarks/nearest_response.py [--words 150] [--skip-optimum]
    python benchmarks/nearest_response.py --texts FILE.jsonl [FILE.jsonl ...]

First the codebooks of the default space, computed and not read from disk. Then the linear programme
over *all* epsilon-LDP mechanisms on whole words spread evenly over the default space (a minute per
epsilon on two cores), with three baselines as shares of it: the best constant answer, k-ary
randomised response over all words, and k-means centres snapped to words, of the best number.

With ``--texts`` (lines of JSON with a "text"), instead: codebooks for the uniform and the English
prior on real texts. 80 texts of at least 10 tokens of each file, cut after 64; the cosine of
all-MiniLM-L6-v2's vectors of raw and released text, its standard error, the cosine with another
text's release, and the share of tokens kept. Codebooks are read from disk where they are there.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.optimize import linprog
from sklearn.cluster import KMeans

import dp_middleware as dp
from dp_middleware.mechanisms import near_lists
from dp_middleware.mechanisms.base import rows_of
from dp_middleware.mechanisms.drawing import drawer
from dp_middleware.mechanisms.kernels import ready
from dp_middleware.mechanisms.nearest_response import NearestResponse
from dp_middleware.sampling import sampler
from dp_middleware.vocabulary import frequencies

TEXTS, SHORTEST, LONGEST = 80, 10, 64
TUNED = (3.0, 6.0, 8.0, 10.0)
PRIORS = ("uniform", "english")
SOLVED = (2.0, 3.0, 4.0, 6.0)
FIRST, DRAWN = 10_000, 200_000


def value(mechanism: NearestResponse, space: dp.EmbeddingSpace) -> tuple[float, float]:
    """Expected cosine of mean-centred vectors, uniform over whole words and as in English."""
    words, shares = space.vocabulary.whole_words, frequencies.english(space.vocabulary)
    total = np.zeros(2)
    for ids in np.array_split(np.arange(len(space)), 1 + len(space) // 512):
        rows = np.exp(mechanism.log_probs(ids, space))
        cosines = (rows * (space.centred_unit[ids] @ space.centred_unit.T)).sum(axis=1)
        total += cosines @ words[ids], cosines @ shares[ids]
    return float(total[0] / words.sum()), float(total[1] / max(shares.sum(), 1e-300))


def optimum(space: dp.EmbeddingSpace, epsilon: float) -> float:
    """max sum_xy P(y|x) cos(x, y) / V subject to q_y <= P(y|x) <= e^epsilon q_y."""
    size = len(space)
    similarity = space.centred_unit @ space.centred_unit.T
    floors = sparse.kron(np.ones((size, 1)), sparse.identity(size))
    cells = sparse.identity(size * size)
    bounds = [
        sparse.hstack([-cells, floors]),
        sparse.hstack([cells, -np.exp(epsilon) * floors]),
    ]
    rows = sparse.kron(sparse.identity(size), np.ones((1, size)))
    solved = linprog(
        np.concatenate([-similarity.ravel() / size, np.zeros(size)]),
        A_ub=sparse.vstack(bounds).tocsr(),
        b_ub=np.zeros(2 * size * size),
        A_eq=sparse.hstack([rows, sparse.csr_matrix((size, size))]).tocsr(),
        b_eq=np.ones(size),
        bounds=(0, 1),
        method="highs-ipm",
    )
    return -float(solved.fun)


def k_means(space: dp.EmbeddingSpace, epsilon: float) -> float:
    """The best of codebooks of k-means centres, each snapped to the nearest word."""
    unit, best = space.centred_unit, 0.0
    for size in range(2, len(space), max(1, len(space) // 40)):
        centres = KMeans(size, n_init=1, random_state=0).fit(unit).cluster_centers_
        codebook = np.unique((centres @ unit.T).argmax(axis=1))
        mechanism = NearestResponse(
            epsilon=epsilon, candidates=1, codebook=tuple(codebook), nearness="centred_cosine"
        )
        best = max(best, value(mechanism, space)[0])
    return best


def on_the_default_space() -> None:
    """Time, size and value of the tuned codebooks."""
    space = dp.default_space()
    print(f"{space!r}, {int(space.vocabulary.whole_words.sum())} whole words\n")
    heads = ("epsilon", "prior", "tuned in", "k", "codewords", "distinct", "expected cosine")
    print("| " + " | ".join((*heads, "as in English", "some of them")) + " |")
    print("|---" * 9 + "|")
    for epsilon, prior in itertools.product(TUNED, PRIORS):
        started = time.process_time()
        tuned = NearestResponse.tuned(space, epsilon=epsilon, prior=prior)
        seconds = time.process_time() - started
        distinct = sorted(set(tuned.codebook))
        some = ", ".join(space.vocabulary.tokens[k] for k in distinct[:: len(distinct) // 6 + 1])
        cells = [f"{seconds:.1f} s", tuned.candidates, len(tuned.codebook), len(distinct)]
        values = " | ".join(f"{number:.4f}" for number in value(tuned, space))
        shown = " | ".join(map(str, [prior, *cells, values, some]))
        print(f"| {epsilon:g} | {shown} |", flush=True)


def against_the_optimum(words: int) -> None:
    """Shares of the optimum of the linear programme."""
    space = dp.default_space()
    everything = np.flatnonzero(space.vocabulary.whole_words)
    chosen = everything[np.linspace(0, len(everything) - 1, words).astype(int)]
    tokens = [space.vocabulary.tokens[k] for k in chosen]
    small = dp.EmbeddingSpace(dp.Vocabulary(tokens), space.vectors[chosen])
    print(f"\n{words} words, shares of the optimum\n")
    print("| epsilon | optimum | tuned | k-means | all words | constant | optimum in |")
    print("|---|---|---|---|---|---|---|")
    mean = small.centred_unit @ small.centred_unit.mean(axis=0)
    for epsilon in SOLVED:
        started = time.perf_counter()
        best = optimum(small, epsilon)
        seconds = time.perf_counter() - started
        values = [
            value(NearestResponse.tuned(small, epsilon=epsilon, prior="uniform"), small)[0],
            k_means(small, epsilon),
            value(NearestResponse(epsilon=epsilon, candidates=1), small)[0],
            float(mean.max()),
        ]
        shares = " | ".join(f"{each / best:.2%}" for each in values)
        print(f"| {epsilon:g} | {best:.4f} | {shares} | {seconds:.0f} s |", flush=True)


def some_texts(file: Path, vocabulary: dp.Vocabulary) -> list[np.ndarray]:
    """Ids of the first texts in a public random order that are long enough."""
    rows = [json.loads(line)["text"] for line in file.read_text("utf-8").splitlines()]
    order = np.random.default_rng(0).permutation(len(rows))
    ids = (vocabulary.encode(rows[k])[:LONGEST] for k in order)
    return [text for text in ids if len(text) >= SHORTEST][:TEXTS]


def on_texts(files: list[Path]) -> None:
    """What the prior of a codebook is worth on real texts."""
    space, service = dp.default_space(), dp.EmbeddingService()
    decode = space.vocabulary.decode
    texts = {file.parent.name: some_texts(file, space.vocabulary) for file in files}
    raw = {name: service.encode([decode(x[x >= 0]) for x in texts[name]]) for name in texts}
    print("| epsilon | prior | codewords | tuned in | " + " | ".join(texts) + " |")
    print("|---" * (4 + len(texts)) + "|")
    for epsilon in TUNED:
        for prior in PRIORS:
            started = time.process_time()
            tuned = NearestResponse.tuned(space, epsilon=epsilon, prior=prior)
            seconds = time.process_time() - started
            cells = []
            for name, ids in texts.items():
                released = drawer(tuned, space).draw(ids, sampler.os_entropy)
                vectors = service.encode([decode(text) for text in released])
                cosines = (raw[name] * vectors).sum(axis=1)
                other = (raw[name] * np.roll(vectors, 1, axis=0)).sum(axis=1).mean()
                kept = (np.concatenate(released) == np.concatenate(ids)).mean()
                error = cosines.std() / len(ids) ** 0.5
                cells.append(f"{cosines.mean():.3f} ± {error:.3f} ({other:.2f}) {kept:.0%}")
            size = len(tuned.codebook)
            row = [f"{epsilon:g}", prior, str(size), f"{seconds:.1f} s", *cells]
            print("| " + " | ".join(row) + " |", flush=True)


def drawing() -> None:
    """Tokens per CPU second from rows, cold and warm, and from lists, in one run."""
    space, generator = dp.default_space(), np.random.default_rng(0)
    weights = 1 / np.arange(1, len(space) + 1)  # Zipf's law
    ids = generator.choice(len(space), DRAWN, p=weights / weights.sum())
    heads = ("epsilon", "codewords", "k", "rows, cold", "rows, warm", "lists, cold", "lists, warm")
    print("| " + " | ".join((*heads, "cold / cold", "warm / warm")) + " |")
    print("|---" * (len(heads) + 2) + "|")
    for epsilon in TUNED:
        tuned = NearestResponse.tuned(space, epsilon=epsilon)
        near_lists.near_rows(tuned, space)  # made once, and kept on disk
        tuned.log_rows(np.arange(1), space)
        rows = sampler.Sampler(lambda some, law=tuned: rows_of(law, some, space), batch=space.block)
        rates = []
        for draw in (rows.draw, near_lists.near_rows(tuned, dp.default_space()).draw):
            first = rate(draw, ids[:FIRST])
            rate(draw, ids)
            rates.append((first, max(rate(draw, ids) for _ in range(3))))
        (cold, warm), (first, lists) = rates
        shown = (len(tuned.codebook), tuned.candidates, cold, warm, first, lists)
        ratios = f"{first / cold:,.0f} | {lists / warm:.1f}"
        print(f"| {epsilon:g} | " + " | ".join(f"{n:,.0f}" for n in shown) + f" | {ratios} |")


def rate(draw: Callable[[np.ndarray, sampler.Entropy], np.ndarray], ids: np.ndarray) -> float:
    """Tokens per CPU second in texts of 1,000 tokens."""
    started = time.process_time()
    for text in np.split(ids, len(ids) // 1000):
        draw(text, sampler.os_entropy)
    return len(ids) / (time.process_time() - started)


def main() -> None:
    """Print both tables; nothing is read from an earlier run's codebooks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--words", type=int, default=150)
    parser.add_argument("--skip-optimum", action="store_true")
    parser.add_argument("--texts", type=Path, nargs="+")
    parser.add_argument("--drawing", action="store_true", help="only tokens per CPU second")
    options = parser.parse_args()
    if options.drawing:
        drawing()
        return
    if options.texts:
        on_texts(options.texts)
        return
    dp.default_space()  # its vectors are kept in the usual folder
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DP_MIDDLEWARE_CACHE"] = folder
        ready.part = lambda *_: None  # nor what comes with the package
        on_the_default_space()
        if not options.skip_optimum:
            against_the_optimum(options.words)


if __name__ == "__main__":
    main()
