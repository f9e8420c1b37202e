"""Tokens per CPU second of every channel mechanism, cold and with cached rows.

    OMP_NUM_THREADS=1 python benchmarks/sampling.py [--space cl100k-11000|default|toy]
                                                    [--tokens 1000] [--mechanism NAME ...]

Texts are ids of the space drawn by Zipf's law, P(id) proportional to 1 / (id + 1): in cl100k and
in BERT's vocabulary small ids are frequent. Two baselines in the same run, both written from the
formulas and without a cache: ``numpy`` draws for 64 tokens at a time from whole rows, RANTEXT in
its two steps; ``loop`` does the same for one token after the other, as published programs do.

``cold`` are texts of 10,000 and 100,000 tokens, each for a sampler that has seen none and has no
landmarks: a row is computed once for all its occurrences. ``prepared`` is the shorter one where
lists or landmarks are on disk, in a file that the system has in memory (removed afterwards), nan
where a mechanism has neither; ``warm`` are texts of ``--tokens`` tokens, and of 200, whose rows are
cached. CPU time of the process: other jobs do not count, nor do threads help.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable

import numpy as np
import plain_numpy
from exact_epsilon import space_named

import dp_middleware as dp
from dp_middleware.mechanisms import ChannelMechanism
from dp_middleware.mechanisms.base import rows_of
from dp_middleware.mechanisms.drawing import drawer
from dp_middleware.sampling.sampler import Sampler, os_entropy

EPSILON = 3.0
COLD, LONG, SHORT, WARM = 10_000, 100_000, 200, 400_000
BASELINE = {"numpy": 512, "loop": 48}  # tokens of the baselines, which are slow
SPACES = ("cl100k-11000", "default", "toy")

Draw = Callable[[np.ndarray], object]


def the_space(name: str) -> dp.EmbeddingSpace:
    """A space by name; ``toy`` has 1,000 random vectors."""
    if name != "toy":
        return space_named(name)
    vectors = np.random.default_rng(0).normal(size=(1000, 64))
    return dp.EmbeddingSpace(dp.Vocabulary([f"w{i}" for i in range(1000)]), vectors)


def text(size: int, tokens: int, generator: np.random.Generator) -> np.ndarray:
    """Ids by Zipf's law."""
    weights = 1 / np.arange(1, size + 1)
    return generator.choice(size, tokens, p=weights / weights.sum())


def rate(draw: Draw, texts: list[np.ndarray], rounds: int = 1) -> float:
    """Tokens per CPU second, the best of some rounds."""
    fastest = np.inf
    for _ in range(rounds):
        started = time.process_time()
        for ids in texts:
            draw(ids)
        fastest = min(fastest, time.process_time() - started)
    return sum(map(len, texts)) / fastest


def row(mechanism: ChannelMechanism, space: dp.EmbeddingSpace, tokens: int) -> list[str]:
    """One line of the table."""
    generator, size = np.random.default_rng(0), len(space)
    baseline = plain_numpy.draw(mechanism, space)
    baseline(np.arange(2))  # matrices of the space
    slow = {
        "numpy": rate(baseline, [text(size, BASELINE["numpy"], generator)]),
        "loop": rate(baseline, list(text(size, BASELINE["loop"], generator)[:, None])),
    }
    mechanism.log_probs([0], space)  # laws, classes and tables of the space
    draw = sampler(mechanism, space)
    first = text(size, COLD, generator)
    cold = rate(draw, [first])
    long = rate(sampler(mechanism, space), [text(size, LONG, generator)])
    known = np.unique(first)  # of these, texts with the same frequencies
    warm = {n: [generator.choice(first, n) for _ in range(WARM // n)] for n in (tokens, SHORT)}
    rates = [rate(draw, texts, rounds=3) for texts in warm.values()]
    shown = [slow["loop"], slow["numpy"], cold, long, prepared(mechanism, space, first), *rates]
    ratios = [each / slow["numpy"] for each in (cold, long, rates[0])]
    return [
        mechanism.name,
        *(f"{value:,.0f}" for value in shown),
        *(f"{value:,.1f}" for value in ratios),
        f"{len(known):,}",
    ]


def sampler(mechanism: ChannelMechanism, space: dp.EmbeddingSpace) -> Draw:
    """One with an empty cache of its own."""
    return Sampler(lambda ids: rows_of(mechanism, ids, space), batch=space.block).draw


def prepared(mechanism: ChannelMechanism, space: dp.EmbeddingSpace, ids: np.ndarray) -> float:
    """Tokens per CPU second of the first text where lists or landmarks are on disk, or nan."""
    path = dp.Sanitizer(mechanism, space, accept_infinite=True).prepare()
    if path is None:
        return math.nan
    drawing = drawer(mechanism, space)
    measured = rate(lambda each: drawing.draw([each], os_entropy), [ids])
    path.unlink()
    return measured


def main() -> None:
    """Print a Markdown table."""
    channels = [n for n, kind in dp.MECHANISMS.items() if issubclass(kind, ChannelMechanism)]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--space", choices=SPACES, default="cl100k-11000")
    parser.add_argument("--tokens", type=int, default=1000, help="of a warm text")
    parser.add_argument("--mechanism", choices=channels, action="append")
    options = parser.parse_args()
    space = the_space(options.space)
    print(f"{space!r}, nominal {EPSILON:g}, tokens per CPU second\n")
    header = ["mechanism", "loop", "numpy", "cold", f"cold, {LONG:,}", "prepared"]
    header += [f"warm, {options.tokens}", f"warm, {SHORT}", "cold / numpy"]
    header += [f"cold, {LONG:,} / numpy", "warm / numpy", "distinct when cold"]
    print("| " + " | ".join(header) + " |\n|" + "---|" * len(header))
    for name in options.mechanism or channels:
        mechanism = plain_numpy.mechanism_named(name, EPSILON, space)
        print("| " + " | ".join(row(mechanism, space, options.tokens)) + " |", flush=True)


if __name__ == "__main__":
    main()
