"""Time and memory of certificates and calibration, cold and from disk.

    python benchmarks/certificates.py [--space default|cl100k-11000] [--mechanism NAME ...]
                                      [--device auto|cpu|cuda]

Each mechanism runs in a process of its own with an empty cache folder. The baselines are two
streaming passes in the same process, thrown away: ``rows only``, to which ``ratio`` refers, and
``integers``, the rows and the integers that are drawn from, to which ``to integers`` does. Where
they are quick, passes and certificate take turns for some rounds, each round on a space of its own,
and the best of each counts. Seconds are by the clock; ``CPU ratio`` is of all threads' CPU time.
Noise and contextual mechanisms have no rows: their certificates are from a proof, and these columns
say so.

Away from the CPU ``of copy`` is the share of the device's memory bandwidth, that of cloning a large
tensor in the same run: a certificate is counted as 32 V^2 bytes, a row and its integers written and
read once each. More passes than these lower the share, which is what it is to show.
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
from exact_epsilon import SPACES, mechanism_named, space_named
from limits import bandwidth

import dp_middleware as dp
from dp_middleware.mechanisms import ChannelMechanism, Mechanism
from dp_middleware.mechanisms.base import rows_of
from dp_middleware.sampling import sampler

EPSILON = 3.0
LENGTH = 1  # tokens of a text: what a context or window of raw text adds is not timed
ROUNDS, QUICK = 4, 10.0  # another round while those before took less, seconds
TOUCHED = 32  # bytes an entry
TIMED = ("rows only", "integers", "certify", "from disk")
RATIOS = {
    "ratio": ("rows only", ""),
    "CPU ratio": ("rows only", " CPU"),
    "to integers": ("integers", ""),
}

Figures = dict[str, float | str]


def measure(name: str, space_name: str, device: str) -> Figures:
    """Seconds and bytes for one mechanism on one space, in this process."""
    started = time.perf_counter()
    read = space_named(space_name)
    figures: Figures = {"space ready": time.perf_counter() - started}
    mechanism = mechanism_named(name, EPSILON, read)
    rounds, began = [], time.perf_counter()
    while not rounds or (len(rounds) < ROUNDS and time.perf_counter() - began < QUICK):
        space = dp.EmbeddingSpace(read.vocabulary, read.vectors, device=device)
        rounds.append(one_round(mechanism, space))
    best = {each: min(found[each] for found in rounds) for each in rounds[0]}
    figures |= {each: best.get(each, "proof") for each in TIMED}
    for ratio, (base, unit) in RATIOS.items():
        rows = best.get(f"{base}{unit}")
        figures[ratio] = best[f"certify{unit}"] / rows if rows else "proof"
    if "rows only" in best and space.device.type != "cpu":
        touched = TOUCHED * len(space) ** 2 / best["certify"]
        figures["of copy"] = touched / bandwidth(space.device)
    figures["calibrate"] = calibration(mechanism, space)
    figures["peak GB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return figures


def one_round(mechanism: Mechanism, space: dp.EmbeddingSpace) -> dict[str, float]:
    """Seconds for the rows, if there are any, the certificate and reading it again."""
    found: dict[str, float] = {}
    space.fingerprint  # noqa: B018 - a hash of the vectors, once per space
    with tempfile.TemporaryDirectory() as cache:
        os.environ["DP_MIDDLEWARE_CACHE"] = cache
        steps = {"certify": lambda: certify(mechanism, space)}
        if isinstance(mechanism, ChannelMechanism):
            mechanism.log_probs([0], space)  # laws, classes and tables of the space
            steps = {
                "rows only": lambda: rows_only(mechanism, space),
                "integers": lambda: rows_only(mechanism, space, integers=True),
                **steps,
            }
        for name, work in (*steps.items(), ("from disk", steps["certify"])):
            found[f"{name} CPU"] = -time.process_time()
            found[name] = seconds(work)
            found[f"{name} CPU"] += time.process_time()
    return found


def certify(mechanism: Mechanism, space: dp.EmbeddingSpace) -> dp.Certificate:
    """For a text of one token."""
    return dp.certify(mechanism, space, length=LENGTH)


def calibration(mechanism: Mechanism, space: dp.EmbeddingSpace) -> float | str:
    """Seconds, or a word."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ["DP_MIDDLEWARE_CACHE"] = cache
        try:
            return seconds(lambda: dp.calibrate(mechanism, space, epsilon=EPSILON, length=LENGTH))
        except dp.CannotCalibrate:
            return "refused"


def rows_only(
    mechanism: ChannelMechanism, space: dp.EmbeddingSpace, *, integers: bool = False
) -> None:
    """All rows, or their integers, each block finished before it is thrown away."""
    ids = np.arange(len(space))
    for start in range(0, len(space), space.block):
        rows = rows_of(mechanism, ids[start : start + space.block], space)
        float((sampler.integer_rows(rows).weights if integers else rows)[0, 0])


def seconds(work: Callable[[], object]) -> float:
    """How long it took."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def in_a_process(name: str, space: str, device: str) -> Figures:
    """:func:`measure` in a fresh process; the space's vectors are computed before it starts."""
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, __file__, "--one", name, "--space", space]
        command += ["--device", device]
        environment = {**os.environ, "DP_MIDDLEWARE_CACHE": cache}
        setup = f"from exact_epsilon import space_named; space_named({space!r})"
        subprocess.run(
            [sys.executable, "-c", setup], env=environment, cwd=Path(__file__).parent, check=True
        )
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, check=True, text=True
        )
    return dict(json.loads(done.stdout))


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--space", choices=list(SPACES), action="append")
    parser.add_argument("--mechanism", choices=list(dp.MECHANISMS), action="append")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.space[0], options.device)))
        return
    header = None
    for space in options.space or SPACES:
        for name in options.mechanism or dp.MECHANISMS:
            figures = in_a_process(name, space, options.device)
            if header is None:
                header = ["space", "mechanism", *figures]
                print("| " + " | ".join(header) + " |\n|" + "---|" * len(header))
            shown = [v if isinstance(v, str) else f"{v:.3g}" for v in figures.values()]
            print("| " + " | ".join([space, name, *shown]) + " |", flush=True)


if __name__ == "__main__":
    main()
