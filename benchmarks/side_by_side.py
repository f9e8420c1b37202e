"""The published programs of RANTEXT and SanText beside ours: tokens per CPU second, text to text.

    git clone https://github.com/mengtong0110/InferDPT
    git clone https://github.com/xiangyue9607/SanText
    python benchmarks/side_by_side.py TEXTS.jsonl --inferdpt InferDPT --santext SanText

docs/benchmarks.md says what the columns are. Of the records' "text" the words stay that are tokens
of cl100k-11,000 with a leading blank, so that every program has the same tokens. The programs are
run as they are, from their clones: InferDPT's takes a file of all distances in order, which is made
here for the words that occur, outside of all times; SanText's needs its matrix of probabilities.
Ours run in new processes on an empty cache folder; the last table says, by cProfile, where the cold
seconds go.
"""

import cProfile
import importlib
import os
import pstats
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pages

EPSILON, WARM_UP, ROUNDS = 3.0, "the", 3
PAIRS = 2_000  # of which InferDPT's distances are timed
OURS, TASKS = ("rantext", "santext", "nearest-response"), ("set-up", "cold", "batch", "profile")
STAGES = {  # file and function: what is inside of a later one is taken off the earlier one
    "draw": ("mechanisms/drawing.py", "draw"),
    "landmarks": ("mechanisms/landmarks.py", "locate"),
    "law": ("mechanisms/base.py", "rows_of"),
    "distances": ("embedding/space.py", "distance_rows"),
    "tables": ("sampling/integers.py", "tables"),
    "cache": ("sampling/_cache.py", "store"),
}
REST, RATES = "text and objects", ("cold", "batch", "warm", "warm batch")

Texts = list[str]
Figures = dict[str, float]


def words_of(file: Path, count: int, known: set[str]) -> Texts:
    """The words of some texts that are tokens, behind a blank each."""
    texts = [record["text"].split() for record in pages.records(file)[:count]]
    found = ("".join(f" {word}" for word in text if f" {word}" in known) for text in texts)
    return [text for text in found if text]


def rate(release: Callable[[Texts], object], texts: Texts) -> float:
    return sum(len(text.split()) for text in texts) / pages.timed(release, texts)[0]


def one_a_call(release: Callable[[str], object]) -> Callable[[Texts], object]:
    return lambda texts: [release(text) for text in texts]


def module_of(clone: str, name: str) -> Any:
    """A module of a published program, which imports others by its folder."""
    sys.path.insert(0, clone)
    return importlib.import_module(name)


def the_space() -> Any:
    from exact_epsilon import space_named

    return space_named("cl100k-11000")


def names_of(tokens: list[str], takes: Callable[[str], bool]) -> Texts:
    """Tokens without their blank; others that would have the same name get a sign before it."""
    return [token.removeprefix(" ") if takes(token) else f"\0{token}" for token in tokens]


def peer(setup: float, release: Callable[[str], object], texts: Texts) -> Figures:
    release(WARM_UP)
    return {"set-up": setup, "cold": rate(one_a_call(release), texts)}


def inferdpt(clone: str, texts: Texts, folder: str) -> Figures:
    import numpy as np

    os.chdir(folder)
    space, program = the_space(), module_of(clone, "func")
    tokens, rng = space.vocabulary.tokens, np.random.default_rng(0)
    blank = {token.removeprefix(" ") for token in tokens if token.startswith(" ")}
    names = names_of(tokens, lambda token: token not in blank)
    vectors = dict(zip(names, space.vectors, strict=True))
    assert len(vectors) == len(space), "expected a name for every token"
    bar = SimpleNamespace(update=lambda _: None)  # that the program asks for
    started = time.process_time()
    for i, j in rng.integers(len(space), size=(PAIRS, 2)):
        program.calculate_distance(i, j, space.vectors, bar)
    setup = (time.process_time() - started) / PAIRS * len(space) * (len(space) - 1) / 2
    listed = {}
    for word in {word for text in texts for word in text.split()}:
        distances = space.distances([space.vocabulary.id_of(f" {word}")])[0]
        order = np.argsort(distances, kind="stable").tolist()
        listed[word] = [[names[k], float(distances[k])] for k in order]
    given = (EPSILON, "gpt-4", vectors, listed, np.ptp(space.vectors, axis=0))
    return peer(setup, lambda text: program.perturb_sentence(text, *given), texts)


