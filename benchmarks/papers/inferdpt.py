"""InferDPT (Tong et al. 2023): continuation of perturbed texts, and attacks on what was sent.

    python benchmarks/papers/inferdpt.py DATA --quick --model FOLDER [--extractor MODEL] [--write]

A text's first 50 tokens are perturbed and sent, the remote model continues them by 100 tokens at
temperature 0.5, and the local model, which reads the raw tokens too, writes the 100 that count.
Scored is what was generated: diversity, MAUVE against the human continuation, and coherence with
the raw prefix; the bound without privacy is the remote model's continuation of the raw prefix.
What was sent is attacked by embedding inversion and by the model with one guess a token. As in the
paper the vocabulary has 11,000 tokens of cl100k; the vectors are the bundled encoder's. Texts are
of ``cnndm``, with --full also of ``wikitext2`` and ``pubmedqa``. Without --model there are only the
attacks by inversion.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import common
import numpy as np
import rantext_lists
from common import Row, Shape
from continuation import PREFIX, SCORES, Study, split, texts_of
from rantext_lists import CLAIMED
from writer import Writer, open_writer

import dp_middleware as dp
from dp_middleware.frameworks.inferdpt import for_extractor, for_remote

TEMPERATURE = 0.5
CHAT = {
    "remote": for_remote("$text", None)[-1]["content"],
    "extraction": for_extractor("$text", "$generation", None)[-1]["content"],
}
BASE = {"remote": "$text", "extraction": "$generation\n\n$text"}
"""For models that follow no instruction and only continue."""

KINDS = {  # the paper's mechanism, and what has a finite loss in its place
    "RANTEXT": (dp.RanText, dp.RanText),
    "SANTEXT+": (dp.SanTextPlus, dp.SanText),
    "CUSTEXT+": (dp.CusTextPlus, dp.CusTextStrict),
}
FIRST = "inversion, k = 1"
PRINTED = {  # the abstract: averages over its three data sets, k not said there
    "RANTEXT": "> 90 %",
    "SANTEXT+": "RANTEXT 0.58 times higher",
    "CUSTEXT+": "RANTEXT 3.35 times higher",
}


def rows(
    name: str, epsilon: float, nominal: Mapping[str, str], exact: Mapping[str, str]
) -> list[Row]:
    """One mechanism at one epsilon: a line for each cell."""
    kind, finite = KINDS[name]
    instead = ""
    if finite is not kind:
        instead = f" Of the stop words {name} keeps some or all, so that its loss is infinite; "
        instead += f"the exact column is `{finite.name}`."
    made = []
    for measured, cell in nominal.items():
        score = measured in SCORES
        printed = epsilon == 6.0 and measured == FIRST
        difference = "Vectors of MiniLM for ada-002's; one data set, no average."
        if measured.startswith("inversion of words"):
            difference = "The paper counts tokens; a word in another spelling is recovered, too."
        if score:
            difference = "A smaller model writes: compare with the bound."
        made.append(
            Row(
                measured=f"{name}, {epsilon:g}: {'' if score else 'privacy, '}{measured}",
                paper=PRINTED[name] if printed else common.NOT_AT_HAND,
                nominal=cell,
                exact=exact.get(measured, "-"),
                difference=difference + instead,
            )
        )
    return made


def order(first: Mapping[str, str], epsilon: float) -> list[Shape]:
    """What the abstract says of privacy against inversion, by figures at the nominal epsilon."""
    told = ", ".join(f"{name} {cell}" for name, cell in first.items())
    rantext, santext, custext = (float(first[name].rstrip("%")) for name in KINDS)
    return [
        Shape(
            claim=f"RANTEXT with its own constants: over 90 % privacy at epsilon {epsilon:g}",
            holds=rantext > 100 * CLAIMED,
            because=told,
        ),
        Shape(
            claim=f"privacy at epsilon {epsilon:g}: RANTEXT above SANTEXT+ above CUSTEXT+",
            holds=rantext > santext > custext,
            because=told,
        ),
    ]


def run(study: Study, options: argparse.Namespace, report: common.Report) -> None:
    """All tables of one data set."""
    prefixes = [prefix for prefix, _ in study.pairs]
    unknown = np.mean([i < 0 for p in prefixes for i in study.space.vocabulary.encode(p)])
    report.add(
        f"{len(prefixes)} prefixes of {PREFIX} tokens, {unknown:.0%} of which are outside the "
        "vocabulary: the paper leaves these out, here they become uniform tokens and are not "
        "attacked."
    )
    if study.writers:
        report.add(f"The model attacks {options.guessed} texts and continues {options.texts}.")
        cells = [study.bound()[score] for score in SCORES]
        report.add(common.markdown(("bound without privacy", *SCORES), [("raw prefix", *cells)]))
    shapes: list[Shape] = []
    for epsilon in options.epsilons:
        first, made = {}, []
        for name, (kind, finite) in KINDS.items():
            nominal = study.measure(kind.with_defaults(epsilon, study.space))
            exact = common.calibrated(
                finite.with_defaults(epsilon, study.space), study.space, epsilon
            )
            made += rows(name, epsilon, nominal, {} if exact is None else study.measure(exact))
            first[name] = nominal[FIRST]
        report.add(common.side_by_side(made))
        shapes += order(first, epsilon)
    strictest = max(options.epsilons)
    sizes = rantext_lists.by_size(study.space, prefixes, strictest)
    published = rantext_lists.published_share(study.space, strictest)
    report.add(
        f"RANTEXT at nominal epsilon {strictest:g} by the size of its lists; with the paper's "
        f"constants they have {published:.1%} of this vocabulary:"
    )
    report.add(rantext_lists.table(sizes))
    report.add(common.verdicts([*shapes, rantext_lists.shape(sizes, strictest)]))


def main() -> None:
    """Print the tables, and write them if asked."""
    made = common.parser(__doc__, CHAT)
    made.add_argument("--extractor", help="the local model; default: --model")
    made.add_argument("--epsilons", type=float, nargs="+")
    made.add_argument("--texts", type=int, help="that are continued; default 4, --full 100")
    made.add_argument("--guessed", type=int, help="texts that the model attacks; 2, --full 50")
    options = made.parse_args()
    options.epsilons = options.epsilons or ([1.0, 2.0, 3.0, 6.0] if options.full else [6.0])
    options.texts = options.texts or (100 if options.full else 4)
    options.guessed = options.guessed or (50 if options.full else 2)
    vocabulary = dp.Vocabulary.from_tiktoken("cl100k_base", size=11_000)
    space = dp.EmbeddingService().space(vocabulary, "input")
    writers: tuple[Writer, ...] = ()
    if options.model:
        remote = open_writer(options.model, TEMPERATURE)
        local = open_writer(options.extractor, TEMPERATURE) if options.extractor else remote
        writers = (remote, local)
    default = CHAT if writers and writers[0].chats else BASE
    report = common.Report("inferdpt", options)
    for name in ("cnndm", "wikitext2", "pubmedqa") if options.full else ("cnndm",):
        report.add(f"### {name}")
        study = Study(
            space=space,
            pairs=split(texts_of(options.data / name), vocabulary),
            continued=options.texts,
            guessed=options.guessed,
            writers=writers,
            prompts=common.templates(default, options.prompt),
        )
        run(study, options, report)
    report.close()


if __name__ == "__main__":
    main()
