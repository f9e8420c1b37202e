"""DYNTEXT (Zhang et al. 2025): what a model writes after perturbed texts, and what it infers.

    python benchmarks/papers/dyntext.py DATA --model MODEL [--quick | --full] [--masked MODEL]

DATA has imdb, newsgroups20 and pubmedqa. As in the paper: the 11,000 words of cl100k; the first 50
tokens of a text are perturbed, a model continues what was sent at temperature .5, and that is
scored, without extraction, by MAUVE against the human continuation and by its coherence with the
raw tokens; epsilons 1, 2 and 3, of which .5 for the density; lists of K = 20. Input inference: a
masked model (--masked) fills in each token of what was sent, or the causal one reads its left.
Without --model there is Fig. 2 alone. Printed figures: dyntext.json, of generation MAUVE and
coherence for each of SETS.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path

import numpy as np
import protocol
from common import Floats, Report, Shape, chance, markdown, paired, printed, verdicts
from numpy.typing import ArrayLike
from probing import read
from protocol import Ids, Released
from writer import Writer, open_writer

import dp_middleware as dp
from dp_middleware._torch import torch
from dp_middleware.contexts import Context
from dp_middleware.frameworks.inferdpt import for_remote
from dp_middleware.lab import metrics
from dp_middleware.lab.metrics.results import MetricResult, exact_interval
from dp_middleware.mechanisms import ChannelMechanism, Mechanism
from dp_middleware.mechanisms.dyntext import Density, density, table_noise
from dp_middleware.mechanisms.kernels.nearest import noisy
from dp_middleware.sampling.sampler import Entropy, insecure_entropy
from dp_middleware.vocabulary.classes import word_numbers

DENSITY, DELTA, K = 0.5, 1e-5, 20  # nats of the density, its delta, the longest list


def lists(space: dp.EmbeddingSpace, smooth: bool) -> tuple[Density, Ids]:
    """Neighbourhoods, and the length of each token's list from the table of noisy densities."""
    public = density(space, K, DENSITY, DELTA)
    if not smooth:  # the global sensitivity is the largest smooth one
        public = public._replace(log_sigma=np.full(len(space), public.log_sigma.max()))
    return public, public.lengths(table_noise(0, len(space)))


@dataclass(frozen=True, kw_only=True)
class OnLists(dp.CusTextAggressive):
    """DYNTEXT's replacement on :func:`lists`, filled up with the token itself."""

    smooth: bool = False

    def candidate_lists(self, ids: Ids, space: dp.EmbeddingSpace) -> tuple[torch.Tensor, ...]:
        public, lengths = lists(space, self.smooth)
        inside = np.arange(K) < lengths[ids, None]
        listed = np.where(inside, public.listed[ids], ids[:, None])
        distances = np.where(inside, public.distances[ids], 0.0)
        return torch.from_numpy(listed), torch.from_numpy(distances)


@dataclass(frozen=True, kw_only=True)
class NoiseOnLists(dp.MetricNoise):
    """Of the dynamic list the token nearest to the vector plus noise."""

    def perturb(self, ids: ArrayLike, space: dp.EmbeddingSpace, entropy: Entropy) -> Ids:
        own, (public, lengths) = space.checked(ids), lists(space, smooth=True)
        points, listed = noisy(space.points[own], self.eta, entropy), public.listed[own]
        distances = np.linalg.norm(space.points[listed] - points[:, None], axis=2)
        distances[np.arange(K) >= lengths[own, None]] = np.inf
        return listed[np.arange(len(own)), distances.argmin(axis=1)]


