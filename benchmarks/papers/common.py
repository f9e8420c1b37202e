"""What the scripts of this folder share: options, prompts, tables, and their place on the page.

Every script measures what one paper prints, and sets it beside the paper's figure. A figure of a
paper is written down only as it was seen in print; others are "not at hand".
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import dp_middleware as dp
from dp_middleware.mechanisms import Mechanism

sys.path.append(str(Path(__file__).parents[1]))
import pages

NOT_AT_HAND = "not at hand"
HEADS = ("measured", "paper", "ours, nominal epsilon", "ours, exact epsilon", "what differs")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure of a paper beside ours.

    Attributes:
        measured: What, on what, at which epsilon.
        paper: As printed.
        nominal: Ours with the paper's parameter.
        exact: Ours with the parameter whose exact loss is the paper's epsilon.
        difference: A sentence: what was done otherwise than in the paper, or what follows.
    """

    measured: str
    paper: str = NOT_AT_HAND
    nominal: str = "-"
    exact: str = "-"
    difference: str


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a paper's table or figure shows, and whether ours does.

    Attributes:
        claim: In a sentence.
        holds: By our figures; ``None`` if they cannot tell.
        because: Our figures.
    """

    claim: str
    holds: bool | None
    because: str


def side_by_side(rows: Sequence[Row]) -> str:
    """Markdown: a line for each figure."""
    fields = [(r.measured, r.paper, r.nominal, r.exact, r.difference) for r in rows]
    return markdown(HEADS, fields)


def verdicts(shapes: Sequence[Shape]) -> str:
    """Markdown: which shapes are reproduced."""
    words = {True: "reproduced", False: "not reproduced", None: "cannot be told"}
    lines = [(shape.claim, words[shape.holds], shape.because) for shape in shapes]
    return markdown(("shape", "here", "figures"), lines)


def printed(script: str) -> Any:
    """The tables that a paper prints, from the JSON file beside its script."""
    return json.loads(Path(script).with_suffix(".json").read_text("utf-8"))


def beside(
    heads: Sequence[str], printed: Mapping[str, str], ours: Mapping[str, Sequence[str]]
) -> str:
    """Markdown: under each printed line of a paper's table the line that was measured here.

    Printed cells are parted by semicolons; a shorter line ends early.
    """
    lines = []
    for name in dict.fromkeys((*printed, *ours)):
        both = {"paper": printed[name].split("; ")} if name in printed else {}
        both |= {"here": ours[name]} if name in ours else {}
        for source, cells in both.items():
            filled = (*(cell or "-" for cell in cells), *["-"] * len(heads))
            lines.append((name, source, *filled[: len(heads)]))
    return markdown(("", "", *heads), lines)


def markdown(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table; a bar inside a cell is escaped."""
    rows = [heads, ["---"] * len(heads), *lines]
    return "\n".join(f"| {' | '.join(c.replace('|', chr(92) + '|') for c in r)} |" for r in rows)


def calibrated(mechanism: Mechanism, space: dp.EmbeddingSpace, epsilon: float) -> Mechanism | None:
    """The same mechanism with this exact loss; ``None`` where no parameter has a finite one."""
    try:
        return dp.calibrate(mechanism, space, epsilon=epsilon)
    except dp.CannotCalibrate:
        return None


def parser(description: str | None, prompts: Mapping[str, str] = {}) -> argparse.ArgumentParser:
    """The options of every script; a script adds its own.

    Args:
        description: The script's docstring, its first line is shown.
        prompts: Of the script, by name.
    """
    made = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    made.add_argument("data", type=Path, help="a folder with a folder for each data set")
    size = made.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="ten minutes on two cores (default)")
    size.add_argument("--full", action="store_true", help="the paper's sizes, for a real model")
    made.add_argument(
        "--model",
        help="a causal model: folder, Hugging Face name, GGUF file, or openai:MODEL[@BASE_URL]",
    )
    if prompts:
        made.add_argument(
            "--prompt",
            action="append",
            default=[],
            metavar="NAME=FILE",
            help=f"another text for a prompt, with $fields as in ours: {', '.join(prompts)}",
        )
    made.add_argument("--write", action="store_true", help="put the tables into docs/papers.md")
    return made


def templates(defaults: Mapping[str, str], replaced: Sequence[str]) -> dict[str, Template]:
    """The prompts, some of them from files.

    Raises:
        SystemExit: An option is not NAME=FILE with the name of a prompt.
    """
    texts = dict(defaults)
    for option in replaced:
        name, _, file = option.partition("=")
        if name not in defaults or not file:
            raise SystemExit(f"expected --prompt NAME=FILE with NAME in {sorted(defaults)}")
        texts[name] = Path(file).read_text("utf-8")
    return {name: Template(text) for name, text in texts.items()}


class Report:
    """Prints the parts of a script's section as they come; writes them at the end.

    Args:
        name: Of the script; the section of docs/papers.md is ``paper NAME``.
        options: From :func:`parser`.
    """

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self._name, self._options = name, options
        self._started = time.perf_counter()
        self._parts: list[str] = []

    def add(self, part: str) -> None:
        """A paragraph or a table."""
        print(part, end="\n\n", flush=True)
        self._parts.append(part)

    def close(self) -> None:
        """Say how long it took, and put all into the page if ``--write`` says so."""
        given = [Path(word).name for word in sys.argv[2:] if word != "--write"]
        command = " ".join((f"python benchmarks/papers/{self._name}.py DATA", *given))
        minutes = (time.perf_counter() - self._started) / 60
        self.add(f"`{command}`: {minutes:.0f} minutes.")
        if self._options.write:
            pages.write(f"paper {self._name}", "\n\n".join(self._parts))
