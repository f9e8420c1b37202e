"""InferDPT (Tong et al. 2023): continuation of perturbed texts, and attacks on what was sent.

    python benchmarks/papers/inferdpt.py DATA --model FOLDER [--extractor MODEL ...] [--write]
        [--masked MODEL] [--texts COUNT] [--guessed COUNT] [--quick | --full] [--prompt NAME=FILE]

A text's first 50 tokens are perturbed and sent, the remote model (--model, in the paper GPT-4)
continues them by 100 tokens at temperature 0.5, and a local model (--extractor, in the paper
Vicuna-7B; default: --model), which reads the raw tokens too, writes the 100 that count. Two
extractors make Table IV. Prompts (remote, extraction) are the paper's in our words. As in the paper
the vocabulary has 11,000 tokens of cl100k and others are left out; the vectors are the bundled
encoder's. Texts are of ``cnndm``, with --full also of ``wikitext2`` and, for ArXiv, ``pubmedqa``;
--texts of them are continued. A masked model infers inputs, or else --model, which also guesses
those of --guessed texts. Without --model there are only the attacks by inversion.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import common
import continuation
import numpy as np
from common import Shape, beside, paired
from continuation import GENERATED, PREFIX, SCORES, Study
from protocol import Released, beginnings, cosines, release
from writer import open_writer

import dp_middleware as dp
from dp_middleware.lab import attacks
from dp_middleware.mechanisms.rantext import PRINTED_CHANCES, noise_epsilon

PRINTED = common.printed(__file__)
GENERATION, SIZES, ATTACKED = (1.0, 2.0, 3.0), (2.0, 6.0, 10.0), (0.01, 6.0, 18.0)
"""Epsilons: of Tables III and V, of Tables IV and VI, of the attacks."""

MOST = 40  # prefixes that are attacked with --quick
SHARES = (0.05, 0.5)  # mean sizes of lists, of the vocabulary
REMOTE, LOCAL = "remote model alone", "local model alone"
NAMES = ("SANTEXT+", "CUSTEXT+", "RANTEXT")
FITTED = "RANTEXT, lists as App. B"
Key = tuple[str, float]  # method and epsilon


def methods(space: dp.EmbeddingSpace) -> dict[str, Any]:
    """The paper's in its settings; CUSTEXT+ is each token's own 20 nearest, stop words kept."""
    near = (lambda epsilon: dp.CusTextAggressive(epsilon=epsilon), dp.KeepPolicy.nltk_stop_words())
    return {
        "SANTEXT+": (lambda epsilon: dp.SanTextPlus.with_defaults(epsilon, space), None),
        "CUSTEXT+": near,
        "RANTEXT": (lambda epsilon: dp.RanText(epsilon=epsilon), None),
        FITTED: (lambda epsilon: dp.RanText.with_list_share(space, epsilon=epsilon), None),
    }


def inversion_privacy(sent: Released, space: dp.EmbeddingSpace) -> tuple[float, float]:
    """1 - the rate of embedding inversion with 1 and with 10 guesses, by tokens as the paper."""
    raw, released = zip(*sent.whole, strict=True)  # kept tokens too; unknown ones are left out
    found = attacks.embedding_inversion(raw, released, space, top=(1, 10)).details
    return 1 - found["top 1 by id"], 1 - found["top 10 by id"]


def attacked(
    study: Study, reader: Any, count: int
) -> tuple[str, dict[Key, tuple[float, float]], dict[Key, float]]:
    """Section 7's table, and what it is of: inversion, and inference of the first texts."""
    privacy, inferred, ours = {}, {}, {}
    prefixes = [prefix for prefix, _ in study.pairs]
    for name, (make, policy) in study.methods.items():
        for epsilon in ATTACKED:
            sent = release(make(epsilon), study.space, prefixes, policy=policy)
            privacy[name, epsilon] = inversion_privacy(sent, study.space)
            if reader:
                pairs = zip(*sent.whole[:count], strict=True)
                inferred[name, epsilon] = continuation.guessed(*pairs, study.space, reader)
        shares = [share for epsilon in ATTACKED[:2] for share in privacy[name, epsilon]]
        shares += [inferred[name, epsilon] for epsilon in ATTACKED if reader]
        ours[name] = [f"{share:.1%}" for share in shares]
    heads = [f"inversion, epsilon {e:g}, k = {k}" for e in ATTACKED[:2] for k in (1, 10)]
    heads += [f"input inference, {epsilon:g}" for epsilon in ATTACKED if reader]
    return beside(heads, PRINTED["7"], ours), privacy, inferred


