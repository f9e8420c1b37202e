"""InferDPT (Tong et al. 2023): continuation of perturbed texts, and attacks on what was sent.

    python benchmarks/papers/inferdpt.py DATA --model FOLDER [--extractor MODEL ...] [--write]

A text's first 50 tokens are perturbed and sent, the remote model (--model, in the paper GPT-4)
continues them by 100 tokens at temperature 0.5, and a local model (--extractor, in the paper
Vicuna-7B; default: --model), which reads the raw tokens too, writes the 100 that count. Two
extractors make Table IV. Prompts are the paper's in our words. As in the paper the vocabulary has
11,000 tokens of cl100k and others are left out; the vectors are the bundled encoder's, tokens are
counted by cl100k. Texts are of ``cnndm``, with --full also of ``wikitext2`` and, for ArXiv,
``pubmedqa``. Without --model there are only the attacks by inversion.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import common
import numpy as np
import rantext_lists
from common import Shape, paired
from continuation import (
    BASE,
    CHAT,
    GENERATED,
    PREFIX,
    SCORES,
    TEMPERATURE,
    Study,
    guessed,
    texts_of,
)
from protocol import beginnings, cosines, release
from writer import open_writer

import dp_middleware as dp
from dp_middleware.lab import attacks

PRINTED = common.printed(__file__)
GENERATION, SIZES, ATTACKED = (1.0, 2.0, 3.0), (2.0, 6.0, 10.0), (0.01, 6.0, 18.0)
"""Epsilons: of Tables III and V, of Tables IV and VI, of the attacks."""

MOST = 40  # prefixes that are attacked with --quick
REMOTE, LOCAL = "remote model alone", "local model alone"
NAMES = ("SANTEXT+", "CUSTEXT+", "RANTEXT")
FITTED = "RANTEXT, lists as App. B"
Privacy = Mapping[tuple[str, float], tuple[float, float]]


def methods(space: dp.EmbeddingSpace) -> dict[str, Any]:
    """The paper's in its settings; CUSTEXT+ is each token's own 20 nearest, stop words kept."""
    return {
        "SANTEXT+": (lambda epsilon: dp.SanTextPlus.with_defaults(epsilon, space), None),
        "CUSTEXT+": (
            lambda epsilon: dp.CusTextAggressive(epsilon=epsilon),
            dp.KeepPolicy.nltk_stop_words(),
        ),
        "RANTEXT": (lambda epsilon: dp.RanText(epsilon=epsilon), None),
        FITTED: (lambda epsilon: dp.RanText.with_list_share(space, epsilon=epsilon), None),
    }


def attacked(
    study: Study, reader: Any, count: int
) -> tuple[str, Privacy, dict[tuple[str, float], float]]:
    """Section 7's table, and what it is of: inversion and, by a model, input inference.

    ``reader`` is the attacker's model, which attacks the first ``count`` texts; ``None``: none.
    """
    privacy, inferred, ours = {}, {}, {}
    for name, (make, policy) in study.methods.items():
        cells = []
        for epsilon in ATTACKED:
            prefixes = [prefix for prefix, _ in study.pairs]
            sent = release(make(epsilon), study.space, prefixes, policy=policy)
            privacy[name, epsilon] = rantext_lists.inversion_privacy(sent, study.space)
            if reader:
                raw, sent = zip(*sent.whole[:count], strict=True)
                share = guessed(raw, sent, study.space, reader)
                inferred[name, epsilon] = share
                cells.append(f"{share:.1%}")
        inversion = [share for epsilon in ATTACKED[:2] for share in privacy[name, epsilon]]
        ours[name] = [*(f"{share:.1%}" for share in inversion), *cells]
    heads = [f"inversion, epsilon {e:g}, k = {k}" for e in ATTACKED[:2] for k in (1, 10)]
    heads += [f"input inference, {epsilon:g}" for epsilon in ATTACKED if reader]
    return common.beside(heads, PRINTED["7"], ours), privacy, inferred


def verdicts(
    privacy: Privacy, inferred: Mapping[tuple[str, float], float], masked: bool = False
) -> Iterator[Shape]:
    """What Sections 1 and 7 say of attacks; a causal model's inference can only refute."""
    ten = {name: 100 * privacy[name, 6.0][1] for name in NAMES}
    santext, custext, rantext = ten.values()
    claim = "Section 1: over 90 % privacy of RANTEXT at 6, k = 10"
    because = f"{rantext:.1f} %; lists as App. B {100 * privacy[FITTED, 6.0][1]:.1f} %"
    yield Shape(claim, rantext > 90, because)
    claim = "Section 1: that is 1.58 times SANTEXT+ and 4.35 times CUSTEXT+"
    because = f"{rantext / santext:.2f} and {rantext / custext:.2f} times"
    yield Shape(claim, rantext >= 1.58 * santext and rantext >= 4.35 * custext, because)
    moved = {n: 100 * (privacy[n, 6.0][0] - privacy[n, 6.0][1]) for n in NAMES[:2]}
    claim = "Section 7.2: SANTEXT+ and CUSTEXT+ hardly change from k = 1 to 10"
    because = ", ".join(f"{name} {-points:.1f} points" for name, points in moved.items())
    yield Shape(claim, max(moved.values()) < 5, because)
    least = {name: 100 * privacy[name, 0.01][1] for name in NAMES[:2]}
    claim = "Section 7.2: over 40 % privacy of SANTEXT+ and CUSTEXT+ at 0.01, k = 10"
    because = ", ".join(f"{name} {share:.1f} %" for name, share in least.items())
    yield Shape(claim, min(least.values()) > 40, because)
    if inferred:
        lowest = 100 * min(inferred["RANTEXT", epsilon] for epsilon in ATTACKED)
        claim = "Section 7.3: over 80 % privacy of RANTEXT against input inference, .01 to 18"
        because = f"at least {lowest:.0f} %"
        yield Shape(claim, (True if masked else None) if lowest > 80 else False, because)
        last, first, second = (inferred[name, 18.0] for name in reversed(NAMES))
        claim = "Section 7.3: at 18 that is 1.41 times CUSTEXT+ and 1.11 times SANTEXT+"
        because = f"{last / first:.2f} and {last / second:.2f} times"
        yield Shape(
            claim, (last >= 1.41 * first and last >= 1.11 * second) if masked else None, because
        )