Make = Callable[[float, dp.EmbeddingSpace], Mechanism]  # from the total epsilon
METHODS: dict[str, Make] = {
    "FBDD": dp.MetricNoise.with_defaults,
    "SANTEXT+": dp.SanTextPlus.with_defaults,
    "CUSTEXT+": dp.CusTextPlus.with_defaults,
    "RANTEXT": dp.RanText.with_defaults,
    "DYNTEXT": dp.DynText.with_defaults,
}
ABLATIONS: dict[str, Make] = {
    "w/o smooth": lambda t, _: OnLists(epsilon=t - DENSITY),
    "w/o dynamic list": lambda t, _: dp.CusTextAggressive(epsilon=t - DENSITY, candidates=K // 2),
    "w/o replacement": lambda t, _: NoiseOnLists(eta=t - DENSITY),
}

SETS = {"imdb": "IMDb", "newsgroups20": "20 Newsgroups", "pubmedqa": "PubMedQA"}
EPSILONS = (1.0, 2.0, 3.0)
TOKENS = 50  # of a text, that are sent
OURS, RAW = "DYNTEXT", "GPT-4"  # whose place --model takes
OTHERS = tuple(name for name in METHODS if name != OURS)
SIZES = {  # by --full: texts continued, attacked, tokens written, epsilons of Tables 1 and 2
    False: (20, 6, 32, {"imdb": (EPSILONS, ()), "newsgroups20": (EPSILONS[:1], EPSILONS[:1])}),
    True: (200, 100, 100, dict.fromkeys(SETS, (EPSILONS, EPSILONS))),
}
PRINTED = printed(__file__)

Makes = Mapping[tuple[str, float], Make]  # by method and epsilon
Key = tuple[str, str, float]  # data set, method, epsilon (0: raw text)
Scores = dict[Key, tuple[MetricResult, Floats]]  # MAUVE, and coherence text by text
Rates = dict[Key, Ids]  # of each text how many words were guessed of how many, (n, 2)


def sent(make: Make, epsilon: float, space: dp.EmbeddingSpace, texts: Sequence[str]) -> Released:
    """DYNTEXT keeps NLTK's stop words, as its program does; "+" methods keep a list of theirs."""
    keeps = make is METHODS[OURS] or make in ABLATIONS.values()
    policy = protocol.function_words() if keeps else None
    return protocol.release(make(epsilon, space), space, texts, policy=policy)


def written(data: str, pairs, cases: Makes, space, writer: Writer, tokens: int) -> Scores:
    """What the model writes after the raw texts and after all releases, in one batch."""
    raw, human = (list(texts) for texts in zip(*pairs, strict=True))
    asked = {(RAW, 0.0): raw}
    asked |= {(n, e): sent(make, e, space, raw).texts for (n, e), make in cases.items()}
    flat = [text for texts in asked.values() for text in texts]
    if not hasattr(writer, "loaded"):  # a server's model is told to, a small one just writes on
        flat = [for_remote(text, None)[-1]["content"] for text in flat]
    answers, scores = iter(writer(flat, tokens)), {}
    for key in asked:
        texts = [next(answers) for _ in raw]
        scores[data, *key] = metrics.mauve(human, texts), protocol.cosines(raw, texts)
    return scores


def inferred(released: Released, space, context: Context, public) -> Ids:
    """A trial is a known word that is not ``public``, bool (V,): no stop word, no sign."""
    words, counts = word_numbers(space.vocabulary), []
    for raw, out in (whole[:, whole[1] >= 0] for whole in released.whole):
        hits = words[context.logits(out, space).argmax(axis=1)] == words[raw]
        tried = (raw >= 0) & ~public[raw]
        counts.append((hits[tried].sum(), tried.sum()))
    return np.array(counts)


def cosine(make: Make, epsilon: float, space, ids: Ids, vectors: Floats) -> float:
    """Of a token and what is sent for it: exact, but of noise over 20 draws for each token."""
    mechanism = make(epsilon, space)
    if isinstance(mechanism, ChannelMechanism):
        return metrics.token_cosine(mechanism, space, ids=ids, vectors=vectors).value
    raw = np.tile(ids, 20)
    one, other = vectors[raw], vectors[mechanism.perturb(raw, space, insecure_entropy(0))]
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return float(np.mean((one * other).sum(axis=1)[lengths > 0] / lengths[lengths > 0]))


def at_each(values: Mapping[float, float], form: str = ".2f") -> str:
    """At the epsilons, without a zero before the point, as printed; at 0 if they are of that."""
    texts = {e: f"{value:z{form}}".replace("0.", ".", 1) for e, value in values.items()}
    own = " / ".join(texts.get(e, "-") for e in EPSILONS) if texts else "-"
    return texts.get(0.0, own)


def generation(found: Scores, data: str, names: Sequence[str]) -> str:
    """Markdown: Tables 1 and 2 for one data set."""
    place, lines = 2 * list(SETS).index(data), []
    for name in names:
        own = {e: scores for (d, n, e), scores in found.items() if (d, n) == (data, name)}
        mauve = at_each({e: scores[0].value for e, scores in own.items()})
        coherence = at_each({e: float(scores[1].mean()) for e, scores in own.items()})
        cells = PRINTED["generation"][name][place : place + 2]
        lines.append((name, cells[0], mauve, cells[1], coherence))
    head = f"Table{'s 1 and 2' if len(names) > 7 else ' 1'}, {SETS[data]}"
    return markdown((head, "MAUVE, printed", "ours", "coherence, printed", "ours"), lines)


def inference(rates: Rates) -> str:
    lines = []
    for (place, data), (name, cells) in product(enumerate(SETS), PRINTED["inference"].items()):
        sums = {e: rates[data, name, e].sum(axis=0) for e in EPSILONS}
        ours = at_each({e: hits / trials for e, (hits, trials) in sums.items()}, ".3f")
        lines.append((SETS[data], name, cells[place], ours))
    return markdown(("Table 3", "method", "printed", "ours"), lines)


def differences(found: Scores, others: Sequence[str]) -> dict[tuple[str, float], Floats]:
    """Coherence of DYNTEXT less the others' mean, text by text, where these were measured."""
    return {
        (d, e): scores[1] - np.mean([found[d, name, e][1] for name in others], axis=0)
        for (d, own, e), scores in found.items()
        if own == OURS and (d, others[0], e) in found
    }


def significance(found: Scores) -> str:
    lines, gaps = [], differences(found, OTHERS)
    for data, cells in PRINTED["significance"].items():
        own = {e: chance(values) for (d, e), values in gaps.items() if d == data}
        lines.append((SETS[data], *cells, at_each(own, ".0e")))
    return markdown(("Table 4, p", "MAUVE, printed", "coherence, printed", "ours"), lines)


def shapes(found: Scores, rates: Rates, masked: bool) -> Iterator[Shape]:
    """Tables 1 to 4, by tests text by text; no comparison of Table 3 without a masked model."""
    claims = {f"Table 1: DYNTEXT is more coherent than {name}": (name,) for name in OTHERS}
    claims |= {f"Table 2: DYNTEXT is more coherent than {name}": (name,) for name in ABLATIONS}
    claims["Table 4: DYNTEXT is more coherent than its baselines together"] = OTHERS
    for claim, others in claims.items():
        cases = differences(found, others)
        yield paired(claim, {f"{SETS[d]} at {e:g}": values for (d, e), values in cases.items()})
    own = [(scores[0], d, e) for (d, name, e), scores in found.items() if name == OURS]
    best = [max((found[d, o, e][0] for o in OTHERS), key=lambda m: m.value) for _, d, e in own]
    mauves = list(zip([score for score, _, _ in own], best, strict=True))
    first = sum(one.value > other.value for one, other in mauves)
    clear = all(one.low > other.high or other.low > one.high for one, other in mauves)
    told = f"in {first} of {len(mauves)}" + "; 95 % intervals overlap" * (not clear)
    holds = first == len(mauves) if clear else None
    yield Shape("Table 1: DYNTEXT has the highest MAUVE", holds, told)
    share = {key: counts[:, 0] / np.maximum(counts[:, 1], 1) for key, counts in rates.items()}
    for name in [name for name in PRINTED["inference"] if name != OURS]:
        gaps = {d: [share[d, name, e] - share[d, OURS, e] for e in EPSILONS] for d in SETS}
        pooled = {SETS[d]: np.concatenate(some) for d, some in gaps.items()}
        shape = paired(f"Table 3: less is inferred of DYNTEXT than of {name}", pooled)
        yield shape if masked else shape._replace(holds=None)
    hits, trials = sum(counts.sum(axis=0) for (_, name, _), counts in rates.items() if name == OURS)
    few = False if exact_interval(int(hits), int(trials))[0] > 1e-4 else None
    claim = "Table 3: of DYNTEXT at most one word in 10,000 is inferred"
    yield Shape(claim, few, f"{hits} of {trials}")


def nearness(space: dp.EmbeddingSpace, ids: Ids) -> tuple[str, list[Shape]]:
    """Markdown of Fig. 2, and what is said of it; tokens as often as they are attacked."""
    glove = dp.glove_space(size=100_000)
    rows = dict(zip(glove.vocabulary.tokens, glove.points, strict=True))
    words = [token.strip().lower() for token in space.vocabulary.tokens]
    vectors = np.array([rows.get(word, np.zeros(glove.points.shape[1])) for word in words])
    near = {n: [cosine(m, e, space, ids, vectors) for e in EPSILONS] for n, m in METHODS.items()}
    fbdd, santext, custext, rantext, ours = map(np.array, near.values())
    far, nearer = np.maximum(fbdd, rantext), np.minimum(santext, custext)
    claims = {
        "replacements of DYNTEXT are nearest": all((ours > near[name]).all() for name in OTHERS),
        "those of FBDD and RANTEXT are notably far": (far < nearer).all(),
        "all lose nearness with epsilon": all((np.diff(n) > -0.005).all() for n in near.values()),
    }
    lines = [(n, at_each(dict(zip(EPSILONS, row, strict=True)))) for n, row in near.items()]
    shapes = [Shape(f"Fig. 2: {c}", bool(holds), "see the table") for c, holds in claims.items()]
    return markdown(("Fig. 2", "ours, cosine in GloVe"), lines), shapes


ALONE = "the same model, which reads what is on the left and is right too seldom to compare by,"
ABOUT = """{} texts of a set; of a text 50 tokens are sent and {} written (printed: 100). Cells are
at epsilon 1 / 2 / 3. What differs everywhere: {} in GPT-4's place, none in Vicuna-7B's; {} in
BERT's; vectors of MiniLM in place of ada-002's in the mechanisms, SimCSE's in coherence and GPT-2's
in MAUVE, which of so few texts tells little; words off the list are split into listed ones; delta,
which is not printed, is 1e-5. DYNTEXT keeps NLTK's stop words and signs, as its program, the +
methods keep their list, others nothing. A trial of Table 3 is a known word that is neither,
whatever the method keeps: what the paper counts is not printed. Over what Table 4 tests MAUVE is
not said: it cannot be tried here. Exactly, all methods but FBDD and RANTEXT lose infinitely many
nats."""


def main() -> None:
    report, space, shown = Report(__file__, __doc__, masked=str), protocol.word_list_space(), []
    options = report.options
    count, tried, tokens, grid = SIZES[options.full]
    public, pairs = protocol.function_words().kept_tokens(space), {}
    for data in SETS:
        texts = [record["text"] for record in read(options.data, data)]
        whole = protocol.beginnings(texts, space.vocabulary, TOKENS, tokens, least=tokens)
        pairs[data] = [*islice(whole, count)]
    if options.model:
        writer, found, rates = open_writer(options.model, 0.5), {}, {}
        network, tokenizer = getattr(writer, "loaded", (None, None))
        if network is not None:
            network.bfloat16()  # writes in half the time
        elif not options.masked:
            raise SystemExit("a server's model gives no probabilities: --masked has to infer")
        who = "a masked model" if options.masked else ALONE
        report.add(ABOUT.format(count, tokens, Path(options.model).name, who))
        for data, (every, ablated) in grid.items():
            cases = {(name, e): make for e in every for name, make in METHODS.items()}
            cases |= {(name, e): make for e in ablated for name, make in ABLATIONS.items()}
            found |= written(data, pairs[data], cases, space, writer, tokens)
            names = [n for n in PRINTED["generation"] if ablated or n not in ABLATIONS]
            report.add(generation(found, data, names))
        context = dp.MaskedContext(options.masked) if options.masked else None
        context = context or dp.CausalContext((network.float(), tokenizer))
        for data in SETS:
            texts = [raw for raw, _ in pairs[data][:tried]]
            for name, e in product(PRINTED["inference"], EPSILONS):
                out = sent(METHODS[name], e, space, texts)
                rates[data, name, e] = inferred(out, space, context, public)
        report.add(inference(rates), significance(found))
        shown = sorted(shapes(found, rates, bool(options.masked)), key=lambda s: s.claim)
    ids = np.concatenate([space.vocabulary.encode(raw) for raw, _ in pairs["imdb"]])
    table, claims = nearness(space, ids[(ids >= 0) & ~public[ids]])
    report.add(table, verdicts([*shown, *claims]))
    report.close()


if __name__ == "__main__":
    main()
