"""Charges per second of the privacy ledger, by callers in one process and in two.

    python benchmarks/ledger.py [--seconds 3] [--callers 1 8 32] [--postgresql URL]

All charge one subject. Callers are threads; ``asyncio`` are as many tasks that charge in the
threads of ``asyncio.to_thread``, of which there are 32. ``alone`` are threads of which only one may
charge at a time, so that each charge has a commit of its own. In milliseconds what callers waited,
in the middle and of a hundred the longest. The baseline is the disk: a synchronised append of 4 KiB
to a file beside the ledger. Without a URL of an empty database, PostgreSQL is the one that the
tests start; ``--postgresql none`` leaves it out.
"""

import asyncio
import json
import multiprocessing
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pages

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
Waits = list[float]


def charge_until(ledger: PrivacyLedger, end: float, gate: Any) -> Waits:
    """Seconds that each charge of one caller took."""
    waits = []
    while (began := time.perf_counter()) < end:
        with gate:
            ledger.charge("subject", CERTIFICATE, 1)
        waits.append(time.perf_counter() - began)
    return waits


def threads(url: str, callers: int, seconds: float, gate: Any = None) -> Waits:
    """Of threads of this process."""
    ledger = PrivacyLedger(url)
    ledger.charge("subject", CERTIFICATE, 1)
    end = time.perf_counter() + seconds
    with ThreadPoolExecutor(callers) as pool:
        gates = [gate or nullcontext()] * callers
        waits = [*pool.map(partial(charge_until, ledger, end), gates)]
    ledger.close()
    return [*chain.from_iterable(waits)]


def tasks(url: str, callers: int, seconds: float) -> Waits:
    """Of tasks of one event loop."""
    ledger, waits = PrivacyLedger(url), []

    async def call(end: float) -> None:
        while (began := time.perf_counter()) < end:
            await asyncio.to_thread(ledger.charge, "subject", CERTIFICATE, 1)
            waits.append(time.perf_counter() - began)

    async def main() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(32))
        end = time.perf_counter() + seconds
        await asyncio.gather(*(call(end) for _ in range(callers)))

    asyncio.run(main())
    ledger.close()
    return waits


def two_processes(url: str, callers: int, seconds: float) -> Waits:
    """Of half as many threads in each of two processes."""
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        each = pool.starmap(threads, [(url, -(-callers // 2), seconds)] * 2, chunksize=1)
    return [*chain.from_iterable(each)]


def told(waits: Waits, seconds: float) -> dict[str, float]:
    """Public numbers."""
    middle, late = np.percentile(waits, [50, 99])
    times = {"p50 ms": round(1e3 * middle, 1), "p99 ms": round(1e3 * late, 1)}
    return {"per second": round(len(waits) / seconds), **times}


def appends(folder: Path, seconds: float) -> float:
    """Synchronised appends per second, what a commit cannot be faster than."""
    count, end = 0, time.perf_counter() + seconds
    with (folder / "baseline").open("ab", buffering=0) as file:
        while time.perf_counter() < end:
            file.write(bytes(4096))
            os.fsync(file.fileno())
            count += 1
    return count / seconds


def main() -> None:
    parser = pages.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--callers", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--postgresql", help="URL of an empty database, or none")
    options = parser.parse_args()
    seconds, kinds = options.seconds, {"threads": threads, "asyncio": tasks}
    kinds |= {"two processes": two_processes}
    with tempfile.TemporaryDirectory() as folder:
        figures: dict[str, Any] = {"fsync per second": round(appends(Path(folder), seconds))}
        urls = {"SQLite": f"sqlite:///{folder}/ledger.db"}
        if options.postgresql is None:
            sys.path.insert(0, str(pages.ROOT / "tests"))
            from support.postgres import new_database

            options.postgresql = new_database()
        if options.postgresql != "none":
            urls["PostgreSQL"] = options.postgresql
        for name, url in urls.items():
            PrivacyLedger(url, budget=1e6)
            for callers in options.callers:
                for kind, waits in kinds.items():
                    label = f"{name}, {callers} callers, {kind}"
                    figures[label] = told(waits(url, callers, seconds), seconds)
                alone = threads(url, callers, seconds, Lock())
                figures[f"{name}, {callers} callers, alone"] = told(alone, seconds)
            PrivacyLedger(url).verify()
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
