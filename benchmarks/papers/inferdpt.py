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
CLAIMED = "inversion, k = 10"
PRINTED = {  # Section 1: averages over its three data sets at epsilon 6, "the top 10 candidates"
    "RANTEXT": "> 90 %",
    "SANTEXT+": "about 57 %: RANTEXT 1.58x",
    "CUSTEXT+": "about 21 %: RANTEXT 4.35x",
}


CNNDM = {  # Tables III (1 to 3) and IV (6, 10), Vicuna-7B extracts: as SCORES
    "RANTEXT, 1": (0.976, 0.537, 0.746),
    "RANTEXT, 2": (0.975, 0.544, 0.753),
    "RANTEXT, 3": (0.975, 0.570, 0.754),
    "RANTEXT, 6": (0.975, 0.581, 0.765),
    "RANTEXT, 10": (0.975, 0.610, 0.783),
    "SANTEXT+, 1": (0.974, 0.373, 0.615),
    "SANTEXT+, 2": (0.973, 0.375, 0.625),
    "SANTEXT+, 3": (0.974, 0.376, 0.642),
    "SANTEXT+, 6": (0.973, 0.420, 0.647),
    "SANTEXT+, 10": (0.974, 0.472, 0.648),
    "CUSTEXT+, 1": (0.973, 0.531, 0.736),
    "CUSTEXT+, 2": (0.973, 0.549, 0.746),
    "CUSTEXT+, 3": (0.972, 0.593, 0.761),
    "CUSTEXT+, 6": (0.972, 0.602, 0.791),
    "CUSTEXT+, 10": (0.972, 0.641, 0.792),
}
ALONE = (
    ("printed: GPT-4, raw prefix", "0.983", "0.671", "0.632"),
    ("printed: Vicuna-7B, the local model, alone", "0.956", "0.317", "0.658"),
)


def printed(name: str, epsilon: float, measured: str, data: str) -> str:
    """The paper's figure for one of the cells."""
    if measured == CLAIMED and epsilon == 6.0:
        return PRINTED[name]
    scores = CNNDM.get(f"{name}, {epsilon:g}") if data == "cnndm" else None
    if scores is None or measured not in SCORES:
        return common.NOT_AT_HAND
    return f"{scores[SCORES.index(measured)]:.3f}"


def rows(
    name: str, epsilon: float, nominal: Mapping[str, str], exact: Mapping[str, str], data: str
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
        difference = "Vectors of MiniLM for ada-002's; one data set, no average."
        if measured.startswith("inversion of words"):
            difference = "The paper counts tokens; a word in another spelling is recovered, too."
        if score:
            difference = "A smaller model writes: compare with the bound."
        made.append(
            Row(
                measured=f"{name}, {epsilon:g}: {'' if score else 'privacy, '}{measured}",
                paper=printed(name, epsilon, measured, data),
                nominal=cell,
                exact=exact.get(measured, "-"),
                difference=difference + instead,
            )
        )
    return made


def verdicts(ten: Mapping[str, float], one: Mapping[str, float]) -> list[Shape]:
    """What Sections 1 and 7 say of privacy against inversion, per cent at nominal epsilon 6."""
    told = ", ".join(f"{name} {cell:.1f}%" for name, cell in ten.items())
    rantext, santext, custext = (ten[name] for name in KINDS)
    moved = {name: one[name] - ten[name] for name in ("SANTEXT+", "CUSTEXT+")}
    return [
        Shape(
            claim="Section 1: over 90 % privacy of RANTEXT at epsilon 6, k = 10",
            holds=rantext > 90,
            because=told,
        ),
        Shape(
            claim="Section 1: 1.58 times SANTEXT+ and 4.35 times CUSTEXT+ at 6, k = 10",
            holds=rantext >= 1.58 * santext and rantext >= 4.35 * custext,
            because=f"{rantext / santext:.2f} and {rantext / custext:.2f} times",
        ),
        Shape(
            claim="Section 7: SANTEXT+ and CUSTEXT+ hardly change from k = 1 to k = 10",
            holds=max(moved.values()) < 5,
            because=", ".join(f"{name} {-points:.1f} points" for name, points in moved.items()),
        ),
    ]


def run(data: str, study: Study, options: argparse.Namespace, report: common.Report) -> None:
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
        lines = [("raw prefix", *cells), *(ALONE if data == "cnndm" else ())]
        report.add(common.markdown(("bound without privacy", *SCORES), lines))
    shapes: list[Shape] = []
    for epsilon in options.epsilons:
        made, ten, one = [], {}, {}
        for name, (kind, finite) in KINDS.items():
            nominal = study.measure(kind.with_defaults(epsilon, study.space))
            exact = common.calibrated(
                finite.with_defaults(epsilon, study.space), study.space, epsilon
            )
            strict = {} if exact is None else study.measure(exact)
            made += rows(name, epsilon, nominal, strict, data)
            ten[name], one[name] = (
                float(nominal[attack].rstrip("%")) for attack in (CLAIMED, "inversion, k = 1")
            )
        report.add(common.side_by_side(made))
        shapes += verdicts(ten, one) if epsilon == 6.0 else []
    strictest = max(options.epsilons)
    sizes = rantext_lists.by_size(study.space, prefixes, strictest)
    report.add("The law of the size of RANTEXT's lists (Fig. 4), of this vocabulary:")
    report.add(rantext_lists.law(study.space))
    report.add(f"RANTEXT at nominal epsilon {strictest:g} with wider noise, by its lists:")
    report.add(rantext_lists.table(sizes))
    report.add(common.verdicts(shapes))


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
        run(name, study, options, report)
    report.close()


if __name__ == "__main__":
    main()
