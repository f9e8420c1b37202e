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
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pages
import psutil

CHUNK, ROUNDS, SUBJECT = 1000, 2, "corpus"
KEY = bytes(range(32))
SHORT = 5  # words of a row, for the growth

Figures = dict[str, Any]


@contextmanager
def watched() -> Iterator[Figures]:
    """Seconds of the clock and of all processes, and the most memory; without its own work."""
    cpu: dict[int, float] = {}
    figures: Figures = {"PSS MB": 0.0, "PSS MB of a worker": 0.0}
    done, own = Event(), [0.0]

    def look() -> None:
        this, found = psutil.Process(), []
        for process in (this, *this.children(recursive=True)):
            try:
                times = process.cpu_times()
                cpu[process.pid] = times.user + times.system
                found.append(process.memory_full_info().pss / 1e6)
            except psutil.Error:
                continue  # it has ended
        figures["PSS MB"] = max(figures["PSS MB"], sum(found))
        figures["PSS MB of a worker"] = max(figures["PSS MB of a worker"], *found[1:], 0)

    def watch() -> None:
        while not done.wait(0.2):
            look()
        own[0] = time.thread_time()

    look()
    before, began, thread = sum(cpu.values()), time.perf_counter(), Thread(target=watch)
    thread.start()
    try:
        yield figures
    finally:
        figures["wall s"] = time.perf_counter() - began
        done.set()
        thread.join()
        look()
        figures["CPU s"] = sum(cpu.values()) - before - own[0]


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


def read_csv(source: Path) -> Any:
    """A table by Arrow."""
    import pyarrow.csv

    spread = pyarrow.csv.ParseOptions(newlines_in_values=True)
    return pyarrow.csv.read_csv(source, parse_options=spread)


def preparation(folder: Path) -> Figures:
    """What is done once on a machine, and then opened by each process."""
    with watched() as figures:
        import dp_middleware as dp

        sanitizer = dp.sanitizer(10)
        sanitizer.prepare()
        sanitizer.release("ready")
    return {name: figures[name] for name in ("wall s", "CPU s", "PSS MB")}


def on_one_core(folder: Path) -> Figures:
    """Lines that take turns, and the ratio of the best."""
    import pyarrow.csv

    from dp_middleware.corpora import sanitize_file

    sanitizer, charging = opened(), opened(folder / "one.db")
    source, target = folder / "source.csv", folder / "target.csv"
    texts, reports = read_csv(source)["text"].to_pylist(), []
    chunks = [texts[start : start + CHUNK] for start in range(0, len(texts), CHUNK)]
    works: dict[str, Callable[[], object]] = {
        "pyarrow copy": lambda: pyarrow.csv.write_csv(read_csv(source), target),
        "drawn in memory": lambda: [sanitizer.release_batch(chunk) for chunk in chunks],
        "one text at a time": lambda: [sanitizer.release(text) for text in texts],
        "sanitize_file, 1 worker": lambda: reports.append(
            sanitize_file(source, target, ["text"], charging)
        ),
    }
    best: dict[str, Figures] = {}
    for _ in range(ROUNDS):
        for name, work in works.items():
            target.unlink(missing_ok=True)
            figures = timed(work)
            best[name] = min(best.get(name, figures), figures, key=lambda f: f["CPU s"])
    copied, drawn, _, filed = (figures["CPU s"] for figures in best.values())
    bytes_ = {"source": source.stat().st_size, "target": target.stat().st_size}
    ratio = filed / (drawn + copied)
    return {"lines": best, "ratio": ratio, "tokens": reports[0].tokens, "bytes": bytes_}


def timed(work: Callable[[], object]) -> Figures:
    """Seconds of this process."""
    seconds, clock = time.process_time(), time.perf_counter()
    work()
    return {"CPU s": time.process_time() - seconds, "wall s": time.perf_counter() - clock}


def with_two_workers(folder: Path) -> Figures:
    """Two processes, with their start."""
    from dp_middleware.corpora import sanitize_file

    sanitizer, source = opened(folder / "two.db"), folder / "source.csv"
    with watched() as figures:
        sanitize_file(source, source.with_suffix(".two.csv"), ["text"], sanitizer, workers=2)
    return figures


def on_ray(folder: Path) -> Figures:
    """Two actors of a local cluster; the source is read, and the target written, as Parquet."""
    import logging

    logging.disable(logging.ERROR)
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    import pyarrow.parquet
    import ray

    from dp_middleware.corpora.ray import sanitize

    sanitizer, source = opened(folder / "ray.db"), folder / "source.csv"
    with watched() as figures:
        ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
        ray.data.DataContext.get_current().enable_progress_bars = False
        table, parts = read_csv(source), source.with_suffix(".parts")
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
    ray.shutdown()
    return figures


def growth(folder: Path) -> Figures:
    """A file of short rows."""
    from dp_middleware.corpora import sanitize_file

    sanitizer, reports = opened(folder / "growth.db"), []
    before, target = peak_mb(), folder / f"{time.monotonic_ns()}.csv"
    figures = timed(
        lambda: reports.append(sanitize_file(folder / "short.csv", target, ["text"], sanitizer))
    )
    return figures | {"tokens": reports[0].tokens, "opened MB": before, "peak MB": peak_mb()}


def peak_mb() -> float:
    """The most resident memory of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e3


WORKS = {f.__name__: f for f in (preparation, on_one_core, with_two_workers, on_ray, growth)}


def show(title: str, heads: list[str], rows: list[list[Any]]) -> None:
    """A Markdown table."""

    def cell(value: Any) -> str:
        if isinstance(value, str):
            return value
        return f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"

    print(f"\n{title}; load {os.getloadavg()[0]:.1f}\n")
    print(pages.markdown(heads, [map(cell, row) for row in rows]), flush=True)


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
        write_source(folder / "source.csv", reviews(data, rows))
        one = work("on_one_core")
        lines = one["lines"] | {"sanitize_file, 2 workers": work("with_two_workers")}
        lines["Ray, 2 actors"] = work("on_ray")
        heads = ["", "CPU s", "rows/s of a core", "tokens/s of a core", "wall s"]
        heads += ["PSS MB", "PSS MB of a worker"]
        table = []
        for name, figures in lines.items():
            figures |= {
                heads[2]: rows / figures["CPU s"],
                heads[3]: one["tokens"] / figures["CPU s"],
            }
            table.append([name, *(figures.get(head, "") for head in heads[1:])])
        show(f"{rows:,} reviews, {one['tokens']:,} tokens", heads, table)
        print(f"\nratio {one['ratio']:.2f}; bytes: {one['bytes']}", flush=True)
    table = []
    for size in sizes:
        short = (" ".join(text.split()[:SHORT]) for text in reviews(data, size))
        write_source(folder / "short.csv", short)
        figures = work("growth")
        table.append([f"{size:,}", 1e6 * figures["CPU s"] / size, *figures.values()])
    show(f"rows of {SHORT} words", ["rows", "CPU us a row", *figures], table)


def main() -> None:
    """Print Markdown tables."""
    parser = pages.parser(__doc__)
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
