"""The privacy ledger of a command: which one, whose budget, and how an account looks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

import dp_middleware as dp
from dp_middleware.errors import LedgerError, ParameterError, withheld

if TYPE_CHECKING:
    from dp_middleware.privacy.ledger.ledger import Account


def open_ledger(
    url: str | None, budget: float | None = None, metric_budget: float | None = None
) -> dp.PrivacyLedger:
    """A ledger.

    Args:
        url: ``None`` for the file in the user's data folder.
        budget: Nats per subject. Creates a ledger that is not there, with its folder if it is the
            default one; with a ledger that is, it must be the same. ``None`` creates nothing.
        metric_budget: Nats per unit of distance; ``None``: as many as ``budget``.

    Raises:
        ParameterError: There is none and no budget, one with other budgets, or a malformed URL.
    """
    try:
        if not url:
            url = f"sqlite:///{data_folder(create=budget is not None) / 'ledger.db'}"
        return dp.PrivacyLedger(url, budget=budget, metric_budget=metric_budget)
    except ParameterError as error:
        failed = str(error)
    raise ParameterError(
        f"{failed}; on the command line: --budget creates a ledger, --ledger or "
        "DP_MIDDLEWARE_LEDGER names another"
    )


def account_of(sanitizer: dp.Sanitizer | dp.Pseudonyms) -> Account | None:
    """The standing of the subject that is charged, if one is; for display.

    A release that was charged is not lost for a ledger that fails now: ``None``, with a note on
    standard error.
    """
    if sanitizer.ledger is None or sanitizer.subject is None:
        return None  # without a look at the ledger's class, whose database takes long to load
    if not isinstance(sanitizer.ledger, dp.PrivacyLedger):
        return None
    try:
        return sanitizer.ledger.account(sanitizer.subject)
    except LedgerError:
        typer.echo("note: this was charged; what is left could not be read", err=True)
        return None


def data_folder(*, create: bool) -> Path:
    """The user's data folder, which is made for them alone."""
    from platformdirs import user_data_path

    folder = user_data_path("dp-middleware")
    if create:
        with withheld("expected a data folder that can be written, got {}", OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder
