"""Files: rows and tokens a second, against drawing in memory and a plain copy, and how cost grows.

    python benchmarks/corpora.py DATA [--rows 20000] [--growth 1000 10000 100000 1000000]

DATA has ``imdb/dev.jsonl`` and ``sst2/dev.jsonl``, ``{"text": ...}`` a line: the reviews, shuffled
and repeated up to so many rows, in one CSV. The sanitizer is ``dp.sanitizer(10)``; files, workers
and Ray charge an SQLite ledger, the lines above them charge nothing. Everything is prepared in an
empty cache folder first, and opened from it again.

CPU seconds are of all processes and threads of a line; of workers and Ray, with their start.
Memory is PSS, where pages that processes share are counted once, the most that was seen; of the
growth, the peak of resident memory. ``ratio`` is the CPU time of ``sanitize_file`` over that of
drawing the same tokens and of the copy, in rounds that take turns, the best of each. ``--rows 0``
measures the growth alone.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psutil

CHUNK, ROUNDS, SUBJECT = 1000, 2, "corpus"
KEY = bytes(range(32))
SHORT = 5  # words of a row, for the growth

Figures = dict[str, Any]


class Watched:
    """Seconds of the clock and of all processes, and the most memory; without its own work."""

    def __enter__(self) -> Watched:
        self._cpu: dict[int, float] = {}
        self.pss, self.worker_pss, self._own = 0, 0, 0.0
        self._done = Event()
        self._look()
        self._before, self._began = sum(self._cpu.values()), time.perf_counter()
        self._thread = Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall = time.perf_counter() - self._began
        self._done.set()
        self._thread.join()
        self._look()
        self.cpu = sum(self._cpu.values()) - self._before - self._own

    def _watch(self) -> None:
        while not self._done.wait(0.2):
            self._look()
        self._own = time.thread_time()

    def _look(self) -> None:
        own = psutil.Process()
        found = []
        for process in (own, *own.children(recursive=True)):
            try:
                times = process.cpu_times()
                self._cpu[process.pid] = times.user + times.system
                found.append(process.memory_full_info().pss)
            except psutil.Error:
                continue  # it has ended
        self.pss = max(self.pss, sum(found))
        self.worker_pss = max(self.worker_pss, *found[1:], 0)


def reviews(data: Path, rows: int) -> Iterator[str]:
    """Texts of all lengths, shuffled, repeated as often as it takes."""
    paths = (data / name / "dev.jsonl" for name in ("imdb", "sst2"))
    texts = [json.loads(line)["text"] for path in paths for line in path.open("rb")]
    random.Random(0).shuffle(texts)
    return islice(cycle(texts), rows)


def write_source(path: Path, texts: Iterator[str]) -> None:
    """A CSV of numbers and texts."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["number", "text"])
        writer.writerows(enumerate(texts))


def opened(ledger: Path | None = None) -> Any:
    """The sanitizer, ready to draw."""
    import dp_middleware as dp

    account = None if ledger is None else dp.PrivacyLedger(f"sqlite:///{ledger}", budget=math.inf)
    sanitizer = dp.sanitizer(10, ledger=account, subject=None if ledger is None else SUBJECT)
    sanitizer.release("ready")
    return sanitizer


def preparation(folder: Path) -> Figures:
    """What is done once on a machine, and then opened by each process."""
    with Watched() as watched:
        import dp_middleware as dp

        sanitizer = dp.sanitizer(10)
        sanitizer.prepare()
        sanitizer.release("ready")
    return {"wall s": watched.wall, "CPU s": watched.cpu, "PSS MB": watched.pss / 1e6}


def on_one_core(folder: Path) -> Figures:
    """Lines that take turns, and the ratio of the best."""
    import pyarrow.csv

    sanitizer, charging = opened(), opened(folder / "one.db")
    source, target = folder / "source.csv", folder / "target.csv"
    texts = pyarrow.csv.read_csv(source)["text"].to_pylist()
    spread = pyarrow.csv.ParseOptions(newlines_in_values=True)

    def copy() -> None:
        pyarrow.csv.write_csv(pyarrow.csv.read_csv(source, parse_options=spread), target)

    def draw() -> None:
        for start in range(0, len(texts), CHUNK):
            sanitizer.release_batch(texts[start : start + CHUNK])

    def loop() -> None:
        for text in texts:
            sanitizer.release(text)

    reports = []

    def file() -> None:
        from dp_middleware.corpora import sanitize_file

        reports.append(sanitize_file(source, target, ["text"], charging))

    works = {"pyarrow copy": copy, "drawn in memory": draw, "one text at a time": loop}
    works |= {"sanitize_file, 1 worker": file}
    best: dict[str, Figures] = {}
    for _ in range(ROUNDS):
        for name, work in works.items():
            target.unlink(missing_ok=True)
            seconds, clock = time.process_time(), time.perf_counter()
            work()
            figures = {"CPU s": time.process_time() - seconds}
            figures["wall s"] = time.perf_counter() - clock
            best[name] = min(best.get(name, figures), figures, key=lambda f: f["CPU s"])
    cpu = {name: figures["CPU s"] for name, figures in best.items()}
    ratio = cpu["sanitize_file, 1 worker"] / (cpu["drawn in memory"] + cpu["pyarrow copy"])
    bytes_ = {"source": source.stat().st_size, "target": target.stat().st_size}
    return {"lines": best, "ratio": ratio, "tokens": reports[0].tokens, "bytes": bytes_}