def santext(clone: str, texts: Texts, folder: str) -> Figures:
    """SanText's matrix and ``SanText_plus`` where every word is sensitive, which is SANTEXT."""
    import numpy as np
    from spacy.lang.en import English

    space, program, tokenizer = the_space(), module_of(clone, "SanText"), English()
    started = time.process_time()
    vectors = space.vectors.astype(np.float32)
    matrix = program.cal_probability(vectors, vectors, EPSILON)
    names = names_of(space.vocabulary.tokens, lambda token: token.startswith(" "))
    ids = {name: number for number, name in enumerate(names)}
    program.SanText_plus_init(matrix, ids, ids, list(ids), 0.0, tokenizer)
    setup, release = time.process_time() - started, program.SanText_plus
    words = lambda text: [token.text for token in tokenizer(text.strip())]  # noqa: E731
    return peer(setup, lambda text: release(words(text)), texts)


def ours(mechanism: str, texts: Texts, task: str) -> Figures:
    """In a new process: its set-up, then the task."""
    started = time.process_time()
    import dp_middleware as dp

    space = the_space()
    if mechanism == "nearest-response":
        sanitizer = dp.sanitizer(EPSILON, mechanism, space)
    else:
        plain = dp.MECHANISMS[mechanism].with_defaults(EPSILON, space)
        sanitizer = dp.Sanitizer(plain, space, accept_infinite=True)
    sanitizer.release(WARM_UP)
    measured = {"set-up": time.process_time() - started}
    if task == "profile":
        profile = cProfile.Profile()
        profile.runcall(one_a_call(sanitizer.release), texts)
        return stages(pstats.Stats(profile))
    if task != "set-up":
        release = sanitizer.release_batch if task == "batch" else one_a_call(sanitizer.release)
        measured["cold"] = rate(release, texts)
        measured["warm"] = max(rate(release, texts) for _ in range(ROUNDS))
    return measured


def stages(stats: Any) -> Figures:
    """Shares of the profiled time."""
    spent = dict.fromkeys(STAGES, 0.0)
    for (file, _, function), (_, _, _, total, _) in stats.stats.items():
        for stage, (ending, called) in STAGES.items():
            if function == called and file.endswith(f"dp_middleware/{ending}"):
                spent[stage] += total
    spent["draw"] -= spent["landmarks"] + spent["law"] + spent["tables"] + spent["cache"]
    spent["law"] -= spent["distances"]
    spent[REST] = stats.total_tt - sum(spent.values())
    return {stage: each / stats.total_tt for stage, each in spent.items()}


if __name__ == "__main__":
    given = pages.options(__doc__, "texts", inferdpt=Path, santext=Path, count=200)
    texts = words_of(given.texts, given.count, set(the_space().vocabulary.tokens))
    words = [word for text in texts for word in text.split()]
    print(f"{len(texts)} texts, {len(words):,} words, {len(set(words)):,} distinct\n")
    lines, profiles = dict[str, Figures](), dict[str, Figures]()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "data").mkdir()  # InferDPT's program looks at each token whether it has these
        for file in ("sorted_cl100_embeddings.json", "sensitivity_of_embeddings.json"):
            Path(folder, "data", file).touch()
        threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        child = partial(pages.child, DP_MIDDLEWARE_CACHE=folder, **dict.fromkeys(threads, "1"))
        peers = {"InferDPT": (inferdpt, given.inferdpt), "SanText": (santext, given.santext)}
        for name, (program, clone) in peers.items():
            lines[name] = child(program, str(clone.resolve()), texts, folder)
        for name in OURS:
            first, cold, batch, profiles[name] = (child(ours, name, texts, task) for task in TASKS)
            lines[name] = {**cold, **first, "new process": batch["set-up"]}
            lines[name] |= {"batch": batch["cold"], "warm batch": batch["warm"]}
    table = []
    for name, line in lines.items():
        cells = [f"{line[k]:,.1f}" if k in line else "" for k in ("set-up", "new process")]
        cells += [f"{line[k]:,.0f}" if k in line else "" for k in RATES]
        table.append((name, *cells, *(f"{line['cold'] / lines[p]['cold']:.2f}" for p in peers)))
    heads = ["program", "set-up s", "new process s", *RATES, *(f"cold / {peer}" for peer in peers)]
    print(pages.markdown(heads, table), end="\n\n")
    shares = [(name, *(f"{share:.0%}" for share in own.values())) for name, own in profiles.items()]
    print(pages.markdown(("cold seconds go to", *STAGES, REST), shares))
