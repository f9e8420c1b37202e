"""``dp-middleware ledger``: look at a privacy ledger, export it, verify it."""

from __future__ import annotations

import json
from typing import Annotated

from rich.console import Console
from typer import Option, Typer

import dp_middleware as dp
from dp_middleware.cli import options, show
from dp_middleware.cli.console import Commands, working

app = Typer(
    cls=Commands, help="Show, export and verify a privacy ledger. Nothing here changes one."
)
Subject = Annotated[str | None, Option("--subject", help="One subject only.")]


@app.command("show")
def show_accounts(
    ledger: options.Ledger = None, subject: Subject = None, as_json: options.AsJson = False
) -> None:
    """What every subject was charged and has left."""
    book = show.open_ledger(ledger)
    terms = {"budget": book.budget, "metric_budget": book.metric_budget, "window": book.window}
    terms = {name: show.json_number(value) for name, value in terms.items()}
    rows = [show.account_data(name, book.account(name)) for name in _subjects(book, subject)]
    if as_json:
        show.data({**terms, "subjects": rows})
        return
    for row in (terms, *rows):
        show.pairs(Console(), *show.listed(row), ("", ""))


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
    else:
        spent = f"charged {show.nats(audit.spent)} nats in all"
        show.line(f"intact: {audit.subjects} subjects, {audit.charges} charges, {spent}")


def _subjects(ledger: dp.PrivacyLedger, subject: str | None) -> list[str]:
    return ledger.subjects() if subject is None else [subject]
