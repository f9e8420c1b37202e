"""The published programs of RANTEXT and SanText beside ours: tokens per CPU second, text to text.

    git clone https://github.com/mengtong0110/InferDPT
    git clone https://github.com/xiangyue9607/SanText
    python benchmarks/side_by_side.py TEXTS.jsonl --inferdpt InferDPT --santext SanText

Texts are the records' "text", of which the words stay that are tokens of cl100k-11,000 with a
leading blank, so that every program has the same tokens. All have the same 11,000 words and
vectors (d = 384), epsilon 3, one thread, and get one text a call; ``batch`` is all texts in one.

The programs are run as they are, from their clones. InferDPT's takes a JSON file of all distances
in order, which its ``init_func`` makes: that is estimated from some pairs, and the lists of the
words that occur are made here, outside of all times. SanText's needs its matrix of probabilities.
Both draw with NumPy's generator and certify nothing.

Ours run in new processes on an empty cache folder: ``set-up`` is the first process ever, up to the
release of a public word (imports, vectors, codebook, certificate); ``new process`` the same of the
next one. ``cold`` are the texts for the first time in that process, ``warm`` for the second.
The last table says where the cold seconds go, by cProfile.
"""

import argparse
import cProfile
import importlib
import json
import os
import pstats
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pages

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

EPSILON, WARM_UP, ROUNDS = 3.0, "the", 3
PAIRS = 2_000  # of which InferDPT's distances are timed
OURS, PEERS = ("rantext", "santext", "nearest-response"), ("InferDPT", "SanText")
STAGES = {  # file and function: what is inside of a later one is taken off the earlier one
    "draw": ("mechanisms/drawing.py", "draw"),
    "landmarks": ("mechanisms/landmarks.py", "locate"),
    "law": ("mechanisms/base.py", "rows_of"),
    "distances": ("embedding/space.py", "distance_rows"),
    "tables": ("sampling/tables.py", "tables"),
    "cache": ("sampling/cache.py", "store"),
}
REST, RATES = "text and objects", ("cold", "batch", "warm", "warm batch")

Texts = list[str]
Figures = dict[str, float]


def words_of(file: Path, count: int, known: set[str]) -> Texts:
    """The words of some texts that are tokens, behind a blank each."""
    lines = file.read_text("utf-8").splitlines()[:count]
    texts = ([w for w in json.loads(line)["text"].split() if f" {w}" in known] for line in lines)
    return ["".join(f" {word}" for word in words) for words in texts if words]


def rate(release: Callable[[Texts], object], texts: Texts) -> float:
    """Words per CPU second."""
    started = time.process_time()
    release(texts)
    return sum(len(text.split()) for text in texts) / (time.process_time() - started)


def one_a_call(release: Callable[[str], object]) -> Callable[[Texts], object]:
    """A function of one text as one of many."""
    return lambda texts: [release(text) for text in texts]


def module_of(clone: str, name: str) -> Any:
    """A module of a published program, which imports others by its folder."""
    sys.path.insert(0, clone)
    return importlib.import_module(name)


def the_space() -> Any:
    """cl100k-11,000."""
    from exact_epsilon import space_named

    return space_named("cl100k-11000")


def inferdpt(clone: str, texts: Texts) -> Figures:
    """InferDPT's ``perturb_sentence``."""
    import numpy as np

    space, program = the_space(), module_of(clone, "func")
    tokens, rng = space.vocabulary.tokens, np.random.default_rng(0)
    blank = {token.removeprefix(" ") for token in tokens if token.startswith(" ")}
    # a word with and without a blank has one name
    names = [t.removeprefix(" ") if t not in blank else f"\0{t}" for t in tokens]
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
    ranges = np.ptp(space.vectors, axis=0)

    def release(text: str) -> str:
        return str(program.perturb_sentence(text, EPSILON, "gpt-4", vectors, listed, ranges))

    release(WARM_UP)
    return {"set-up": setup, "cold": rate(one_a_call(release), texts)}