def written(study: Study, data: str, report: common.Report) -> Iterator[Shape]:
    """Tables III to VI, and what they claim."""
    local, *more = study.locals

    def cells(name: str, epsilons: tuple[float, ...], own: str) -> list[str]:
        found = [study.scores(study.extracted(name, epsilon, own)) for epsilon in epsilons]
        return [" / ".join(column) if all(column) else "" for column in zip(*found, strict=True)]

    ours = {REMOTE: study.scores(study.alone()), LOCAL: study.scores(study.alone(local))}
    ours |= {name: cells(name, GENERATION, local) for name in NAMES}
    table = common.beside(SCORES, PRINTED["III"][data], ours)
    report.add(f"Table III at epsilon 1 / 2 / 3; {local} extracts:", table)
    if more:
        for own, printed in zip((local, more[0]), PRINTED["IV"], strict=True):
            ours = {LOCAL: study.scores(study.alone(own))}
            ours |= {name: cells(name, SIZES, own) for name in NAMES}
            table = common.beside(SCORES, printed, ours)
            report.add(f"Table IV at epsilon 2 / 6 / 10; {own} extracts:", table)
    sent = {(n, e): study.perturbed(n, e) for n in NAMES for e in sorted({*GENERATION, *SIZES})}
    near = {key: cosines(texts, study.alone()) for key, texts in sent.items()}
    ours = {n: [" / ".join(f"{near[n, e].mean():.3f}" for e in GENERATION)] for n in NAMES}
    table = common.beside(("cosine",), PRINTED["V"][data], ours)
    report.add("Table V, perturbed and non-private generation, at epsilon 1 / 2 / 3:", table)
    whole = study.alone()
    leaks = {key: [study.leaks(t, n) for n in (1, 2, 3)] for key, t in sent.items()}
    ours = {REMOTE: [f"{study.leaks(whole, n).mean():.3f}" for n in (1, 2, 3)]}
    for name in NAMES:
        at_each = [[f"{found.mean():.3f}" for found in leaks[name, e]] for e in SIZES]
        ours[name] = [" / ".join(column) for column in zip(*at_each, strict=True)]
    table = common.beside(("1-gram", "2-gram", "3-gram"), PRINTED["VI"], ours)
    title = "Table VI, n-grams of the raw text in the perturbed generation, at 2 / 6 / 10:"
    report.add(title, table)

    def mean(found: Mapping[Any, Any], name: str, epsilons: tuple[float, ...]) -> Any:
        return np.mean([found[name, epsilon] for epsilon in epsilons], axis=0)

    fits = {
        n: np.mean(
            [cosines(study.prefixes, study.extracted(n, e, local)) for e in GENERATION], axis=0
        )
        for n in NAMES
    }
    own = cosines(study.prefixes, study.alone(local))
    first = {key: found[0] for key, found in leaks.items()}
    rantext = fits["RANTEXT"]
    for name, other in {LOCAL: own, "SANTEXT+": fits["SANTEXT+"]}.items():
        claim = f"Table III: coherence of RANTEXT above that of {name}"
        yield paired(claim, {"RANTEXT": rantext - other})
    for above, below in (("CUSTEXT+", "RANTEXT"), ("RANTEXT", "SANTEXT+")):
        higher, lower = (mean(near, name, GENERATION) for name in (above, below))
        yield paired(f"Table V: cosine of {above} above {below}", {above: higher - lower})
    fewer = {name: study.leaks(whole) - mean(first, name, SIZES) for name in NAMES}
    yield paired("Table VI: fewer 1-grams leak than without privacy, 2 to 10", fewer)