def with_two_workers(folder: Path) -> Figures:
    """Two processes."""
    from dp_middleware.corpora import sanitize_file

    sanitizer = opened(folder / "two.db")

    def run(source: Path) -> None:
        target = source.with_suffix(".two.csv")
        sanitize_file(source, target, ["text"], sanitizer, workers=2)

    return _watched(folder, run)


def on_ray(folder: Path) -> Figures:
    """Two actors of a local cluster; the source is read, and the target written, as Parquet."""
    import logging

    logging.disable(logging.ERROR)
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    import pyarrow.csv
    import pyarrow.parquet
    import ray

    from dp_middleware.corpora.ray import sanitize

    sanitizer = opened(folder / "ray.db")
    spread = pyarrow.csv.ParseOptions(newlines_in_values=True)

    def run(source: Path) -> None:
        ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
        ray.data.DataContext.get_current().enable_progress_bars = False
        table = pyarrow.csv.read_csv(source, parse_options=spread)
        parts = source.with_suffix(".parts")
        parts.mkdir()
        for start in range(0, len(table), 5 * CHUNK):
            pyarrow.parquet.write_table(table.slice(start, 5 * CHUNK), parts / f"{start}.parquet")
        safe = sanitize(
            ray.data.read_parquet(str(parts)),
            column="text",
            sanitizer=sanitizer,
            row="number",
            job=source.stem,
            store=source.with_suffix(".store"),
            key=KEY,
            rows_per_chunk=CHUNK,
        )
        safe.write_parquet(str(source.with_suffix(".ray")))

    try:
        return _watched(folder, run)
    finally:
        ray.shutdown()


def _watched(folder: Path, run: Callable[[Path], None]) -> Figures:
    """With the start of all processes."""
    with Watched() as whole:
        run(folder / "source.csv")
    return {
        "CPU s": whole.cpu,
        "wall s": whole.wall,
        "PSS MB": whole.pss / 1e6,
        "PSS MB of a worker": whole.worker_pss / 1e6,
    }


def growth(folder: Path) -> Figures:
    """A file of short rows."""
    from dp_middleware.corpora import sanitize_file

    sanitizer = opened(folder / "growth.db")
    before = peak_mb()
    seconds, clock = time.process_time(), time.perf_counter()
    report = sanitize_file(
        folder / "short.csv", folder / f"{time.monotonic_ns()}.csv", ["text"], sanitizer
    )
    return {
        "CPU s": time.process_time() - seconds,
        "wall s": time.perf_counter() - clock,
        "tokens": report.tokens,
        "opened MB": before,
        "peak MB": peak_mb(),
    }


def peak_mb() -> float:
    """The most resident memory of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e3


WORKS = {f.__name__: f for f in (preparation, on_one_core, with_two_workers, on_ray, growth)}


def show(title: str, header: list[str], rows: list[list[Any]]) -> None:
    """A Markdown table."""
    print(f"\n{title}; load {os.getloadavg()[0]:.1f}\n")
    print("| " + " | ".join(header) + " |\n|" + "---|" * len(header))
    for row in rows:
        cells = [x if isinstance(x, str) else f"{x:,.3g}" if x < 1000 else f"{x:,.0f}" for x in row]
        print("| " + " | ".join(cells) + " |", flush=True)


def compare(data: Path, rows: int, folder: Path, work: Callable[[str], Figures]) -> None:
    """One file in every way."""
    write_source(folder / "source.csv", reviews(data, rows))
    one = work("on_one_core")
    lines = one["lines"] | {"sanitize_file, 2 workers": work("with_two_workers")}
    lines["Ray, 2 actors"] = work("on_ray")
    header = ["", "CPU s", "rows/s of a core", "tokens/s of a core", "wall s"]
    header += ["PSS MB", "PSS MB of a worker"]
    table = []
    for name, figures in lines.items():
        rates = {header[2]: rows / figures["CPU s"], header[3]: one["tokens"] / figures["CPU s"]}
        table.append([name, *((figures | rates).get(column, "") for column in header[1:])])
    show(f"{rows:,} reviews, {one['tokens']:,} tokens", header, table)
    print(f"\nratio {one['ratio']:.2f}; bytes: {one['bytes']}", flush=True)


def measure(data: Path, rows: int, sizes: list[int], folder: Path) -> None:
    """All tables."""

    def work(name: str) -> Figures:
        """In a fresh process."""
        command = [sys.executable, __file__, "--one", name, str(folder)]
        settings = {"DP_MIDDLEWARE_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
        environment = os.environ | settings
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
        return dict(json.loads(done.stdout.splitlines()[-1]))

    prepared = {when: work("preparation") for when in ("nothing on disk", "all on disk")}
    first = prepared["nothing on disk"]
    show("preparation", ["", *first], [[when, *f.values()] for when, f in prepared.items()])

    if rows:
        compare(data, rows, folder, work)

    table = []
    for size in sizes:
        short = (" ".join(text.split()[:SHORT]) for text in reviews(data, size))
        write_source(folder / "short.csv", short)
        figures = work("growth")
        table.append([f"{size:,}", 1e6 * figures["CPU s"] / size, *figures.values()])
    show(f"rows of {SHORT} words", ["rows", "CPU us a row", *figures], table)


def main() -> None:
    """Print Markdown tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--growth", type=int, nargs="*", default=[10**k for k in range(3, 7)])
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, folder = options.one
        print(json.dumps(WORKS[name](Path(folder))))
        return
    with tempfile.TemporaryDirectory() as folder:
        measure(options.data, options.rows, options.growth, Path(folder))


if __name__ == "__main__":
    main()