def verdicts(
    privacy: Mapping[Key, tuple[float, float]], inferred: Mapping[Key, float], masked: bool = False
) -> Iterator[Shape]:
    """What Sections 1 and 7 say of attacks; a causal model's inference can only refute."""
    santext, custext, rantext = (100 * privacy[name, 6.0][1] for name in NAMES)
    because = f"{rantext:.1f} %; lists as App. B {100 * privacy[FITTED, 6.0][1]:.1f} %"
    yield Shape("Section 1: over 90 % privacy of RANTEXT at 6, k = 10", rantext > 90, because)
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
        holds = (True if masked else None) if lowest > 80 else False
        yield Shape(claim, holds, f"at least {lowest:.0f} %")
        last, first, second = (inferred[name, 18.0] for name in reversed(NAMES))
        claim = "Section 7.3: at 18 that is 1.41 times CUSTEXT+ and 1.11 times SANTEXT+"
        holds = (last >= 1.41 * first and last >= 1.11 * second) if masked else None
        yield Shape(claim, holds, f"{last / first:.2f} and {last / second:.2f} times")


def published_shares(space: dp.EmbeddingSpace, epsilon: float, draws: int = 512) -> np.ndarray:
    """Shares of the vocabulary on lists with the paper's own constants, (tokens, draws)."""
    ranges = np.ptp(space.vectors, axis=0)
    noise = np.random.default_rng(0).laplace(size=(draws, len(ranges))) * ranges
    radii = np.linalg.norm(noise, axis=1) / noise_epsilon(epsilon)
    distances = np.sort(space.distances(space.spread(min(draws, len(space)))), axis=1)
    return np.array([np.searchsorted(row, radii) for row in distances]) / len(space)


def law(space: dp.EmbeddingSpace) -> str:
    """Fig. 4 and App. B: how large lists are with the paper's constants, and as App. B fits them.

    A table; a list of 5 % is one of 4.5 to 5.5 %.
    """
    lines = []
    for epsilon, printed in PRINTED_CHANCES.items():
        shares = published_shares(space, epsilon)
        fitted = dp.RanText.with_list_share(space, epsilon=epsilon)
        chances = [made.list_chances(space)[0] for made in (dp.RanText(epsilon=epsilon), fitted)]
        cells = [*np.quantile(shares, (0.01, 0.5, 0.99)), shares.mean()]
        shown = [*(f"{cell:.2%}" for cell in cells), f"{printed:.1%}"]
        lines.append((f"{epsilon:g}", *shown, *(f"{chance:.1%}" for chance in chances)))
    heads = ("epsilon", "list, 1 %", "median", "99 %", "mean")
    heads += ("P(5 %), App. B", "P(5 %) here", "P(5 %) here, fitted")
    return common.markdown(heads, lines)


def by_size(space: dp.EmbeddingSpace, texts: Sequence[str], epsilon: float) -> str:
    """A table: loss, between known tokens, and privacy with wider noise, and of a proven loss."""
    vocabulary = dp.Vocabulary(space.vocabulary.tokens, unknown="raise")
    known = dp.EmbeddingSpace(vocabulary, space.vectors)
    wider = partial(dp.RanText.with_list_size, space, epsilon=epsilon)
    made: dict[str, Any] = {f"lists of {share:.0%}": wider(size=share) for share in SHARES}
    made["`rantext-strict`"] = dp.RanTextStrict(epsilon=epsilon)
    made["`custext-strict`"] = dp.CusTextStrict(epsilon=epsilon)
    made["`santext`"] = dp.SanText(epsilon=epsilon / space.diameter)
    lines = []
    for name, mechanism in made.items():
        privacy = inversion_privacy(release(mechanism, space, texts), space)
        lists = name.startswith("lists")
        loss = f"{dp.certify(mechanism, known).epsilon:.1f}" if lists else f"at most {epsilon:g}"
        lines.append((name, loss, *(f"{share:.1%}" for share in privacy)))
    return common.markdown(("way", "loss", "privacy, k = 1", "k = 10"), lines)


