"""The commands ``dp-middleware ledger``: look at a privacy ledger, export it, verify it."""

from __future__ import annotations

import csv
import io
import json
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dp_middleware.cli import budget, options
from dp_middleware.cli.failures import Commands

if TYPE_CHECKING:
    from dp_middleware.privacy.ledger.ledger import Account, PrivacyLedger

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    help="Show, export and verify a privacy ledger. Nothing here changes one.",
)

Url = Annotated[
    str | None,
    typer.Argument(
        metavar="URL",
        envvar="DP_MIDDLEWARE_LEDGER",
        help="sqlite:///FILE or postgresql+psycopg://HOST/NAME; default: a file in your data "
        "folder. Passwords belong in the variable.",
    ),
]
Subject = Annotated[str | None, typer.Option("--subject", help="One subject only.")]


class Format(StrEnum):
    """How rows are exported."""

    jsonl = "jsonl"
    csv = "csv"


@app.command()
def show(url: Url = None, subject: Subject = None, as_json: options.AsJson = False) -> None:
    """What every subject has spent and has left."""
    from dp_middleware.cli import show as shown

    ledger = budget.opened(url)
    accounts = {name: ledger.account(name) for name in _chosen(ledger, subject)}
    if as_json:
        _data(
            {
                "budget": shown.plain(ledger.budget),
                "metric_budget": shown.plain(ledger.metric_budget),
                "window": ledger.window,
                "subjects": [shown.account_data(name, each) for name, each in accounts.items()],
            }
        )
        return
    _table(ledger, accounts)


@app.command()
def export(
    url: Url = None,
    subject: Subject = None,
    form: Annotated[Format, typer.Option("--format", help="One row a line.")] = Format.jsonl,
) -> None:
    """The audit trail on standard output: every row, no text."""
    from dp_middleware.cli import show as shown
    from dp_middleware.privacy.ledger.ledger import Row

    ledger = budget.opened(url)
    if form is Format.csv:
        shown.line(_csv([*Row.__dataclass_fields__]))
    for name in _chosen(ledger, subject):
        for row in ledger.rows(name):
            values = row.to_dict()
            shown.line(_csv([*values.values()]) if form is Format.csv else json.dumps(values))


@app.command()
def verify(
    url: Url = None,
    head: Annotated[
        str | None, typer.Option("--head", help="The head noted earlier; another is refused.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Recompute every sum and every link; note the head elsewhere to detect a rewritten ledger."""
    from dp_middleware.cli import show as shown
    from dp_middleware.errors import LedgerError

    found = budget.opened(url).verify()
    if head is not None and head != found.head:
        raise LedgerError(f"expected head {head}, got {found.head}: rows were added or rewritten")
    if as_json:
        _data({"ok": True, **found.to_dict()})
        return
    shown.line(
        f"intact: {found.subjects} subjects, {found.charges} charges, {found.replays} replays, "
        f"{shown.nats(found.spent)} nats in all; head {found.head}"
    )


def _chosen(ledger: PrivacyLedger, subject: str | None) -> list[str]:
    return ledger.subjects() if subject is None else [subject]


def _data(value: object) -> None:
    from dp_middleware.cli import show as shown

    shown.data(value)


def _csv(values: list[Any]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(values)
    return line.getvalue()


def _table(ledger: PrivacyLedger, accounts: dict[str, Account]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from dp_middleware.cli import show as shown

    window = f" in any {ledger.window:g} s" if ledger.window else ""
    title = f"budget {shown.nats(ledger.budget)} nats per subject{window}; "
    title += f"{shown.nats(ledger.metric_budget)} per unit of distance"
    table = Table("subject", "spent", "remaining", "metric", "events", "infinite by", title=title)
    for name, found in accounts.items():
        used, left = shown.metric(found), shown.left(found)
        cells = (name, shown.nats(found.spent), left, used, str(found.events))
        table.add_row(*(Text(cell) for cell in (*cells, found.infinite_by or "")))
    Console().print(table)
