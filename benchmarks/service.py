"""Texts per second of the embedding service at 1, 8 and 64 callers, beside the model itself.

    python benchmarks/service.py [--texts 512] [--rounds 3]

The baseline gives the same texts to the model in one call, which sorts and batches them: the most
that a service can reach without knowing what comes next. The ratio is of elapsed time, and beside
busy processes less telling than that of CPU time; both are of one run.

Callers are threads that ask for one text at a time. Added latency is what a request takes beyond
a call of the model with one text. With n callers and a model that computes one batch at a time a
request shares its batch with n - 1 others, so the time of that batch is the last column. Rounds
alternate; the best of each counts. Distinct texts of 4 to 40 words; the model is warm.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from threading import Thread

import numpy as np
from sentence_transformers import SentenceTransformer

import dp_middleware as dp
from dp_middleware import _files
from dp_middleware.embedding.backends import SentenceModel

CALLERS = (1, 8, 64)
BATCHES = {"cpu": 16, "cuda": 256}  # of the baseline, the best of 8 to 256
WORDS = (Path(__file__).parent.parent / "README.md").read_text().split()


class Counted(SentenceModel):
    """The encoder; counts its calls."""

    calls = 0

    def open(self):
        """Load the model."""
        encode = super().open()

        def counted(texts):
            type(self).calls += 1
            return encode(texts)

        return counted


def texts_of(count):
    """Distinct texts, always the same."""
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(WORDS, size=rng.integers(4, 41))) + f" {k}" for k in range(count)]


def timed(work):
    """Seconds of the clock and of all threads."""
    clock, spent = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - clock, time.process_time() - spent


def direct(model, texts):
    """Seconds that the model takes for all texts at once."""
    size = BATCHES[model.device.type]
    return timed(
        lambda: model.encode(
            texts, batch_size=size, normalize_embeddings=True, show_progress_bar=False
        )
    )


def shared(service, texts, callers):
    """Seconds for all texts, and those of the clock of every request."""
    taken = []

    def caller(mine):
        for text in mine:
            taken.append(timed(lambda text=text: service.encode([text]))[0])

    def callers_together():
        threads = [Thread(target=caller, args=(texts[k::callers],)) for k in range(callers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return timed(callers_together), taken


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    texts = texts_of(options.texts)
    model = SentenceTransformer(_files.encoder_source("all-MiniLM-L6-v2"), device=options.device)
    service = dp.EmbeddingService.of(Counted("all-MiniLM-L6-v2", device=options.device))
    service.encode(texts[:64])
    header = ["callers", "texts/s", "direct texts/s", "ratio", "ratio of CPU time"]
    header += ["texts per call of the model"]
    header += ["latency p50 ms", "p99 ms", "added p50 ms", "added p99 ms", "direct batch ms"]
    print("| " + " | ".join(header) + " |\n|" + "---|" * len(header))
    for callers in CALLERS:
        print("| " + " | ".join(row(model, service, texts, callers, options.rounds)) + " |")


def row(model, service, texts, callers, rounds):
    """One line of the table."""
    before = service.backend.calls
    pairs = [(direct(model, texts), shared(service, texts, callers)) for _ in range(rounds)]
    calls = service.backend.calls - before
    whole = np.min([seconds for seconds, _ in pairs], axis=0)
    ours = np.min([seconds for _, (seconds, _) in pairs], axis=0)
    taken = min((pair[1] for pair in pairs), key=lambda each: each[0])[1]
    own = np.median([direct(model, [text])[0] for text in texts[:32]])
    batch = min(direct(model, texts[:callers])[0] for _ in range(rounds))
    size = rounds * len(texts) / calls
    p50, p99 = np.quantile(taken, (0.5, 0.99))
    shown = [str(callers), f"{len(texts) / ours[0]:,.0f}", f"{len(texts) / whole[0]:,.0f}"]
    shown += [f"{whole[0] / ours[0]:.2f}", f"{whole[1] / ours[1]:.2f}", f"{size:.1f}"]
    shown += [f"{1e3 * p50:.1f}", f"{1e3 * p99:.1f}"]
    shown += [f"{1e3 * (p50 - own):.1f}", f"{1e3 * (p99 - own):.1f}", f"{1e3 * batch:.1f}"]
    return shown


if __name__ == "__main__":
    main()
