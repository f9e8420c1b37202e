"""The tuned codebook: how long it takes, and how near it comes to the best mechanism there is.

    python benchmarks/nearest_response.py [--words 150] [--skip-optimum]

First the codebooks of the default space, computed and not read from disk. Then the linear programme
over *all* epsilon-LDP mechanisms on whole words spread evenly over the default space (a minute per
epsilon on two cores), with three baselines as shares of it: the best constant answer, k-ary
randomised response over all words, and k-means centres snapped to words, of the best number.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time

import numpy as np
from scipy import sparse
from scipy.optimize import linprog
from sklearn.cluster import KMeans

import dp_middleware as dp
from dp_middleware.mechanisms.nearest_response import NearestResponse

TUNED = (2.0, 3.0, 4.0, 6.0, 8.0, 10.0)
SOLVED = (2.0, 3.0, 4.0, 6.0)


def value(mechanism: NearestResponse, space: dp.EmbeddingSpace) -> float:
    """Expected cosine of mean-centred vectors, tokens uniform over the whole words."""
    words = np.flatnonzero(space.vocabulary.whole_words)
    total = 0.0
    for ids in np.array_split(words, 1 + len(words) // 512):
        cosines = space.centred_unit[ids] @ space.centred_unit.T
        total += float((np.exp(mechanism.log_probs(ids, space)) * cosines).sum())
    return total / len(words)


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
        best = max(best, value(mechanism, space))
    return best


def on_the_default_space() -> None:
    """Time, size and value of the tuned codebooks."""
    space = dp.default_space()
    print(f"{space!r}, {int(space.vocabulary.whole_words.sum())} whole words\n")
    print("| epsilon | tuned in | k | codewords | distinct | expected cosine | some of them |")
    print("|---|---|---|---|---|---|---|")
    for epsilon in TUNED:
        started = time.perf_counter()
        tuned = NearestResponse.tuned(space, epsilon=epsilon)
        seconds = time.perf_counter() - started
        distinct = sorted(set(tuned.codebook))
        some = ", ".join(space.vocabulary.tokens[k] for k in distinct[:: len(distinct) // 6 + 1])
        cells = [f"{seconds:.1f} s", tuned.candidates, len(tuned.codebook), len(distinct)]
        shown = " | ".join(map(str, [*cells, f"{value(tuned, space):.4f}", some]))
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
            value(NearestResponse.tuned(small, epsilon=epsilon), small),
            k_means(small, epsilon),
            value(NearestResponse(epsilon=epsilon, candidates=1), small),
            float(mean.max()),
        ]
        shares = " | ".join(f"{each / best:.2%}" for each in values)
        print(f"| {epsilon:g} | {best:.4f} | {shares} | {seconds:.0f} s |", flush=True)


def main() -> None:
    """Print both tables; nothing is read from an earlier run's codebooks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--words", type=int, default=150)
    parser.add_argument("--skip-optimum", action="store_true")
    options = parser.parse_args()
    dp.default_space()  # its vectors are kept in the usual folder
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DP_MIDDLEWARE_CACHE"] = folder
        on_the_default_space()
        if not options.skip_optimum:
            against_the_optimum(options.words)


if __name__ == "__main__":
    main()
