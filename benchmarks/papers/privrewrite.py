"""PrivRewrite (2025): what k, tau, alpha, the split and the sensitivity do to a rewrite.

    python benchmarks/papers/privrewrite.py DATA --quick --model FOLDER [--write]

Sentences of ``sst2`` are sanitized token by token with epsilon_1, the model writes k candidates for
each at temperature 0.75, similar ones are pruned (tau), and one is chosen with epsilon_2. One
parameter at a time leaves k = 10, tau = 0.8, alpha = 1 and the even split. Scored is the cosine of
sentence vectors of the raw text and of the chosen candidate, its expectation over the choice: the
law of the choice is known, so that nothing is drawn. The nominal column has the token exponential
mechanism with epsilon_1 as its parameter and the paper's sensitivity, the exact one the parameter
whose exact loss is epsilon_1 and the range over the candidates. Candidates are written once for
each epsilon_1 and column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from string import Template

import common
import numpy as np
from common import Row, Shape
from numpy.typing import NDArray
from rantext_lists import released
from writer import Writer, open_writer

import dp_middleware as dp
from dp_middleware.frameworks import _candidates
from dp_middleware.frameworks.privrewrite import Selection
from dp_middleware.lab.evaluation.data import load

TEMPERATURE = 0.75
MOST = 10  # candidates for a text
CHAT = {"rewrite": _candidates.questions("$text", "occurrence", 1, ())[0][-1]["content"]}
BASE = {
    "rewrite": "Scrambled: an hour purple laughs that the never quite hand tired\n"
    "Repaired: An hour of laughs that never quite gets tired.\n\n"
    "Scrambled: slow river story of grief its told spoon without tears\n"
    "Repaired: A slow story of grief, told without tears.\n\n"
    "Scrambled: $text\nRepaired:"
}
"""For models that follow no instruction: examples to continue, invented here."""

EVEN = 0.5  # the share of epsilon_1 in the paper's default split


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Parameters of a rewrite.

    Attributes:
        share: Of the whole epsilon, for phase 1.
        k: Candidates.
        tau: Largest similarity of two that are kept.
        alpha: Of the utility.
        sensitivity: Of the choice; ``None``: the column's own.
    """

    share: float = EVEN
    k: int = MOST
    tau: float = 0.8
    alpha: float = 1.0
    sensitivity: str | None = None


GRID = {
    "default: k = 10, tau = 0.8, alpha = 1, even split": Setting(),
    "k = 1": Setting(k=1),
    "k = 3": Setting(k=3),
    "tau = 0.6": Setting(tau=0.6),
    "tau = 1, nothing pruned": Setting(tau=1.0),
    "alpha = 0": Setting(alpha=0.0),
    "alpha = 0.5": Setting(alpha=0.5),
    "alpha = 2": Setting(alpha=2.0),
    "a quarter for phase 1": Setting(share=0.25),
    "three quarters for phase 1": Setting(share=0.75),
    "sensitivity 1, the naive choice": Setting(sensitivity="naive"),
}
DEFAULT = next(iter(GRID))
DIFFERENCES = {
    "alpha": "Utility and sensitivity shrink together: the law moves only where u is clipped.",
    "k": "The same candidates, the first so many.",
    "tau": "Sentence vectors of the bundled encoder.",
    "sensitivity": "Exact column: the naive choice on the same candidates as the default.",
}
SENSITIVITIES = {"nominal": "paper", "exact": "candidates"}


@dataclass(frozen=True, kw_only=True)
class Pool:
    """A private text and what was written for it.

    Attributes:
        ids: Of the text, int (n,).
        candidates: In the order in which they came.
        cosines: Of the text's vector and each candidate's, float (m,).
        sanitized: Cosine with what was sent.
    """

    ids: NDArray[np.int64] = field(repr=False)
    candidates: tuple[str, ...] = field(repr=False)
    cosines: NDArray[np.float64]
    sanitized: float


def pools(
    mechanism: dp.TokenExponential,
    space: dp.EmbeddingSpace,
    texts: Sequence[str],
    writer: Writer,
    prompt: Template,
    service: dp.EmbeddingService,
) -> list[Pool]:
    """Sanitize all texts and have candidates written."""
    raw, _, sent = released(mechanism, space, texts)
    asked = [prompt.substitute(text=text) for text in sent for _ in range(MOST)]
    answers = [(answer.splitlines() or [""])[0].strip() for answer in writer(asked, 40)]
    made = []
    for number, (text, ids) in enumerate(zip(texts, raw, strict=True)):
        own = tuple(answers[number * MOST : (number + 1) * MOST])
        vectors = service.encode([text, sent[number], *own]).astype(np.float64)
        cosines = vectors[1:] @ vectors[0]
        made.append(Pool(ids=ids, candidates=own, cosines=cosines[1:], sanitized=cosines[0]))
    return made


