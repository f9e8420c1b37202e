"""``dp-middleware ledger``: look at a privacy ledger, export it, verify it."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import dp_middleware as dp
from dp_middleware.cli import options, show
from dp_middleware.cli.console import Commands, working

app = typer.Typer(
    cls=Commands, help="Show, export and verify a privacy ledger. Nothing here changes one."
)

Subject = Annotated[str | None, typer.Option("--subject", help="One subject only.")]


@app.command("show")
def show_accounts(
    ledger: options.Ledger = None, subject: Subject = None, as_json: options.AsJson = False
) -> None:
    """What every subject was charged and has left."""
    book = show.open_ledger(ledger)
    accounts = {name: book.account(name) for name in _subjects(book, subject)}
    if as_json:
        show.data(
            {
                "budget": show.json_number(book.budget),
                "metric_budget": show.json_number(book.metric_budget),
                "window": book.window,
                "subjects": [
                    show.account_data(name, account) for name, account in accounts.items()
                ],
            }
        )
        return
    window = f" in any {book.window:g} s" if book.window else ""
    title = f"budget {show.nats(book.budget)} nats per subject{window}; "
    title += f"{show.nats(book.metric_budget)} per unit of distance"
    table = Table("subject", "charged", "remaining", "metric", "events", "infinite by", title=title)
    for name, account in accounts.items():
        spent, remaining = show.nats(account.spent), show.remaining(account)
        sums = (spent, remaining, show.metric_spending(account), str(account.events))
        table.add_row(*(Text(cell) for cell in (name, *sums, account.infinite_by or "")))
    Console().print(table)


@app.command()
def export(ledger: options.Ledger = None, subject: Subject = None) -> None:
    """The audit trail on standard output, a JSON object a line: every row, no text."""
    book = show.open_ledger(ledger)
    for name in _subjects(book, subject):
        for row in book.rows(name):
            show.line(json.dumps(row.to_dict()))


@app.command()
def verify(ledger: options.Ledger = None, as_json: options.AsJson = False) -> None:
    """Check the file, and recompute every sum from the rows."""
    with working("verifying"):
        audit = show.open_ledger(ledger).verify()
    if as_json:
        show.data({"ok": True, **audit.to_dict()})
        return
    show.line(
        f"intact: {audit.subjects} subjects, {audit.charges} charges, "
        f"charged {show.nats(audit.spent)} nats in all"
    )


def _subjects(ledger: dp.PrivacyLedger, subject: str | None) -> list[str]:
    return ledger.subjects() if subject is None else [subject]
