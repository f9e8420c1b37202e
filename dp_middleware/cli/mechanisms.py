"""``dp-middleware mechanisms``: all of them, as their own documentation describes them."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import dp_middleware as dp
from dp_middleware.cli import options, show
from dp_middleware.cli.console import working
from dp_middleware.errors import ParameterError

if TYPE_CHECKING:
    from dp_middleware.mechanisms import Mechanism


def mechanisms(
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="A Markdown table: claimed beside guaranteed.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Every mechanism: its name, what its paper claims, what it does, where it is from."""
    if as_markdown and as_json:
        raise ParameterError("expected --markdown or --json, got both")
    with working("loading the library"):
        rows = [_describe(mechanism) for mechanism in dp.MECHANISMS.values()]
    if as_markdown:
        show.line(markdown_table())
    elif as_json:
        show.data(rows)
    else:
        names = ("name", "claim", "summary", "reference")
        table = Table(*names, header_style="bold", show_lines=True)
        table.columns[0].no_wrap = True
        for row in rows:
            table.add_row(*(Text(row[name]) for name in names))
        Console().print(table)


def markdown_table() -> str:
    """Makes one Markdown table of all mechanisms, from their own documentation.

    Each line starts with a name in backticks. References are cut after their first year.
    """
    lines = ["| name | what it does | claimed | guaranteed | reference |", "|---|---|---|---|---|"]
    for row in map(_describe, dp.MECHANISMS.values()):
        year = re.match(r".*?\(\d{4}\)", row["reference"])
        source = year.group() if year else _first_sentence(row["reference"])
        does = _first_sentence(row["summary"])
        cells = (f"`{row['name']}`", does, row["claim"], row["truth"], source)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def _describe(mechanism: type[Mechanism]) -> dict[str, str]:
    text = inspect.getdoc(mechanism) or ""
    return {
        "name": mechanism.name,
        "claim": mechanism.claim,
        "truth": mechanism.truth,
        "summary": text.partition("\n\n")[0].replace("\n", " "),
        "reference": _section(text, "Reference"),
        "guarantee": _section(text, "Guarantee"),
    }


def _section(text: str, title: str) -> str:
    """The indented block under a title of a docstring, on one line."""
    _, _, rest = text.partition(f"\n{title}:\n")
    return " ".join(rest.partition("\n\n")[0].split())


def _first_sentence(text: str) -> str:
    """Up to the first full stop before a capital letter, which is left out."""
    return re.split(r"\.(?:\s+(?=[A-Z])|$)", text, maxsplit=1)[0]
