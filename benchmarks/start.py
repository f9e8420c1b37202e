"""Seconds and memory of a new process, from nothing to the first release by the default mechanism.

    OMP_NUM_THREADS=1 python benchmarks/start.py [--rounds 7]

The files of derived data are there: each command runs once before. They take turns; see
docs/benchmarks.md. The baseline imports what no release can do without.
"""

import os
import sys
import time
from pathlib import Path

import pages

RELEASE = "import dp_middleware as dp; dp.{}.release('a public text about the sea')"
PYTHON = [sys.executable, "-c"]
COMMAND = [str(Path(sys.executable).with_name("dp-middleware"))]
BASELINE = "import numpy, tokenizers"
COMMANDS = {
    BASELINE: [*PYTHON, BASELINE],
    "import dp_middleware": [*PYTHON, "import dp_middleware"],
    "dp.sanitizer(10).release": [*PYTHON, RELEASE.format("sanitizer(10)")],
    "dp-middleware --help": [*COMMAND, "--help"],
    "dp-middleware sanitize": [*COMMAND, "sanitize", "a public text about the sea"],
    "import torch": [*PYTHON, "import torch"],
}


def cost(command: list[str]) -> tuple[float, float, float]:
    """CPU seconds, seconds and MB; this process is smaller, so the peak is the command's."""
    nothing = [(os.POSIX_SPAWN_OPEN, k, os.devnull, os.O_WRONLY, 0) for k in (1, 2)]
    started = time.perf_counter()
    child = os.posix_spawn(command[0], command, os.environ, file_actions=nothing)
    _, status, usage = os.wait4(child, 0)
    wall = time.perf_counter() - started
    if status:
        raise SystemExit(f"expected exit status 0, got {status}: {' '.join(command)}")
    return usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024


if __name__ == "__main__":
    options = pages.options(__doc__, rounds=7)
    for command in COMMANDS.values():
        cost(command)
    rounds = [{name: cost(c) for name, c in COMMANDS.items()} for _ in range(options.rounds)]
    least, lines = min(done[BASELINE][0] for done in rounds), []
    for name in COMMANDS:
        cpu, wall, peak = map(min, zip(*(done[name] for done in rounds), strict=True))
        cells = (f"{cpu:.2f}", f"{cpu / least:.1f}", f"{wall:.2f}", f"{peak:.0f}")
        lines.append((f"`{name}`", *cells))
    heads = ("process", "CPU s", "of the baseline", "by the clock s", "peak MB")
    print(pages.markdown(heads, lines))
