"""Time and memory of certificates and calibration, cold and from disk.

    python benchmarks/certificates.py [--space default|cl100k-11000] [--mechanism NAME ...]

Each mechanism runs in a process of its own with an empty cache folder. The baseline is one
streaming pass over the rows, computed and thrown away, in the same process: the ratio says what
rounding to integers and taking extremes adds. Noise and contextual mechanisms have no rows: their
certificates are from a proof, and these columns say so.
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

import dp_middleware as dp
from dp_middleware.embedding.space import BLOCK
from dp_middleware.mechanisms import ChannelMechanism, Mechanism

EPSILON = 3.0
LENGTH = 1  # tokens of a text: what a context or window of raw text adds is not timed


def measure(name: str, space_name: str) -> dict[str, float | str]:
    """Seconds and bytes for one mechanism on one space, in this process."""
    started = time.perf_counter()
    space = space_named(space_name)
    figures: dict[str, float | str] = {"space ready": time.perf_counter() - started}
    mechanism = mechanism_named(name, EPSILON, space)
    figures["rows only"] = rows_only(mechanism, space)
    figures["certify"] = seconds(lambda: dp.certify(mechanism, space, length=LENGTH))
    figures["from disk"] = seconds(lambda: dp.certify(mechanism, space, length=LENGTH))
    rows = figures["rows only"]
    figures["ratio"] = rows if isinstance(rows, str) else float(figures["certify"]) / rows
    try:
        figures["calibrate"] = seconds(
            lambda: dp.calibrate(mechanism, space, epsilon=EPSILON, length=LENGTH)
        )
    except dp.CannotCalibrate:
        figures["calibrate"] = "refused"
    figures["peak GB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return figures


def rows_only(mechanism: Mechanism, space: dp.EmbeddingSpace) -> float | str:
    """Seconds for all rows; a word where the certificate is from a proof, not from rows."""
    if not isinstance(mechanism, ChannelMechanism):
        return "proof"
    mechanism.log_probs([0], space)  # laws, classes and tables of the space
    return seconds(
        lambda: [
            mechanism.log_probs(np.arange(start, min(start + BLOCK, len(space))), space)[0, 0]
            for start in range(0, len(space), BLOCK)
        ]
    )


def seconds(work: Callable[[], object]) -> float:
    """How long it took."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def in_a_process(name: str, space: str) -> dict[str, float | str]:
    """:func:`measure` in a fresh process; the space's vectors are computed before it starts."""
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, __file__, "--one", name, "--space", space]
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
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.space[0])))
        return
    header = None
    for space in options.space or SPACES:
        for name in options.mechanism or dp.MECHANISMS:
            figures = in_a_process(name, space)
            if header is None:
                header = ["space", "mechanism", *figures]
                print("| " + " | ".join(header) + " |\n|" + "---|" * len(header))
            shown = [v if isinstance(v, str) else f"{v:.3g}" for v in figures.values()]
            print("| " + " | ".join([space, name, *shown]) + " |", flush=True)


if __name__ == "__main__":
    main()
