"""Charges per second of the privacy ledger: SQLite and PostgreSQL, processes and threads.

    python benchmarks/ledger.py [--seconds 3] [--writers 1 8] [--threads 1 32] [--postgresql URL]

Every writer is a process; then one process has several threads, whose charges are committed
together. ``alone`` are as many threads of which only one may charge at a time, so that each charge
has a commit of its own. ``one subject``: all charge one budget, so they wait for each other;
``own subjects``: each charges its own. The baseline is the disk: a synchronised append of 4 KiB to
a file beside the ledger, alone. Without a URL of an empty database, PostgreSQL is the one that the
tests start.
"""

import argparse
import json
import multiprocessing
import os
import platform
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from multiprocessing.synchronize import Barrier
from pathlib import Path
from threading import Lock
from typing import Any

from dp_middleware.privacy import Adjacency, Certificate, PureDP
from dp_middleware.privacy.ledger.ledger import PrivacyLedger

CERTIFICATE = Certificate(
    guarantee=PureDP(epsilon=1e-3),
    adjacency=Adjacency.substitution(),
    method="exact",
    assumptions=(),
    claimed=1e-3,
    epsilon=1e-3,
    mechanism="toy(epsilon=0.001)",
    space="toy",
)
BUDGET = 1e6


def write(url: str, subject: str, seconds: float, barrier: Barrier, counts: object) -> None:
    """Charge until the time is over, all writers from the same moment on."""
    ledger = PrivacyLedger(url)
    ledger.charge(subject, CERTIFICATE, 1)
    barrier.wait()
    count, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        ledger.charge(subject, CERTIFICATE, 1)
        count += 1
    counts.put(count)
    ledger.close()


def rate(url: str, writers: int, seconds: float, *, own: bool) -> float:
    """Charges per second of all writers together."""
    context = multiprocessing.get_context("spawn")
    barrier, counts = context.Barrier(writers), context.Queue()
    processes = [
        context.Process(target=write, args=(url, f"subject {n * own}", seconds, barrier, counts))
        for n in range(writers)
    ]
    for each in processes:
        each.start()
    total = sum(counts.get() for _ in processes)
    for each in processes:
        each.join()
    return total / seconds


def rate_of_threads(url: str, threads: int, seconds: float, gate: Any) -> float:
    """Charges per second of the threads of one process, each within ``gate``."""
    ledger, counts = PrivacyLedger(url), [0] * threads
    ledger.charge("subject", CERTIFICATE, 1)
    end = time.perf_counter() + seconds

    def work(number: int) -> None:
        while time.perf_counter() < end:
            with gate:
                ledger.charge("subject", CERTIFICATE, 1)
            counts[number] += 1

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
    ledger.close()
    return sum(counts) / seconds


def appends(folder: Path, seconds: float) -> float:
    """Synchronised appends per second, what a commit cannot be faster than."""
    count, end = 0, time.perf_counter() + seconds
    with (folder / "baseline").open("ab", buffering=0) as file:
        while time.perf_counter() < end:
            file.write(bytes(4096))
            os.fsync(file.fileno())
            count += 1
    return count / seconds


def test_server() -> str:
    """A database of the server that the tests start."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from support.postgres import new_database

    return new_database()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--writers", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--postgresql", help="URL of an empty database")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        urls = {
            "SQLite": f"sqlite:///{folder}/ledger.db",
            "PostgreSQL": options.postgresql or test_server(),
        }
        figures = {"fsync": round(appends(Path(folder), options.seconds))}
        for name, url in urls.items():
            PrivacyLedger(url, budget=BUDGET)
            for writers in options.writers:
                for own in (False, True):
                    label = f"{name}, {writers} writers, {'own subjects' if own else 'one subject'}"
                    figures[label] = round(rate(url, writers, options.seconds, own=own))
            for threads in options.threads:
                for label, gate in (("together", nullcontext()), ("alone", Lock())):
                    per_second = rate_of_threads(url, threads, options.seconds, gate)
                    figures[f"{name}, {threads} threads, {label}"] = round(per_second)
            PrivacyLedger(url).verify()
    machine = {"cores": os.cpu_count(), "python": platform.python_version()}
    print(json.dumps({**machine, "charges per second": figures}, indent=2))


if __name__ == "__main__":
    main()
