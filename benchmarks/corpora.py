"""Files: rows and tokens a second, against drawing in memory and a plain copy, and how cost grows.

    python benchmarks/corpora.py DATA [--rows 20000] [--growth 1000 10000 100000 1000000]

The texts of ``imdb/dev.jsonl`` and ``sst2/dev.jsonl``, shuffled and repeated up to so many rows, in
one CSV; see docs/scale.md. Files, workers and Ray charge an SQLite ledger, the lines above them
nothing. CPU seconds are of all processes and threads of a line, with their start. Memory is PSS; of
the growth, the peak of resident memory. ``ratio`` is the CPU time of ``sanitize_file`` over that of
drawing the same tokens and of the copy, the best of each. ``--rows 0`` measures the growth alone.
"""

import csv
import logging
import math
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pages
import psutil

CHUNK, ROUNDS = 1000, 2
SHORT = 5  # words of a row, for the growth

Figures = dict[str, Any]


@contextmanager
def watched() -> Iterator[Figures]:
    """Seconds of the clock and of all processes, and the most memory; without its own work."""
    cpu, done, own = dict[int, float](), Event(), [0.0]
    figures: Figures = {"PSS MB": 0.0, "PSS MB of a worker": 0.0}

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
    before, began, thread = (
        sum(cpu.values()),
        time.perf_counter(),
        Thread(target=watch, daemon=True),
    )
    thread.start()
    yield figures
    figures["wall s"] = time.perf_counter() - began
    done.set()
    thread.join()
    look()
    figures["CPU s"] = sum(cpu.values()) - before - own[0]


def timed(work: Callable[[], object]) -> Figures:
    clock = time.perf_counter()
    return {"CPU s": pages.timed(work)[0], "wall s": time.perf_counter() - clock}


