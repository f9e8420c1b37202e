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
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

EPSILON, WARM_UP, ROUNDS = 3.0, "the", 3
PAIRS = 2_000  # of which InferDPT's distances are timed
OURS = ("rantext", "santext", "nearest-response")
STAGES = {  # file and function: what is inside of a later one is taken off the earlier one
    "draw": ("mechanisms/drawing.py", "draw"),
    "landmarks": ("mechanisms/landmarks.py", "locate"),
    "law": ("mechanisms/base.py", "rows_of"),
    "distances": ("embedding/space.py", "distance_rows"),
    "tables": ("sampling/tables.py", "tables"),
    "cache": ("sampling/cache.py", "store"),
}

Texts = list[str]


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


def module_of(clone: Path, name: str) -> Any:
    """A module of a published program, which imports others by its folder."""
    sys.path.insert(0, str(clone))
    return importlib.import_module(name)


def inferdpt(clone: Path, texts: Texts) -> dict[str, float]:
    """InferDPT's ``perturb_sentence``."""
    import numpy as np

    space, program = the_space(), module_of(clone, "func")
    blank = {t.removeprefix(" ") for t in space.vocabulary.tokens if t.startswith(" ")}
    bare = [t if t not in blank else f"\0{t}" for t in space.vocabulary.tokens]
    names = [t.removeprefix(" ") for t in bare]  # a word with and without a blank has one name
    vectors = dict(zip(names, space.vectors, strict=True))
    if len(vectors) != len(space):
        raise ValueError("expected a name for every token")
    started, rng = time.process_time(), np.random.default_rng(0)
    for i, j in rng.integers(len(space), size=(PAIRS, 2)):
        program.calculate_distance(i, j, space.vectors, Progress())
    setup = (time.process_time() - started) / PAIRS * len(space) * (len(space) - 1) / 2
    listed = {}
    for word in {word for text in texts for word in text.split()}:
        distances = space.distances([space.vocabulary.id_of(f" {word}")])[0]
        order = np.argsort(distances, kind="stable").tolist()
        listed[word] = [
            [names[k], d] for k, d in zip(order, distances[order].tolist(), strict=True)
        ]
    ranges = np.ptp(space.vectors, axis=0)

    def release(text: str) -> str:
        return str(program.perturb_sentence(text, EPSILON, "gpt-4", vectors, listed, ranges))

    release(WARM_UP)
    return {"set-up": setup, "cold": rate(one_a_call(release), texts)}


class Progress:
    """The progress bar that InferDPT's program asks for."""

    def update(self, _: int) -> None:
        """Nothing."""


def santext(clone: Path, texts: Texts) -> dict[str, float]:
    """SanText's matrix and ``SanText_plus`` where every word is sensitive, which is SANTEXT."""
    import numpy as np
    from spacy.lang.en import English

    space, program, tokenizer = the_space(), module_of(clone, "SanText"), English()
    started = time.process_time()
    vectors = space.vectors.astype(np.float32)
    matrix = program.cal_probability(vectors, vectors, EPSILON)
    ids = {token.removeprefix(" ") if token.startswith(" ") else f"\0{token}": k
           for k, token in enumerate(space.vocabulary.tokens)}  # fmt: skip
    program.SanText_plus_init(matrix, ids, ids, list(ids), 0.0, tokenizer)
    setup = time.process_time() - started

    def release(text: str) -> str:
        return str(program.SanText_plus([token.text for token in tokenizer(text.strip())]))

    release(WARM_UP)
    return {"set-up": setup, "cold": rate(one_a_call(release), texts)}


def the_space() -> Any:
    """cl100k-11,000."""
    from exact_epsilon import space_named

    return space_named("cl100k-11000")


def ours(mechanism: str, texts: Texts, task: str) -> dict[str, float]:
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
        measured |= stages(pstats.Stats(profile))
    elif task != "set-up":
        release = sanitizer.release_batch if task == "batch" else one_a_call(sanitizer.release)
        measured["cold"] = rate(release, texts)
        measured["warm"] = max(rate(release, texts) for _ in range(ROUNDS))
    return measured