def run(data: str, study: Study, options: argparse.Namespace, report: common.Report) -> None:
    """All tables of one data set."""
    report.add(
        f"### {data}\n\n{len(study.pairs)} prefixes of {PREFIX} tokens are attacked, "
        f"{study.continued if study.locals else 0} continued."
    )
    reader = dp.MaskedContext(options.masked) if options.masked else None
    if not reader and hasattr(study.remote[0], "loaded"):
        reader = dp.CausalContext(study.remote[0].loaded)
    table, privacy, inferred = attacked(study, reader, options.read)
    report.add("Section 7, privacy, of tokens:", table)
    shapes = list(verdicts(privacy, inferred, bool(options.masked)))
    if options.guessed:
        make, policy = study.methods["RANTEXT"]
        texts = study.prefixes[: options.guessed]
        sent = release(make(10.0), study.space, texts, policy=policy)
        raw, sent = zip(*sent.whole, strict=True)
        ask = lambda messages: study.remote[0]([messages[-1]["content"]], 2000)[0]  # noqa: E731
        rate = attacks.llm_inference(raw, sent, study.space, model=ask, top=1).rate
        claim = "Section 7.3: 80 % privacy of RANTEXT at 10 against GPT inference"
        shapes.append(Shape(claim=claim, holds=rate <= 0.2, because=f"{1 - rate:.0%}"))
    title = "The law of the size of RANTEXT's lists (Fig. 4, App. B), of this vocabulary:"
    report.add(title, rantext_lists.law(study.space))
    if study.locals:
        shapes += written(study, data, report)
    title = "Ours: RANTEXT at nominal 6 with wider noise, and mechanisms whose loss is proven:"
    prefixes = [prefix for prefix, _ in study.pairs]
    table = rantext_lists.by_size(study.space, prefixes, 6.0)
    report.add(common.verdicts(shapes), title, table)


def main() -> None:
    """Print the tables, and write them if asked."""
    made = common.parser(__doc__, CHAT)
    made.add_argument("--extractor", nargs="+", help="local models; default: --model")
    made.add_argument("--masked", help="a masked model for input inference; default: --model")
    made.add_argument("--texts", type=int, help="that are continued; default 8, --full 100")
    made.add_argument("--guessed", type=int, default=0, help="texts of GPT inference")
    options = made.parse_args()
    options.texts = options.texts or (100 if options.full else 8)
    options.read = 100 if options.full else 6
    vocabulary = dp.Vocabulary.from_tiktoken("cl100k_base", size=11_000, unknown="drop")
    space = dp.EmbeddingService().space(vocabulary, "input")
    opened: dict[str, Any] = {}
    for spec in dict.fromkeys([options.model, *(options.extractor or ())] if options.model else ()):
        writer = open_writer(spec, TEMPERATURE)
        prompts = common.templates(CHAT if writer.chats else BASE, options.prompt)
        opened[spec] = (writer, prompts)
    local = options.extractor or [options.model]
    cut, most = dp.Vocabulary.from_tiktoken("cl100k_base"), None if options.full else MOST
    report = common.Report("inferdpt", options)
    for name in ("cnndm", "wikitext2", "pubmedqa") if options.full else ("cnndm",):
        study = Study(
            space=space,
            pairs=[
                *islice(beginnings(texts_of(options.data / name), cut, PREFIX, GENERATED), most)
            ],
            continued=options.texts,
            methods=methods(space),
            remote=opened.get(options.model, (None, {})),
            locals={Path(spec).stem: opened[spec] for spec in local if opened},
        )
        run(name, study, options, report)
    report.close()


if __name__ == "__main__":
    main()