def expected(
    pool: Pool,
    setting: Setting,
    epsilon: float,
    sensitivity: str,
    space: dp.EmbeddingSpace,
    service: dp.EmbeddingService,
) -> float:
    """Expectation of the chosen candidate's cosine, over the choice with this epsilon."""
    vocabulary = space.vocabulary
    texts = _candidates.distinct(
        pool.candidates[: setting.k], lambda text: len(vocabulary.encode(text)) > 0
    )
    texts = _candidates.prune(texts, service, setting.tau)
    if not texts:
        return pool.sanitized  # the fallback
    by_text = dict(zip(reversed(pool.candidates), reversed(pool.cosines), strict=True))
    choice = Selection(
        epsilon=epsilon, alpha=setting.alpha, sensitivity=setting.sensitivity or sensitivity
    )
    law = np.exp(choice.log_probs(pool.ids, [vocabulary.encode(t) for t in texts], space))
    return float(law @ [by_text[text] for text in texts])


def bounds(made: Sequence[Pool]) -> Iterator[tuple[str, list[float]]]:
    """What no choice changes: the sanitized text, a random candidate, the best one."""
    yield "the sanitized text itself", [pool.sanitized for pool in made]
    yield "a random candidate", [float(pool.cosines.mean()) for pool in made]
    yield "the best candidate", [float(pool.cosines.max()) for pool in made]


def cell(values: Sequence[float]) -> str:
    """Mean and half of its 95 % interval over texts."""
    half = 1.96 * np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{np.mean(values):.3f} ± {half:.3f}"


def difference(setting: Setting) -> str:
    """The sentence for a line of the grid: of the parameter that is not the default."""
    for name, sentence in DIFFERENCES.items():
        if getattr(setting, name) != getattr(Setting(), name):
            return sentence
    return "Other model, texts and vectors."


def above(values: Mapping[str, Sequence[float]], one: str, other: str) -> tuple[bool | None, str]:
    """Whether a line's values are above another's, by a 95 % interval of paired differences."""
    gaps = np.subtract(values[one], values[other])
    half = 1.96 * gaps.std(ddof=1) / np.sqrt(len(gaps))
    told = f"{gaps.mean():+.3f} ± {half:.3f}"
    return (None if abs(gaps.mean()) <= half else bool(gaps.mean() > 0)), told


def shapes(values: Mapping[str, Sequence[float]]) -> list[Shape]:
    """By the figures of the exact column."""
    more = above(values, DEFAULT, "k = 1")
    refined = above(values, DEFAULT, "sensitivity 1, the naive choice")
    alphas = ["alpha = 0", "alpha = 0.5", DEFAULT, "alpha = 2"]
    means = [float(np.mean(values[name])) for name in alphas]
    spread = max(means) - min(means)
    peak = spread > 1e-3 and means[0] < max(means[1:3]) > means[3]
    return [
        Shape(
            claim="the refined sensitivity chooses better than the naive one (abstract)",
            holds=refined[0],
            because=refined[1],
        ),
        Shape(claim="ten candidates are better than one", holds=more[0], because=more[1]),
        Shape(
            claim="a peak in alpha (Fig. 3)",
            holds=peak,
            because=f"means differ by {spread:.4f} between alpha = 0 and 2",
        ),
    ]


def main() -> None:
    """Print the tables, and write them if asked."""
    made = common.parser(__doc__, CHAT)
    made.add_argument("--epsilon", type=float, default=40.0, help="of both phases, per token")
    made.add_argument("--texts", type=int, help="default 6, --full 100")
    options = made.parse_args()
    if not options.model:
        made.error("candidates need --model")
    count = options.texts or (100 if options.full else 6)
    texts = [text for text in load(options.data / "sst2").texts if len(text.split()) > 9][:count]
    space, service = dp.default_space(), dp.EmbeddingService()
    writer = open_writer(options.model, TEMPERATURE)
    prompt = common.templates(CHAT if writer.chats else BASE, options.prompt)["rewrite"]
    report = common.Report("privrewrite", options)
    columns: dict[str, dict[str, list[float]]] = {"nominal": {}, "exact": {}}
    for share in sorted({setting.share for setting in GRID.values()}):
        first = dp.TokenExponential(epsilon=share * options.epsilon)
        exact = common.calibrated(first, space, first.epsilon)
        for column, mechanism in (("nominal", first), ("exact", exact)):
            written = pools(mechanism, space, texts, writer, prompt, service)
            values = columns[column]
            if share == EVEN:
                values |= dict(bounds(written))
            rest, own = (1 - share) * options.epsilon, SENSITIVITIES[column]
            for name, setting in GRID.items():
                if setting.share == share:
                    values[name] = [
                        expected(pool, setting, rest, own, space, service) for pool in written
                    ]
    report.add(
        f"{len(texts)} sentences of SST-2, {options.epsilon:g} nats per token for both phases, "
        "cosine of raw and chosen text ± its 95 % interval over texts:"
    )
    rows = [
        Row(
            measured=name,
            nominal=cell(columns["nominal"][name]),
            exact=cell(columns["exact"][name]),
            difference=difference(GRID[name]) if name in GRID else "Bounds of the same candidates.",
        )
        for name in columns["exact"]
    ]
    report.add(common.side_by_side(rows))
    report.add(common.verdicts(shapes(columns["exact"])))
    report.close()


if __name__ == "__main__":
    main()
