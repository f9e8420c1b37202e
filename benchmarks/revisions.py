"""Certificates and cold rows of this tree against those of another revision, in one run.

    python benchmarks/revisions.py REVISION [--space cl100k-11000|default] [--mechanism NAME ...]

A worktree of the revision is made in a temporary folder, and the two take turns, each turn in a
process of its own with an empty cache; the best of each counts. ``certify`` is one certificate;
the other columns are the rows and integers of a text of so many distinct tokens, computed cold:
nothing is cached but the tables of the space. Figures are this tree's milliseconds, with the ratio
of the revision's to it in brackets: above 1, this tree is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from exact_epsilon import SPACES, mechanism_named, space_named

import dp_middleware as dp
from dp_middleware.mechanisms.base import rows_of
from dp_middleware.sampling import sampler

MECHANISMS = ("token-exponential", "santext", "rantext", "rantext-strict", "custext-strict")
EPSILON = 3.0
TEXTS = (1, 4, 15, 64, 1000)  # distinct tokens
TURNS, REPEATS = 3, 5
HERE = Path(__file__).resolve().parents[1]

Figures = dict[str, dict[str, float]]


def measure(names: list[str], space_name: str) -> Figures:
    """Seconds of each figure of each mechanism, with whichever library is imported."""
    read = space_named(space_name)
    return {name: of_mechanism(name, read) for name in names}


def of_mechanism(name: str, read: dp.EmbeddingSpace) -> dict[str, float]:
    """The best of a few repeats; a certificate once."""
    space = dp.EmbeddingSpace(read.vocabulary, read.vectors)
    mechanism = mechanism_named(name, EPSILON, space)
    mechanism.log_probs([0], space)  # laws, classes and tables of the space
    space.fingerprint  # noqa: B018 - a hash of the vectors, once per space
    figures = {}
    for size in TEXTS:
        ids = np.random.default_rng(size).choice(len(space), size, replace=False)

        def rows(chosen: np.ndarray = ids) -> None:
            for start in range(0, len(chosen), space.block):
                part = chosen[start : start + space.block]
                sampler.integer_rows(rows_of(mechanism, part, space))

        figures[f"{size} tokens"] = min(seconds(rows) for _ in range(REPEATS))
    figures["certify"] = seconds(lambda: dp.certify(mechanism, space))
    return figures


def seconds(work: Callable[[], object]) -> float:
    """How long it took."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def in_a_process(tree: Path, space: str, names: list[str], vectors: str) -> Figures:
    """:func:`measure` with the library of a tree; vectors are kept, certificates are not."""
    with tempfile.TemporaryDirectory() as cache:
        (Path(cache) / "vectors").symlink_to(vectors)
        environment = {**os.environ, "DP_MIDDLEWARE_CACHE": cache, "PYTHONPATH": str(tree)}
        command = [sys.executable, __file__, "--one", space, *names]
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, check=True, text=True
        )
    return dict(json.loads(done.stdout))


def compare(revision: str, space: str, names: list[str]) -> None:
    """Print a Markdown table."""
    with tempfile.TemporaryDirectory() as folder:
        tree, vectors = Path(folder) / "tree", Path(folder) / "vectors"
        vectors.mkdir()
        git = ["git", "-C", str(HERE), "worktree"]
        subprocess.run([*git, "add", "--detach", "-q", str(tree), revision], check=True)
        try:
            turns = [
                [in_a_process(side, space, names, str(vectors)) for side in (HERE, tree)]
                for _ in range(TURNS)
            ]
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)
    columns = list(turns[0][0][names[0]])
    print(f"| {space} | " + " | ".join(columns) + " |\n|---" + "|---" * len(columns) + "|")
    for name in names:
        cells = []
        for column in columns:
            ours, theirs = (min(turn[side][name][column] for turn in turns) for side in (0, 1))
            cells.append(f"{1e3 * ours:.3g} ({theirs / ours:.2f})")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Compare, or measure one side in a process that was started for it."""
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(sys.argv[3:], sys.argv[2])))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("revision")
    parser.add_argument("--space", choices=list(SPACES), action="append")
    parser.add_argument("--mechanism", choices=list(dp.MECHANISMS), action="append")
    options = parser.parse_args()
    for space in options.space or SPACES:
        compare(options.revision, space, options.mechanism or list(MECHANISMS))


if __name__ == "__main__":
    main()
