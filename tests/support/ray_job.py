"""A job of Ray Data on a local cluster whose actors are killed; run as a script.

    python tests/support/ray_job.py FOLDER LEDGER

A process of its own: Ray starts others and opens files that it never closes. Prints one JSON
document.
"""

import json
import logging
import os
import signal
import sys
import time
from pathlib import Path
from threading import Thread

os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}

import psutil
import pyarrow as pa
import ray
from support.spaces import random_space
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.corpora.ray import sanitize

ROWS, CHUNK, KILLS = 600, 20, 2
KEY = bytes(range(32))


class Slow(dp.Sanitizer):
    """Takes long enough for a chunk to be killed in."""

    def read(self, text, scope=None):
        time.sleep(0.004)
        return super().read(text, scope)


def texts():
    """Of all rows, no two equal; one in a hundred is null."""
    return [None if n % 100 == 7 else f"w{n % 30} {CANARY} w{n % 7}" for n in range(ROWS)]


def files(source, lengths, order=1):
    """The rows in files of these lengths, so that blocks and chunks have other borders."""
    source.mkdir()
    places, cells = range(ROWS)[::order], texts()[::order]
    for number, length in enumerate(lengths):
        end = sum(lengths[: number + 1])
        part = slice(end - length, end)
        table = pa.table({"text": cells[part], "place": [*places[part]]})
        pa.parquet.write_table(table, source / f"{number}.parquet")
    return source


def kill_actors(killed, store):
    for part in range(KILLS):
        while len([*store.glob("*.arrow")]) < (part + 1) * ROWS // CHUNK // 4:
            time.sleep(0.01)
        own = psutil.Process().children(recursive=True)
        actors = [p for p in own if p.name().startswith("ray::") and "Map" in p.name()]
        actors[part % len(actors)].send_signal(signal.SIGKILL)
        killed.append(actors[part % len(actors)].pid)


def main(folder, url):
    logging.disable(logging.ERROR)
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False, configure_logging=False)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars, context.target_min_block_size = False, 1
    ledger = dp.PrivacyLedger(url, budget=1e6)
    payer = {"ledger": ledger, "subject": "corpus"}
    sanitizer = Slow(dp.TokenExponential(epsilon=1.0), random_space(30), **payer)
    folder.mkdir(exist_ok=True)
    store = folder / "store"
    rows = read(files(folder / "rows", [133, 17, 250, 1, 199]))
    options = {
        "column": "text", "sanitizer": sanitizer,
        "row": "place", "job": "reviews", "store": store, "key": KEY, "rows_per_chunk": CHUNK,
    }  # fmt: skip
    lazy = sanitize(rows, **options)
    killed = []
    killer = Thread(target=kill_actors, args=(killed, store))
    killer.start()
    first = in_order(lazy)
    killer.join()
    parts, charged = len([*store.glob("*.arrow")]), len(ledger.rows("corpus"))
    second = in_order(lazy)
    turned = read(files(folder / "turned", [150, 300, 150], order=-1))
    third = in_order(sanitize(turned, **options))
    other = lambda t: t.set_column(0, "text", pa.array(["w1"] * len(t)))  # noqa: E731
    changed = rows.map_batches(other, batch_format="pyarrow")
    refused = ""
    try:
        in_order(sanitize(changed, **options))
    except Exception as error:
        refused = f"{error}"
    session = Path(ray._private.worker._global_node.get_session_dir_path())
    ray.shutdown()
    logs = [p for p in (session / "logs").rglob("*") if p.is_file()]
    return {
        "killed": len(killed), "charged": charged, "parts": parts,
        "same": first == second, "in_another_order": first == third,
        "refused": refused,
        "charged_in_the_end": len(ledger.rows("corpus")), "spent": ledger.spent("corpus"),
        "places": [row["place"] for row in first], "texts": [row["text"] for row in first],
        "epsilon": sum(row["dp_epsilon"] for row in first),
        "leaks": [p.name for p in [*logs, *store.iterdir()] if CANARY.encode() in p.read_bytes()],
        "logs": len(logs),
    }  # fmt: skip


def read(source):
    return ray.data.read_parquet(str(source), override_num_blocks=len([*source.iterdir()]))


def in_order(dataset):
    return sorted(dataset.take_all(), key=lambda each: each["place"])


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2])))