def stages(stats: Any) -> dict[str, float]:
    """Shares of the profiled time."""
    spent = dict.fromkeys(STAGES, 0.0)
    for (file, _, function), (_, _, _, total, _) in stats.stats.items():
        for stage, (ending, called) in STAGES.items():
            if function == called and file.endswith(f"dp_middleware/{ending}"):
                spent[stage] += total
    spent["draw"] -= spent["landmarks"] + spent["law"] + spent["tables"] + spent["cache"]
    spent["law"] -= spent["distances"]
    rest = stats.total_tt - sum(spent.values())
    return {k: v / stats.total_tt for k, v in {**spent, "text and objects": rest}.items()}


def child(name: str, task: str, options: argparse.Namespace, folder: Path) -> dict[str, float]:
    """A measurement in a process of its own."""
    command = [
        sys.executable,
        str(Path(__file__).resolve()),
        str(folder / "texts.json"),
        "--only",
        name,
        task,
    ]
    for clone in ("inferdpt", "santext"):
        command += [f"--{clone}", str(getattr(options, clone).resolve())]
    env = {**os.environ, "DP_MIDDLEWARE_CACHE": str(folder)}
    done = subprocess.run(
        command, env=env, cwd=folder, check=True, stdout=subprocess.PIPE, text=True
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measured_alone(options: argparse.Namespace) -> dict[str, float]:
    """What a child measures."""
    name, task = options.only
    texts = json.loads(options.texts.read_text("utf-8"))
    if name == "InferDPT":
        return inferdpt(options.inferdpt, texts)
    return santext(options.santext, texts) if name == "SanText" else ours(name, texts, task)


def lines(name: str, options: argparse.Namespace, folder: Path) -> dict[str, dict[str, float]]:
    """The line of a program, and the profile of ours."""
    if name not in OURS:
        return {"line": child(name, "", options, folder)}
    first = child(name, "set-up", options, folder)
    found = {**first, **child(name, "cold", options, folder) | {"set-up": first["set-up"]}}
    again = child(name, "batch", options, folder)
    found |= {"new process": again["set-up"], "batch": again["cold"], "warm batch": again["warm"]}
    profile = child(name, "profile", options, folder)
    del profile["set-up"]
    return {"line": found, "profile": profile}


def main() -> None:
    """Print two Markdown tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("texts", type=Path)
    parser.add_argument("--inferdpt", type=Path, required=True)
    parser.add_argument("--santext", type=Path, required=True)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--ours", choices=OURS, nargs="+", default=OURS)
    parser.add_argument("--only", nargs=2, help=argparse.SUPPRESS)  # of a child: program and task
    options = parser.parse_args()
    if options.only:
        print(json.dumps(measured_alone(options)))
        return
    texts = words_of(options.texts, options.count, set(the_space().vocabulary.tokens))
    words = [word for text in texts for word in text.split()]
    print(f"{len(texts)} texts, {len(words):,} words, {len(set(words)):,} distinct\n")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "texts.json").write_text(json.dumps(texts), "utf-8")
        data = Path(folder) / "data"
        data.mkdir()  # InferDPT's program looks at each token whether it has its files
        for file in ("sorted_cl100_embeddings.json", "sensitivity_of_embeddings.json"):
            (data / file).touch()
        found = {
            name: lines(name, options, Path(folder))
            for name in ("InferDPT", "SanText", *options.ours)
        }
    rates = ("cold", "batch", "warm", "warm batch")
    peers = {name: found[name]["line"]["cold"] for name in ("InferDPT", "SanText")}
    head = ["program", "set-up s", "new process s", *rates, *(f"cold / {peer}" for peer in peers)]
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for name, own in found.items():
        line = own["line"]
        cells = [f"{line[k]:,.1f}" if k in line else "" for k in ("set-up", "new process")]
        cells += [f"{line[k]:,.0f}" if k in line else "" for k in rates]
        cells += [f"{line['cold'] / peer:.2f}" for peer in peers.values()]
        print(f"| {name} | " + " | ".join(cells) + " |")
    head = ["cold seconds go to", *STAGES, "text and objects"]
    print("\n| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for name in options.ours:
        shares = found[name]["profile"]
        print(f"| {name} | " + " | ".join(f"{shares[k]:.0%}" for k in head[1:]) + " |")


if __name__ == "__main__":
    main()