def write_source(path: Path, texts: Iterable[str]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([("number", "text"), *enumerate(texts)])


def opened(ledger: Path | None = None) -> Any:
    """The sanitizer, ready to draw."""
    import dp_middleware as dp

    account = ledger and dp.PrivacyLedger(f"sqlite:///{ledger}", budget=math.inf)
    sanitizer = dp.sanitizer(10, ledger=account, subject=ledger and "corpus")
    sanitizer.release("ready")
    return sanitizer


def read_csv(source: Path) -> Any:
    from pyarrow import csv

    return csv.read_csv(source, parse_options=csv.ParseOptions(newlines_in_values=True))


def preparation(folder: str) -> Figures:
    """What is done once on a machine, and then opened by each process."""
    with watched() as figures:
        opened().prepare()
    return {name: figures[name] for name in ("wall s", "CPU s", "PSS MB")}


def on_one_core(folder: str) -> Figures:
    """Lines that take turns, and the ratio of the best."""
    import pyarrow.csv

    from dp_middleware.corpora import sanitize_file

    sanitizer, charging = opened(), opened(Path(folder, "one.db"))
    source, target = Path(folder, "source.csv"), Path(folder, "target.csv")
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
    for name, work in ROUNDS * [*works.items()]:
        target.unlink(missing_ok=True)
        figures = timed(work)
        best[name] = min(best.get(name, figures), figures, key=lambda f: f["CPU s"])
    copied, drawn, _, filed = (figures["CPU s"] for figures in best.values())
    found = {"lines": best, "ratio": filed / (drawn + copied), "tokens": reports[0].tokens}
    return found | {"bytes": {file.stem: file.stat().st_size for file in (source, target)}}


def with_two_workers(folder: str) -> Figures:
    from dp_middleware.corpora import sanitize_file

    sanitizer, source = opened(Path(folder, "two.db")), Path(folder, "source.csv")
    with watched() as figures:
        sanitize_file(source, source.with_suffix(".two.csv"), ["text"], sanitizer, workers=2)
    return figures


def on_ray(folder: str) -> Figures:
    """Two actors of a local cluster; the source is read, and the target written, as Parquet."""
    logging.disable(logging.ERROR)
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    import pyarrow.parquet
    import ray

    from dp_middleware.corpora.ray import sanitize

    sanitizer, source = opened(Path(folder, "ray.db")), Path(folder, "source.csv")
    with watched() as figures:
        ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
        ray.data.DataContext.get_current().enable_progress_bars = False
        table, parts = read_csv(source), source.with_suffix(".parts")
        parts.mkdir()
        for start in range(0, len(table), 5 * CHUNK):
            pyarrow.parquet.write_table(table.slice(start, 5 * CHUNK), parts / f"{start}.parquet")
        how = {"column": "text", "row": "number", "job": source.stem, "rows_per_chunk": CHUNK}
        how |= {"store": source.with_suffix(".store"), "key": bytes(range(32))}
        safe = sanitize(ray.data.read_parquet(str(parts)), sanitizer=sanitizer, **how)
        safe.write_parquet(str(source.with_suffix(".ray")))
    ray.shutdown()
    return figures


def growth(folder: str) -> Figures:
    from dp_middleware.corpora import sanitize_file

    sanitizer = opened(Path(folder, "growth.db"))
    before, target = pages.peak_kb() / 1e3, Path(folder, f"{time.monotonic_ns()}.csv")
    source = Path(folder, "short.csv")
    figures = timed(lambda: sanitize_file(source, target, ["text"], sanitizer))
    return figures | {"opened MB": before, "peak MB": pages.peak_kb() / 1e3}


def show(title: str, heads: list[str], rows: list[list[Any]]) -> None:
    def cell(value: Any) -> str:
        return value if isinstance(value, str) else f"{value:,{'.3g' if value < 1000 else '.0f'}}"

    print(f"\n{title}; load {os.getloadavg()[0]:.1f}\n")
    print(pages.markdown(heads, [map(cell, row) for row in rows]), flush=True)


if __name__ == "__main__":
    given = pages.options(__doc__, "data", rows=20_000, growth=[10**k for k in range(3, 7)])
    files = [given.data / name / "dev.jsonl" for name in ("imdb", "sst2")]
    reviews, rows = [record["text"] for file in files for record in pages.records(file)], given.rows
    random.Random(0).shuffle(reviews)
    with tempfile.TemporaryDirectory() as folder:
        settings = {"DP_MIDDLEWARE_CACHE": f"{folder}/cache", "OMP_NUM_THREADS": "1"}

        work = partial(pages.child, **settings)
        prepared = {when: work(preparation, folder) for when in ("nothing on disk", "all on disk")}
        heads = ["", *prepared["all on disk"]]
        show("preparation", heads, [[when, *f.values()] for when, f in prepared.items()])
        if rows:
            write_source(Path(folder, "source.csv"), islice(cycle(reviews), rows))
            one = work(on_one_core, folder)
            lines = one["lines"] | {"sanitize_file, 2 workers": work(with_two_workers, folder)}
            lines["Ray, 2 actors"] = work(on_ray, folder)
            rates = ["rows/s of a core", "tokens/s of a core"]
            heads = ["", "CPU s", *rates, "wall s", "PSS MB", "PSS MB of a worker"]
            for figures in lines.values():
                counts = zip(rates, (rows, one["tokens"]), strict=True)
                figures |= {head: count / figures["CPU s"] for head, count in counts}
            table = [[n, *(f.get(head, "") for head in heads[1:])] for n, f in lines.items()]
            show(f"{rows:,} reviews, {one['tokens']:,} tokens", heads, table)
            print(f"\nratio {one['ratio']:.2f}; bytes: {one['bytes']}", flush=True)
        table = []
        for size in given.growth:
            short = (" ".join(text.split()[:SHORT]) for text in islice(cycle(reviews), size))
            write_source(Path(folder, "short.csv"), short)
            figures = work(growth, folder)
            table.append([f"{size:,}", 1e6 * figures["CPU s"] / size, *figures.values()])
        show(f"rows of {SHORT} words", ["rows", "CPU us a row", *figures], table)