def written(study: Study, data: str, report: common.Report) -> Iterator[Shape]:
    """Tables III to VI, and what they claim."""
    local, *more = study.locals

    def cells(epsilons: tuple[float, ...], own: str) -> dict[str, list[str]]:
        rows = {LOCAL: study.scores(study.alone(own))}
        for name in NAMES:
            found = [study.scores(study.extracted(name, epsilon, own)) for epsilon in epsilons]
            columns = zip(*found, strict=True)
            rows[name] = [" / ".join(column) if all(column) else "" for column in columns]
        return rows

    ours = {REMOTE: study.scores(study.alone()), **cells(GENERATION, local)}
    table = beside(SCORES, PRINTED["III"][data], ours)
    report.add(f"Table III at epsilon 1 / 2 / 3; {local} extracts:", table)
    for own, printed in zip((local, *more[:1]) if more else (), PRINTED["IV"], strict=False):
        table = beside(SCORES, printed, cells(SIZES, own))
        report.add(f"Table IV at epsilon 2 / 6 / 10; {own} extracts:", table)
    sent = {(n, e): study.perturbed(n, e) for n in NAMES for e in sorted({*GENERATION, *SIZES})}
    whole = study.alone()
    near = {key: cosines(texts, whole) for key, texts in sent.items()}
    ours = {n: [" / ".join(f"{near[n, e].mean():.3f}" for e in GENERATION)] for n in NAMES}
    table = beside(("cosine",), PRINTED["V"][data], ours)
    report.add("Table V, perturbed and non-private generation, at epsilon 1 / 2 / 3:", table)
    leaks = {key: [study.leaks(t, n) for n in (1, 2, 3)] for key, t in sent.items()}
    ours = {REMOTE: [f"{study.leaks(whole, n).mean():.3f}" for n in (1, 2, 3)]}
    for name in NAMES:
        at_each = [[f"{found.mean():.3f}" for found in leaks[name, e]] for e in SIZES]
        ours[name] = [" / ".join(column) for column in zip(*at_each, strict=True)]
    title = "Table VI, n-grams of the raw text in the perturbed generation, at 2 / 6 / 10:"
    report.add(title, beside(("1-gram", "2-gram", "3-gram"), PRINTED["VI"], ours))

    def coherence(name: str) -> np.ndarray:
        texts = [study.extracted(name, e, local) for e in GENERATION]
        return np.mean([cosines(study.prefixes, some) for some in texts], axis=0)

    alone = cosines(study.prefixes, study.alone(local))
    for name, other in {LOCAL: alone, "SANTEXT+": coherence("SANTEXT+")}.items():
        claim = f"Table III: coherence of RANTEXT above that of {name}"
        yield paired(claim, {"RANTEXT": coherence("RANTEXT") - other})
    means = {name: np.mean([near[name, e] for e in GENERATION], axis=0) for name in NAMES}
    for above, below in (("CUSTEXT+", "RANTEXT"), ("RANTEXT", "SANTEXT+")):
        claim = f"Table V: cosine of {above} above {below}"
        yield paired(claim, {above: means[above] - means[below]})
    free = study.leaks(whole)
    fewer = {n: free - np.mean([leaks[n, e][0] for e in SIZES], axis=0) for n in NAMES}
    yield paired("Table VI: fewer 1-grams leak than without privacy, 2 to 10", fewer)


def run(data: str, study: Study, report: common.Report) -> None:
    options = report.options
    report.add(
        f"### {data}\n\n{len(study.pairs)} prefixes of {PREFIX} tokens are attacked, "
        f"{study.continued if study.locals else 0} continued."
    )
    reader = dp.MaskedContext(options.masked) if options.masked else None
    if not reader and hasattr(study.remote[0], "loaded"):
        reader = dp.CausalContext(study.remote[0].loaded)
    table, privacy, inferred = attacked(study, reader, 100 if options.full else 6)
    report.add("Section 7, privacy, of tokens:", table)
    shapes = list(verdicts(privacy, inferred, bool(options.masked)))
    if options.guessed:
        make, policy = study.methods["RANTEXT"]
        texts = study.prefixes[: options.guessed]
        pairs = zip(*release(make(10.0), study.space, texts, policy=policy).whole, strict=True)
        ask = lambda messages: study.remote[0]([messages[-1]["content"]], 2000)[0]  # noqa: E731
        rate = attacks.llm_inference(*pairs, study.space, model=ask, top=1).rate
        claim = "Section 7.3: 80 % privacy of RANTEXT at 10 against GPT inference"
        shapes.append(Shape(claim, rate <= 0.2, f"{1 - rate:.0%}"))
    title = "The law of the size of RANTEXT's lists (Fig. 4, App. B), of this vocabulary:"
    report.add(title, law(study.space))
    if study.locals:
        shapes += written(study, data, report)
    title = "Ours: RANTEXT at nominal 6 with wider noise, and mechanisms whose loss is proven:"
    table = by_size(study.space, [prefix for prefix, _ in study.pairs], 6.0)
    report.add(common.verdicts(shapes), title, table)


def main() -> None:
    own = {"extractor": [str], "masked": str, "texts": int, "guessed": 0, "prompt": [str]}
    report = common.Report(__file__, __doc__, **own)
    options = report.options
    vocabulary = dp.Vocabulary.from_tiktoken("cl100k_base", size=11_000, unknown="drop")
    space = dp.EmbeddingService().space(vocabulary, "input")
    local, opened = options.extractor or [options.model], dict[str, Any]()
    for spec in dict.fromkeys([options.model, *local]) if options.model else ():
        writer = open_writer(spec, continuation.TEMPERATURE)
        opened[spec] = (writer, continuation.prompts(writer, options.prompt or ()))
    whole, most = dp.Vocabulary.from_tiktoken("cl100k_base"), None if options.full else MOST
    for name in ("cnndm", "wikitext2", "pubmedqa") if options.full else ("cnndm",):
        texts = continuation.texts_of(options.data / name)
        study = Study(
            space=space,
            pairs=[*islice(beginnings(texts, whole, PREFIX, GENERATED), most)],
            continued=options.texts or (100 if options.full else 8),
            methods=methods(space),
            remote=opened.get(options.model, (None, {})),
            locals={Path(spec).stem: opened[spec] for spec in local if opened},
        )
        run(name, study, report)
    report.close()


if __name__ == "__main__":
    main()
