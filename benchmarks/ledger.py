"""Charges per second of the privacy ledger, by callers in one process and in two.

    python benchmarks/ledger.py [--seconds 3] [--callers 1 8 32] [--url URL]

All charge one subject. Callers are threads; ``asyncio`` are as many tasks, which charge in 32
threads. The baseline is the disk: a synchronised append of 4 KiB to a file beside the ledger, which
is SQLite or, by its URL, an empty database.
"""

import asyncio
import json
import multiprocessing
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pages

from dp_middleware.privacy import Adjacency, Certificate, PureDP
from dp_middleware.privacy.ledger.ledger import PrivacyLedger

_TOY: dict[str, Any] = {"method": "exact", "assumptions": (), "claimed": 1e-3, "epsilon": 1e-3}
_TOY |= {"mechanism": "toy(epsilon=0.001)", "space": "toy", "guarantee": PureDP(epsilon=1e-3)}
CERTIFICATE = Certificate(adjacency=Adjacency.substitution(), **_TOY)
Waits = list[float]


def threads(url: str, callers: int, seconds: float) -> Waits:
    """Seconds that each charge took, of threads of this process."""
    ledger = PrivacyLedger(url)
    ledger.charge("subject", CERTIFICATE, 1)
    end = time.perf_counter() + seconds

    def call(_: int) -> Waits:
        waits = []
        while (began := time.perf_counter()) < end:
            ledger.charge("subject", CERTIFICATE, 1)
            waits.append(time.perf_counter() - began)
        return waits

    with ThreadPoolExecutor(callers) as pool:
        waits = [*chain.from_iterable(pool.map(call, range(callers)))]
    ledger.close()
    return waits


def tasks(url: str, callers: int, seconds: float) -> Waits:
    ledger, waits = PrivacyLedger(url), []

    async def call(end: float) -> None:
        while (began := time.perf_counter()) < end:
            await asyncio.to_thread(ledger.charge, "subject", CERTIFICATE, 1)
            waits.append(time.perf_counter() - began)

    async def every() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(32))
        end = time.perf_counter() + seconds
        await asyncio.gather(*(call(end) for _ in range(callers)))

    asyncio.run(every())
    ledger.close()
    return waits


def two_processes(url: str, callers: int, seconds: float) -> Waits:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        each = pool.starmap(threads, [(url, -(-callers // 2), seconds)] * 2, chunksize=1)
    return [*chain.from_iterable(each)]


def appends(folder: Path, seconds: float) -> float:
    """Synchronised appends per second, what a commit cannot be faster than."""
    count, end = 0, time.perf_counter() + seconds
    with (folder / "baseline").open("ab", buffering=0) as file:
        while time.perf_counter() < end:
            file.write(bytes(4096))
            os.fsync(file.fileno())
            count += 1
    return count / seconds


if __name__ == "__main__":
    options = pages.options(__doc__, seconds=3.0, callers=[1, 8, 32], url=str)
    kinds = {"threads": threads, "asyncio": tasks, "two processes": two_processes}
    seconds = options.seconds
    with tempfile.TemporaryDirectory() as folder:
        figures: dict[str, Any] = {"fsync per second": round(appends(Path(folder), seconds))}
        url = options.url or f"sqlite:///{folder}/ledger.db"
        PrivacyLedger(url, budget=1e6)
        for callers in options.callers:
            for kind, charge in kinds.items():
                waits = charge(url, callers, seconds)
                p99 = round(1e3 * float(np.percentile(waits, 99)), 1)
                own = {"per second": round(len(waits) / seconds), "p99 ms": p99}
                figures[f"{callers} callers, {kind}"] = own
        PrivacyLedger(url).verify()
    print(json.dumps(figures, indent=2))
