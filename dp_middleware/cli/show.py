"""What several commands show and open: tables, JSON, ledgers and their accounts."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import dp_middleware as dp
from dp_middleware.errors import LedgerError, ParameterError, withheld
from dp_middleware.privacy import Certificate, Guarantee, MetricDP, NoGuarantee, Unit
from dp_middleware.privacy.certificate import json_number as json_number
from dp_middleware.privacy.wording import UNITS as UNITS, nats as nats, shares

if TYPE_CHECKING:
    from dp_middleware.mechanisms import Mechanism
    from dp_middleware.privacy.ledger.ledger import Account

_FEW_ENTRIES = 4


def data(value: object) -> None:
    """One JSON document on standard output."""
    line(json.dumps(value, indent=2))


def line(text: str) -> None:
    """A text and a line feed on standard output, UTF-8 whatever the locale."""
    typer.echo(f"{text}\n".encode(), nl=False)


def pairs(console: Console, *rows: tuple[str, str]) -> None:
    """A name and a value on each line."""
    table = Table.grid(padding=(0, 2))
    for name, value in rows:
        table.add_row(Text(name, style="bold"), Text(value))
    console.print(table)


def printable(text: str) -> str:
    """Without the control characters by which a remote model could drive a terminal."""
    return "".join(c for c in text if c.isprintable() or c in "\n\t")


def percent(share: float | None) -> str:
    """A probability for a table."""
    return "not computed" if share is None else f"{100 * share:.3g} %"


def guarantee(statement: Guarantee, unit: Unit = "occurrence") -> str:
    """The true statement in a phrase."""
    if isinstance(statement, NoGuarantee):
        return f"none: {statement.reason}"
    if isinstance(statement, MetricDP):
        return f"{nats(statement.epsilon)} per unit of {statement.distance} distance"
    return f"{nats(statement.epsilon)}-DP per {UNITS[unit]}"


def claim(certificate: Certificate) -> str:
    """The paper's number with its unit."""
    return nats(certificate.claimed) + (" per unit of distance" if certificate.metric else "")


def parameters(mechanism: Mechanism) -> dict[str, Any]:
    """The parameters of a mechanism, JSON-ready: of many entries their number."""
    values: dict[str, Any] = {}
    for name, value in mechanism.parameters.items():
        entries = sorted(value) if isinstance(value, frozenset) else value
        many = isinstance(entries, list | tuple) and len(entries) > _FEW_ENTRIES
        values[name] = f"({len(entries)} entries)" if many else entries
    return values


def description(mechanism: Mechanism) -> str:
    """Name and parameters."""
    words = [
        f"{name}={value:.6g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in parameters(mechanism).items()
        if value is not None
    ]
    return f"{mechanism.name}({', '.join(words)})"


def summary(release: dp.Release, sanitizer: dp.Sanitizer, asked: str) -> None:
    """What a release is worth and what it cost, on standard error."""
    certificate = release.certificate
    unit = UNITS[certificate.unit]
    statement = guarantee(certificate.guarantee, certificate.unit)
    recovered, retained, of = shares(certificate)
    attack = f"the best context-free attacker recovers {percent(recovered)} of {of}; "
    attack += f"{percent(retained)} stay as they are"
    kept = f", {release.tokens_verbatim} released unchanged by policy" if unit == "token" else ""
    rows = [
        ("epsilon", f"{nats(certificate.epsilon)} per {unit} ({certificate.method}); {asked}"),
        ("guarantee", f"{statement}; {certificate.adjacency}"),
        ("mechanism", f"{description(sanitizer.mechanism)}; claimed {claim(certificate)}"),
        *([] if unit == "text" else [(f"{unit}s", f"{release.tokens_total}{kept}")]),
        cost(release, sanitizer),
        ("attack", attack if recovered is not None else "not computed: the law is not enumerated"),
    ]
    pairs(Console(stderr=True), *rows, *standing(sanitizer))


def cost(release: dp.Release, sanitizer: dp.Sanitizer | dp.Pseudonyms) -> tuple[str, str]:
    """A row with the two numbers of a release: nats on this text, and nats of the subject."""
    words = f"spends {nats(release.spent)} nats on this text"
    if sanitizer.ledger is None:
        return "cost", f"{words}; there is no ledger: nothing is charged"
    return "cost", f"{words}, charged {nats(release.charged)} nats to {sanitizer.subject}"


def standing(sanitizer: dp.Sanitizer | dp.Pseudonyms) -> list[tuple[str, str]]:
    """A row with what was charged in all and is left, if a ledger was charged."""
    account = account_of(sanitizer)
    if account is None:
        return []
    also = f" and {metric_spending(account)}" if account.metric else ""
    words = f"charged {nats(account.spent)} nats{also} in all, remaining {remaining(account)}"
    return [("budget", f"{sanitizer.subject}: {words}")]


def release_data(
    release: dp.Release,
    sanitizer: dp.Sanitizer | dp.Pseudonyms,
    asked: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A release, its certificate and, with a ledger, what is left, JSON-ready."""
    account = account_of(sanitizer)
    charged = {"budget": account_data(str(sanitizer.subject), account)} if account else {}
    own: dict[str, Any] = {}
    if isinstance(sanitizer, dp.Sanitizer):
        law = sanitizer.mechanism
        own = {"asked": asked, "mechanism": {"name": law.name, **parameters(law)}}
    return {
        "text": release.text,
        "tokens_total": release.tokens_total,
        "tokens_verbatim": release.tokens_verbatim,
        "spent": json_number(release.spent),
        "charged": json_number(release.charged if sanitizer.ledger is not None else 0.0),
        **own,
        "certificate": release.certificate.to_dict(),
        **charged,
    }


def account_data(subject: str, account: Account) -> dict[str, Any]:
    """An account, JSON-ready."""
    return {
        "subject": subject,
        "charged": json_number(account.spent),
        "remaining": json_number(account.remaining),
        "metric": account.metric,
        "events": account.events,
        "infinite_by": account.infinite_by,
    }


def remaining(account: Account) -> str:
    """What is left, in nats."""
    return "unlimited" if math.isinf(account.remaining) else f"{account.remaining:.10g}"


def metric_spending(account: Account) -> str:
    """What was charged per unit of distance, by distance and space; empty if nothing was."""
    return ", ".join(f"{nats(value)} {scale}" for scale, value in account.metric.items())


def open_ledger(
    url: str | None, budget: float | None = None, metric_budget: float | None = None
) -> dp.PrivacyLedger:
    """Opens a ledger, by default the file in the user's data folder; a budget creates one."""
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
    """Returns the standing of the subject that is charged; no failing ledger costs a release."""
    ledger: Any = sanitizer.ledger
    try:
        return None if ledger is None else ledger.account(sanitizer.subject)
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
