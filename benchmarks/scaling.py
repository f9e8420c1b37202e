"""Setup, memory, and how cost grows with the vocabulary, the dimension and the text.

    OMP_NUM_THREADS=1 python benchmarks/scaling.py [--table setup|space|certificate|text ...]

``setup``: a process that imports the library, opens a space, certifies a mechanism and releases a
text of 200 tokens; vectors are on disk, certificates are not. ``space``: random unit vectors, V of
d dimensions: rows computed, draws cold (500 distinct tokens) and warm. ``certificate``: all pairs
of such a space are certified; nothing is sampled or extrapolated. ``text``: a text is encoded,
released by a sanitizer, released by a session and, with one word changed, again; ``growth`` is the
time of the whole over ten times that of a tenth of the text, 1 where cost is linear. Texts are of
words; the last lines are texts that tokenizers may be slow on, and private spans by the thousand.

Each line is a process of its own, and memory its peak (resident set). Seconds and rates are of CPU
time of the process, all threads together: other jobs do not count; ``wall`` is by the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from exact_epsilon import mechanism_named, space_named
from limits import random_space

import dp_middleware as dp
from dp_middleware.mechanisms.drawing import drawer
from dp_middleware.sampling.sampler import os_entropy

IMPORTED = time.process_time()  # seconds since the process began

SPACES = ("cl100k-11000", "default")
SIZES = [(v, 384) for v in (10_000, 30_000, 100_000)]
SIZES += [(v, d) for d in (768, 1536) for v in (10_000, 100_000)]
LENGTHS = (1_000, 10_000, 100_000, 1_000_000)
SHAPES = ("no blanks", "only blanks", "one letter words", "not ASCII", "spans")
EPSILON, DISTINCT, WARM = 3.0, 500, 200_000

Figures = dict[str, float]


def timed(work: Callable[[], object]) -> float:
    """Seconds of CPU time."""
    started = time.process_time()
    work()
    return time.process_time() - started


def opened(make: Callable[[], dp.EmbeddingSpace]) -> tuple[dp.EmbeddingSpace, float]:
    """A space, and the seconds that it took."""
    found: list[dp.EmbeddingSpace] = []
    seconds = timed(lambda: found.append(make()))
    return found[0], seconds


def setup(space_name: str, mechanism: str) -> Figures:
    """What a user waits for before the first release."""
    where, seconds = opened(lambda: space_named(space_name))
    words = where.vocabulary.decode(where.spread(200))
    sanitizer = dp.Sanitizer(mechanism_named(mechanism, EPSILON, where), where)
    return {
        "import s": IMPORTED,
        "space s": seconds,
        "certificate s": timed(lambda: sanitizer.certificate),
        "first release ms": 1e3 * timed(lambda: sanitizer.release(words)),
        "second ms": 1e3 * timed(lambda: sanitizer.release(words)),
    }


def space(size: str, dimensions: str) -> Figures:
    """Rows and draws on random vectors."""
    rng, v = np.random.default_rng(0), int(size)
    where, seconds = opened(lambda: random_space(v, int(dimensions)))
    mechanism = dp.TokenExponential(epsilon=EPSILON)
    mechanism.log_probs([0], where)  # centred vectors and their lengths
    where.fingerprint  # noqa: B018 - a hash of the vectors, once per space
    figures: Figures = {"space s": seconds}
    ids = rng.choice(v, DISTINCT, replace=False)
    figures["rows/s"] = DISTINCT / timed(lambda: mechanism.log_probs(ids, where))
    drawing, warm = drawer(mechanism, where), rng.choice(ids, WARM)
    figures["cold tokens/s"] = DISTINCT / timed(lambda: drawing.draw([ids], os_entropy))
    figures["warm tokens/s"] = WARM / timed(lambda: drawing.draw([warm], os_entropy))
    return figures


def certificate(name: str, size: str, dimensions: str) -> Figures:
    """All pairs, from nothing."""
    where = random_space(int(size), int(dimensions))
    mechanism = mechanism_named(name, EPSILON, where)
    seconds = timed(lambda: dp.certify(mechanism, where))
    return {"certificate s": seconds, "ns an entry": 1e9 * seconds / len(where) ** 2}


def text_of(shape: str, length: int, words: list[str]) -> str:
    """So many characters."""
    made = {
        "no blanks": "".join(words),
        "only blanks": " \n",
        "one letter words": "a ",
        "not ASCII": "naïve unverändert 猫 ",
    }.get(shape)
    if made is None:
        rng = np.random.default_rng(0)
        made = " ".join(rng.choice(words, length // 4 + 1).tolist())
    return (made * (length // len(made) + 1))[:length]


def text(space_name: str, shape: str, size: str) -> Figures:
    """A text by its length."""
    where = space_named(space_name)
    vocabulary = where.vocabulary
    ids = where.spread(1000)
    words = [each for k in ids if (each := vocabulary.tokens[k].strip("# "))]
    sanitizer = dp.Sanitizer(dp.NearestResponse(epsilon=EPSILON, candidates=1), where)
    sanitizer.certificate  # noqa: B018
    whole = text_of(shape, int(size), words)
    sanitizer.release_batch([whole, " ".join(words)])  # rows are cached
    figures: Figures = {"tokens": len(vocabulary.encode(whole))}
    taken = {
        each: steps_of(sanitizer, text_of(shape, n, words), shape)
        for each, n in (("tenth", int(size) // 10), ("whole", int(size)))
    }
    total = {each: sum(found.values()) for each, found in taken.items()}
    figures |= {f"{name} ms": 1e3 * seconds for name, seconds in taken["whole"].items()}
    figures["tokens/s"] = figures["tokens"] / taken["whole"]["release"]
    figures["growth"] = total["whole"] / (10 * total["tenth"])
    return figures


def every_other(whole: str) -> list[tuple[int, int]]:
    """Private spans of 20 characters."""
    return [(k, k + 20) for k in range(0, len(whole) - 20, 40)]


def steps_of(sanitizer: dp.Sanitizer, whole: str, shape: str) -> dict[str, float]:
    """Seconds of each way through the library; the best of some."""
    rounds = [steps(sanitizer, whole, shape) for _ in range(1 if len(whole) > 50_000 else 10)]
    return {name: min(each[name] for each in rounds) for name in rounds[0]}


def steps(sanitizer: dp.Sanitizer, whole: str, shape: str) -> dict[str, float]:
    """The same, once."""
    scope = every_other if shape == "spans" else None
    session, middle = dp.Session(sanitizer, scope=scope), len(whole) // 2
    edited = f"{whole[:middle]} x {whole[middle + 3 :]}"
    return {
        "encode": timed(lambda: sanitizer.space.vocabulary.encode(whole)),
        "release": timed(lambda: sanitizer.release(whole, scope=scope)),
        "session": timed(lambda: session.release("1", "user", whole)),
        "edited": timed(lambda: session.release("1", "user", edited)),
        "again": timed(lambda: session.release("1", "user", edited)),
    }


LENGTH_LINES = [(name, "words", n) for name in SPACES for n in LENGTHS]
SHAPE_LINES = [("cl100k-11000", shape, LENGTHS[-1]) for shape in SHAPES]
SHAPE_LINES += [("default", shape, LENGTHS[-1]) for shape in ("no blanks", "spans")]
MECHANISMS = ("nearest-response", "token-exponential")
SETUP_LINES = [("cl100k-11000", name) for name in MECHANISMS] + [("default", MECHANISMS[0])]

CERTIFICATE_LINES = [
    (name, v, 384)
    for v in (11_000, 30_000, 100_256)
    for name in ("token-exponential", "santext", "rantext-strict")
    if v < 100_000 or name == "token-exponential"
]

TABLES = {
    "setup": (setup, ("space", "mechanism"), SETUP_LINES),
    "space": (space, ("V", "d"), SIZES),
    "certificate": (certificate, ("mechanism", "V", "d"), CERTIFICATE_LINES),
    "text": (text, ("space", "text", "characters"), LENGTH_LINES + SHAPE_LINES),
}


def main() -> None:
    """Print Markdown tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", choices=list(TABLES), action="append")
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        measure(*options.one)
        return
    for name in options.table or TABLES:
        _, labels, lines = TABLES[name]
        print(f"{name}; load {os.getloadavg()[0]:.1f}\n", flush=True)
        header = None
        for line in lines:
            figures = in_a_process(name, *map(str, line))
            if header is None:
                header = [*labels, *figures]
                print("| " + " | ".join(header) + " |\n|" + "---|" * len(header))
            shown = [f"{x:,}" if isinstance(x, int) else x for x in line]
            shown += [f"{x:,.3g}" if x < 1000 else f"{x:,.0f}" for x in figures.values()]
            print("| " + " | ".join(shown) + " |", flush=True)
        print()


def measure(name: str, *line: str) -> None:
    """One line, in this process; as JSON."""
    started = time.perf_counter()
    figures = TABLES[name][0](*line)
    figures["wall s"] = time.perf_counter() - started
    figures["peak GB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(json.dumps(figures))


def in_a_process(*line: str) -> Figures:
    """:func:`measure` in a fresh process."""
    command = [sys.executable, __file__, "--one", *line]
    with tempfile.TemporaryDirectory() as cache:
        environment = dict(os.environ)
        if line[0] in ("setup", "certificate"):
            environment["DP_MIDDLEWARE_CACHE"] = cache
        if line[0] == "setup":
            make = f"from exact_epsilon import space_named; space_named({line[1]!r})"
            here = Path(__file__).parent
            subprocess.run([sys.executable, "-c", make], env=environment, cwd=here, check=True)
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    return dict(json.loads(done.stdout))


if __name__ == "__main__":
    main()