def santext(clone: str, texts: Texts) -> Figures:
    """SanText's matrix and ``SanText_plus`` where every word is sensitive, which is SANTEXT."""
    import numpy as np
    from spacy.lang.en import English

    space, program, tokenizer = the_space(), module_of(clone, "SanText"), English()
    started = time.process_time()
    vectors = space.vectors.astype(np.float32)
    matrix = program.cal_probability(vectors, vectors, EPSILON)
    names = (
        t.removeprefix(" ") if t.startswith(" ") else f"\0{t}" for t in space.vocabulary.tokens
    )
    ids = {name: number for number, name in enumerate(names)}
    program.SanText_plus_init(matrix, ids, ids, list(ids), 0.0, tokenizer)
    setup = time.process_time() - started

    def release(text: str) -> str:
        return str(program.SanText_plus([token.text for token in tokenizer(text.strip())]))

    release(WARM_UP)
    return {"set-up": setup, "cold": rate(one_a_call(release), texts)}


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
    rest = stats.total_tt - sum(spent.values())
    return {stage: each / stats.total_tt for stage, each in {**spent, REST: rest}.items()}


def main() -> None:
    """Print two Markdown tables."""
    parser = pages.parser(__doc__)
    parser.add_argument("texts", type=Path)
    parser.add_argument("--inferdpt", type=os.path.abspath, required=True)
    parser.add_argument("--santext", type=os.path.abspath, required=True)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--only", nargs=2, help=argparse.SUPPRESS)  # of a child: program and task
    options = parser.parse_args()
    clones = {"InferDPT": options.inferdpt, "SanText": options.santext}
    if options.only:
        (name, task), texts = options.only, json.loads(options.texts.read_text("utf-8"))
        peers = {"InferDPT": inferdpt, "SanText": santext}
        found = peers[name](clones[name], texts) if name in peers else ours(name, texts, task)
        print(json.dumps(found))
        return
    texts = words_of(options.texts, options.count, set(the_space().vocabulary.tokens))
    words = [word for text in texts for word in text.split()]
    print(f"{len(texts)} texts, {len(words):,} words, {len(set(words)):,} distinct\n")
    with tempfile.TemporaryDirectory() as folder:
        source, data = Path(folder) / "texts.json", Path(folder) / "data"
        source.write_text(json.dumps(texts), "utf-8")
        data.mkdir()  # InferDPT's program looks at each token whether it has its files
        for file in ("sorted_cl100_embeddings.json", "sensitivity_of_embeddings.json"):
            (data / file).touch()

        def child(name: str, task: str) -> Figures:
            """A measurement in a process of its own."""
            command = [sys.executable, str(Path(__file__).resolve()), str(source)]
            command += [
                "--only",
                name,
                task,
                "--inferdpt",
                options.inferdpt,
                "--santext",
                options.santext,
            ]
            env = {**os.environ, "DP_MIDDLEWARE_CACHE": folder}
            done = subprocess.run(command, env=env, cwd=folder, check=True, stdout=subprocess.PIPE)
            return dict(json.loads(done.stdout.splitlines()[-1]))

        lines = {name: child(name, "") for name in PEERS}
        profiles = {}
        for name in OURS:
            tasks = ("set-up", "cold", "batch", "profile")
            first, cold, batch, profiles[name] = (child(name, task) for task in tasks)
            lines[name] = {**cold, **first, "new process": batch["set-up"]}
            lines[name] |= {"batch": batch["cold"], "warm batch": batch["warm"]}
    table = []
    for name, line in lines.items():
        cells = [f"{line[k]:,.1f}" if k in line else "" for k in ("set-up", "new process")]
        cells += [f"{line[k]:,.0f}" if k in line else "" for k in RATES]
        table.append((name, *cells, *(f"{line['cold'] / lines[p]['cold']:.2f}" for p in PEERS)))
    heads = ["program", "set-up s", "new process s", *RATES, *(f"cold / {peer}" for peer in PEERS)]
    print(pages.markdown(heads, table), end="\n\n")
    shares = [(name, *(f"{share:.0%}" for share in own.values())) for name, own in profiles.items()]
    print(pages.markdown(("cold seconds go to", *STAGES, REST), shares))


if __name__ == "__main__":
    main()
