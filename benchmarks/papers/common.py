"""What the scripts of papers share: options, prompts, tables beside printed ones, and verdicts."""

import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

sys.path.append(str(Path(__file__).parents[1]))
import pages
from pages import markdown

Floats = NDArray[np.float64]
LEVEL = 0.05  # of a test


class Shape(NamedTuple):
    """What a paper's table or figure shows, whether ours does (``None``: cannot tell), figures."""

    claim: str
    holds: bool | None
    because: str


def verdicts(shapes: Iterable[Shape]) -> str:
    words = {True: "reproduced", False: "not reproduced", None: "cannot be told"}
    lines = ((claim, words[holds], because) for claim, holds, because in shapes)
    return markdown(("shape", "here", "figures"), lines)


def gap(first: Floats, second: Floats) -> tuple[float, float]:
    """Mean of the differences, text by text and NaN left out, and half of its 95 % interval."""
    gaps = (first - second)[~np.isnan(first - second)]
    half = stats.t.ppf(0.975, len(gaps) - 1) * gaps.std(ddof=1) / np.sqrt(len(gaps))
    return float(gaps.mean()), float(half)


def in_all(
    claim: str, cases: Mapping[str, tuple[float, float]], *, equal: bool = False, more: str = ""
) -> Shape:
    """Holds if each mean is above 0 by half its interval, or within it if ``equal``.

    Does not if one is below by three quarters of an interval: one of many is by chance.
    """
    means, halves = np.array(list(cases.values())).T
    holds = bool((means > halves).all()) or (False if (means < -1.5 * halves).any() else None)
    told = [f"{case} {mean:+.2g} ± {half:.2g}" for case, (mean, half) in cases.items()]
    holds = bool((np.abs(means) <= halves).all()) if equal else holds
    return Shape(claim, holds, "; ".join(told) + more)


def chance(differences: Floats) -> float:
    """One-sided t-test: p of differences, float64 (n,), whose mean is not positive."""
    if np.ptp(differences) == 0:
        return float(1 - np.heaviside(differences[0], 0.5))
    return float(stats.ttest_1samp(differences, 0.0, alternative="greater").pvalue)


def paired(claim: str, cases: Mapping[str, Floats]) -> Shape:
    """Holds if :func:`chance` is below LEVEL in every case; not if one is negative so surely."""
    chances = {case: chance(differences) for case, differences in cases.items()}
    told = [f"{case} {cases[case].mean():+.3f} (p {p:.1g})" for case, p in chances.items()]
    largest = max(chances.values())
    holds = True if largest < LEVEL else False if largest > 1 - LEVEL / len(chances) else None
    return Shape(claim, holds, ", ".join(told))


def everywhere(claim: str, cases: Mapping[str, bool]) -> Shape:
    """Holds in all cases; says in which others it does not."""
    fails = [case for case, holds in cases.items() if not holds]
    told = f"; not {', '.join(fails)}" if 0 < len(fails) < len(cases) else ""
    return Shape(claim, not fails, f"in {len(cases) - len(fails)} of {len(cases)}{told}")


def listed(values: Iterable[float], form: str = "g") -> str:
    return " / ".join(f"{value:{form}}" for value in values)


def printed(script: str) -> Any:
    """The tables that a paper prints, from the JSON file beside its script."""
    return json.loads(Path(script).with_suffix(".json").read_text("utf-8"))


def beside(
    heads: Sequence[str], printed: Mapping[str, str], ours: Mapping[str, Sequence[str]]
) -> str:
    """A table: under each printed line, of cells parted by semicolons, what was measured here."""
    known, lines = {name: cells.split("; ") for name, cells in printed.items()}, []
    for name in dict.fromkeys((*printed, *ours)):
        for source, of in (("paper", known), ("here", ours)):
            if name in of:
                filled = (*(cell or "-" for cell in of[name]), *["-"] * len(heads))
                lines.append((name, source, *filled[: len(heads)]))
    return markdown(("", "", *heads), lines)


def templates(defaults: Mapping[str, str], replaced: Sequence[str]) -> dict[str, Template]:
    """The prompts, some of them from files; SystemExit: not NAME=FILE with a prompt's name."""
    texts = dict(defaults)
    for option in replaced:
        name, _, file = option.partition("=")
        if name not in defaults or not file:
            raise SystemExit(f"expected --prompt NAME=FILE with NAME in {sorted(defaults)}")
        texts[name] = Path(file).read_text("utf-8")
    return {name: Template(text) for name, text in texts.items()}


class Report:
    """The options of a script, with its own, and the section of docs/papers.md that it writes."""

    def __init__(self, file: str, text: str | None, **own: Any) -> None:
        every = {"quick": False, "full": False, "model": str, "write": False, **own}
        self.options = pages.options(text, "data", **every)
        self._name, self._started = Path(file).stem, time.perf_counter()
        self._parts: list[str] = []

    def add(self, *parts: str) -> None:
        """Prints paragraphs and tables as they come."""
        for part in parts:
            print(part, end="\n\n", flush=True)
        self._parts += parts

    def close(self) -> None:
        """Says how long it took, and puts all into the page if ``--write`` says so."""
        given = [Path(word).name for word in sys.argv[2:] if word != "--write"]
        command = " ".join((f"python benchmarks/papers/{self._name}.py DATA", *given))
        self.add(f"`{command}`: {(time.perf_counter() - self._started) / 60:.0f} minutes.")
        if self.options.write:
            pages.write(f"paper {self._name}", "\n\n".join(self._parts))
