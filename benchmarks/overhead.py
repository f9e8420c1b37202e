"""What the middleware adds to a LangChain and to a LlamaIndex call of 200 warm tokens.

    OMP_NUM_THREADS=1 python benchmarks/overhead.py [--space cl100k-11000|default|toy]
                                                    [--mechanism NAME ...] [--calls 400]

The model is a fake one in this process, so the baseline is the framework's own cost. A call of
the model alone and the same call through the middleware take turns; added is what a call takes
beyond the median call of the model alone. ``CPU p50`` is the same in time of the process: other
jobs do not count there, nor does the disk. Every call has a text of its own of 200 tokens, whose
rows are cached, and is a new event: charged, drawn and remembered. The ledger is in SQLite in the
folder for temporary files, durable before each draw; the line above the table has the median of a
synchronised append of 4 KiB to a file beside it, what a commit cannot be faster than.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from exact_epsilon import SPACES, mechanism_named, space_named
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage
from llama_index.core.llms import ChatMessage, MockLLM

import dp_middleware as dp
from dp_middleware.privacy.ledger.ledger import PrivacyLedger

sys.path.insert(0, str(Path(__file__).parents[1] / "integrations"))

from langchain_dp_middleware import DPChatModel, PrivateHead
from llama_index_dp_middleware import DPLLM

EPSILON = 3.0
TOKENS, WORDS, WARM_UP = 200, 500, 20
MECHANISMS = ("nearest-response", "token-exponential", "custext-strict", "rantext-strict")

Call = Callable[[str], object]


def texts_of(space: dp.EmbeddingSpace, count: int) -> Iterator[str]:
    """Distinct texts of 200 tokens out of 500 words, always the same."""
    vocabulary, rng = space.vocabulary, np.random.default_rng(0)
    words = rng.choice(np.flatnonzero(vocabulary.whole_words), WORDS, replace=False)
    while count:
        text = vocabulary.decode(rng.choice(words, TOKENS))
        if len(vocabulary.encode(text)) == TOKENS:
            count -= 1
            yield text


def calls(session: dp.Session) -> dict[str, tuple[Call, Call]]:
    """By adapter: the call of the model alone, and the one through the middleware."""
    chat, llm = FakeListChatModel(responses=["fine"]), MockLLM(max_tokens=5)
    chain, model = PrivateHead(session) | chat, DPChatModel(session, chat)
    shielded = DPLLM(session, llm)

    def alone(text: str) -> object:
        return chat.invoke([HumanMessage(text)])

    return {
        "LangChain, `PrivateHead \\| model`": (chat.invoke, chain.invoke),
        "LangChain, `DPChatModel`": (alone, lambda text: model.invoke([HumanMessage(text)])),
        "LlamaIndex, `DPLLM.chat`": (
            lambda text: llm.chat([ChatMessage(text)]),
            lambda text: shielded.chat([ChatMessage(text)]),
        ),
        "LlamaIndex, `DPLLM.complete`": (llm.complete, shielded.complete),
    }


def timed(call: Call, text: str) -> tuple[float, float]:
    """Milliseconds of the clock and of the process."""
    clock, spent = time.perf_counter(), time.process_time()
    call(text)
    return 1e3 * (time.perf_counter() - clock), 1e3 * (time.process_time() - spent)


def added(alone: Call, through: Call, texts: list[str]) -> list[float]:
    """Median of the model alone; then what is added: p50, p99, p50 of CPU time; milliseconds."""
    pairs = [(timed(alone, text), timed(through, text)) for text in texts][WARM_UP:]
    bare, ours = (np.array(each) for each in zip(*pairs, strict=True))
    median = np.median(bare, axis=0)
    p50, p99 = np.quantile(ours[:, 0] - median[0], (0.5, 0.99))
    return [median[0], p50, p99, np.median(ours[:, 1]) - median[1]]


def append_time(folder: Path) -> float:
    """Milliseconds of the median synchronised append."""
    with (folder / "appends").open("ab", buffering=0) as file:

        def append(_: str) -> None:
            file.write(bytes(4096))
            os.fsync(file.fileno())

        return float(np.median([timed(append, "")[0] for _ in range(200)]))


def rows(
    name: str, space: dp.EmbeddingSpace, count: int, folder: Path
) -> Iterator[tuple[str, list[float]]]:
    """Lines of the table for one mechanism: an adapter with and without a ledger each."""
    mechanism = mechanism_named(name, EPSILON, space)
    texts = list(texts_of(space, 4 * (count + WARM_UP)))
    for ledger in (None, PrivacyLedger(f"sqlite:///{folder}/{name}.db", budget=1e6)):
        subject = None if ledger is None else "someone"
        sanitizer = dp.Sanitizer(mechanism, space, ledger=ledger, subject=subject)
        sanitizer.release_batch(texts)  # all rows are cached
        for k, (adapter, pair) in enumerate(calls(dp.Session(sanitizer)).items()):
            with_ledger = "no" if ledger is None else "SQLite"
            yield f"{name} | {adapter} | {with_ledger}", added(*pair, texts[k::4])


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--space", choices=[*SPACES, "toy"], default="cl100k-11000")
    parser.add_argument("--mechanism", choices=list(dp.MECHANISMS), action="append")
    parser.add_argument("--calls", type=int, default=400)
    options = parser.parse_args()
    space = space_named(options.space)
    header = ["mechanism", "call", "ledger", "model alone ms", "added p50 ms", "added p99 ms"]
    header += ["added CPU p50 ms"]
    with tempfile.TemporaryDirectory() as folder:
        print(
            f"{space!r}, {TOKENS} tokens, nominal {EPSILON:g}; load {os.getloadavg()[0]:.1f}, ",
            end="",
        )
        print(f"synchronised append {append_time(Path(folder)):.2f} ms\n")
        print("| " + " | ".join(header) + " |\n|" + "---|" * len(header))
        for name in options.mechanism or MECHANISMS:
            for label, figures in rows(name, space, options.calls, Path(folder)):
                shown = " | ".join(f"{value:.2f}" for value in figures)
                print(f"| {label} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
