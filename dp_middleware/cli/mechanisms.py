"""``dp-middleware mechanisms``, ``certify`` and ``prepare``: what they are and guarantee."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import dp_middleware as dp
from dp_middleware.cli import options, show
from dp_middleware.cli.console import working
from dp_middleware.cli.settings import (
    PrivacyOptions,
    calibrating,
    classes_of,
    law_of,
    mechanism_of,
    space_of,
    with_settings,
)
from dp_middleware.errors import ParameterError
from dp_middleware.privacy import Certificate, Witness

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
    """Makes one Markdown table of all mechanisms, from their own documentation."""
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


def certify(
    mechanism: Annotated[
        str | None, typer.Argument(help="See `dp-middleware mechanisms`.", show_default=False)
    ] = None,
    epsilon: Annotated[
        list[float] | None,
        typer.Option("--epsilon", "-e", help="Nats per token, certified exactly; repeatable."),
    ] = None,
    nominal: options.Nominal = False,
    space: options.Space = "default",
    within_classes: options.WithinClasses = False,
    list_size: options.ListSize = None,
    length: Annotated[
        int | None, typer.Option(help="Tokens of the text, where a token moves other positions.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """What a mechanism claims, and what it really guarantees on a space."""
    epsilons = epsilon or [10.0]
    kind, where = mechanism_of(mechanism, *epsilons), space_of(space)
    adjacency = classes_of(kind, epsilons[0], where) if within_classes else None
    rows = []
    for value in epsilons:
        law: Mechanism = law_of(kind, value, where, list_size)
        if not nominal:
            with working(calibrating(kind, value)):
                law = dp.calibrate(law, where, value, adjacency=adjacency, length=length)
        with working(f"certifying {show.description(law)}"):
            rows.append((law, dp.certify(law, where, adjacency=adjacency, length=length)))
    if not as_json:
        _show(rows)
        return
    show.data(
        [
            {
                "epsilon_nominal": None if law.scale is None else law.nominal,
                "name": law.name,
                **certificate.to_dict(),
            }
            for law, certificate in rows
        ]
    )


@with_settings
def prepare(settings: PrivacyOptions) -> None:
    """Compute the certificate, and what tokens are drawn by, before any text is there.

    For the image of a server: other processes with the same options find both in the cache folder.
    """
    sanitizer = settings.uncharged().sanitizer()
    with working("certifying, and writing what tokens are drawn by"):
        path = sanitizer.prepare()
    if path is None:
        name = sanitizer.mechanism.name
        show.line(f"the certificate is kept; rows of {name} are computed when they are used")
    else:
        show.line(f"{path} ({path.stat().st_size / 1e6:,.1f} MB)")


def _show(laws: list[tuple[Mechanism, Certificate]]) -> None:
    table = Table("", *(show.description(law) for law, _ in laws), header_style="bold")
    certificates = [certificate for _, certificate in laws]
    rows: dict[str, Callable[[Certificate], str]] = {
        "claimed": show.claim,
        "certified epsilon": lambda c: show.nats(c.epsilon),
        "guarantee": lambda c: show.guarantee(c.guarantee),
        "metric guarantee": lambda c: show.guarantee(c.metric) if c.metric else "none",
        "adjacency": lambda c: str(c.adjacency),
        "method": lambda c: c.method,
        "witness": lambda c: _witness(c.witness) if c.witness else "none",
        "recovery": lambda c: show.percent(c.recovery),
        "retention": lambda c: show.percent(c.retention),
        "recovery in English": lambda c: show.percent(c.recovery_in_english),
        "retention in English": lambda c: show.percent(c.retention_in_english),
    }
    for label, cell in rows.items():
        table.add_row(Text(label, style="bold"), *(Text(cell(c)) for c in certificates))
    console = Console()
    console.print(table)
    console.print("Assumptions:", style="bold")
    for sentence in dict.fromkeys(sentence for c in certificates for sentence in c.assumptions):
        console.print(Text(f"- {sentence}"))


def _witness(witness: Witness) -> str:
    pair = (witness.token, witness.other)
    token, other = ("(unknown)" if name is None else repr(name) for name in pair)
    return f"output {witness.output!r} for {token} against {other}"
