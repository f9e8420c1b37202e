"""What several commands show and open: tables, JSON, ledgers and their accounts."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import dp_middleware as dp
from dp_middleware.errors import LedgerError, ParameterError, withheld
from dp_middleware.privacy.certificate import json_number as json_number
from dp_middleware.privacy.wording import UNITS as UNITS, nats as nats, sentence, shares

if TYPE_CHECKING:
    from dp_middleware.mechanisms import Mechanism
    from dp_middleware.privacy.ledger.ledger import Account


def data(value: object) -> None:
    """Writes one JSON document to standard output."""
    line(json.dumps(value, indent=2))


def line(text: str) -> None:
    """Writes a text and a line feed to standard output, UTF-8 whatever the locale."""
    typer.echo(f"{text}\n".encode(), nl=False)


def pairs(console: Console, *rows: tuple[str, str]) -> None:
    """Writes a name and a value on each line."""
    table = Table.grid(padding=(0, 2))
    for name, value in rows:
        table.add_row(Text(name, style="bold"), Text(value))
    console.print(table)


def printable(text: str) -> str:
    """Leaves out the control characters by which a remote model could drive a terminal."""
    return "".join(c for c in text if c.isprintable() or c in "\n\t")


def plain(value: Any) -> str:
    """Writes a JSON-ready value for people; nothing for ``None``."""
    if isinstance(value, Mapping):
        return ", ".join(f"{plain(count)} {what}" for what, count in value.items())
    if isinstance(value, float):
        return f"{value:.10g}"
    return "" if value is None else str(value)


def listed(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Makes rows of JSON-ready data: of a list one for each entry, of what is absent none."""
    for name, value in data.items():
        for entry in value if isinstance(value, list | tuple) else [value]:
            if text := plain(entry):
                yield name.replace("_", " "), text


def parameters(mechanism: Mechanism) -> dict[str, Any]:
    """Returns those parameters of a mechanism that are a number or a word."""
    named = mechanism.parameters.items()
    return {name: value for name, value in named if isinstance(value, int | float | str)}


def description(mechanism: Mechanism) -> str:
    """Writes name and parameters."""
    words = (f"{name}={plain(value)}" for name, value in parameters(mechanism).items())
    return f"{mechanism.name}({', '.join(words)})"


def certified(
    certificate: dp.Certificate, mechanism: Mechanism, asked: str
) -> list[tuple[str, str]]:
    """Makes rows of what a mechanism promises, and of what its certificate says."""
    unit = UNITS[certificate.unit]
    claim = nats(certificate.claimed) + " per unit of distance" * (certificate.metric is not None)
    recovered, retained, of = shares(certificate)
    attack = "not computed: the law is not enumerated"
    if recovered is not None and retained is not None:
        attack = f"the best context-free attacker recovers {100 * recovered:.3g} % of {of}; "
        attack += f"{100 * retained:.3g} % stay as they are"
    rows = [
        ("epsilon", f"{nats(certificate.epsilon)} per {unit} ({certificate.method}); {asked}"),
        ("guarantee", sentence(certificate)),
        ("mechanism", f"{description(mechanism)}; claimed {claim}"),
        ("attack", attack),
    ]
    if metric := certificate.metric:
        rows.append(("metric", f"{nats(metric.epsilon)} per unit of {metric.distance} distance"))
    return rows


def summary(release: dp.Release, sanitizer: dp.Sanitizer, asked: str) -> None:
    """Tells on standard error what a release is worth and what it cost."""
    rows = certified(release.certificate, sanitizer.mechanism, asked)
    unit = UNITS[release.certificate.unit]
    if unit != "text":
        kept = f", {release.tokens_verbatim} released unchanged by policy" * (unit == "token")
        rows.append((f"{unit}s", f"{release.tokens_total}{kept}"))
    pairs(Console(stderr=True), *rows, cost(release, sanitizer), *standing(sanitizer))


def cost(release: dp.Release, sanitizer: dp.Sanitizer | dp.Pseudonyms) -> tuple[str, str]:
    """Makes a row of the two numbers of a release: nats on this text, and nats of the subject."""
    words = f"spends {nats(release.spent)} nats on this text"
    if sanitizer.ledger is None:
        return "cost", f"{words}; there is no ledger: nothing is charged"
    return "cost", f"{words}, charged {nats(release.charged)} nats to {sanitizer.subject}"


def standing(sanitizer: dp.Sanitizer | dp.Pseudonyms) -> list[tuple[str, str]]:
    """Makes a row of what was charged in all and is left, if a ledger was charged."""
    account = account_of(sanitizer)
    if account is None:
        return []
    metric = "".join(f" and {nats(value)} {scale}" for scale, value in account.metric.items())
    left = "unlimited" if math.isinf(account.remaining) else f"{account.remaining:.10g}"
    words = f"charged {nats(account.spent)} nats{metric} in all, remaining {left}"
    return [("budget", f"{sanitizer.subject}: {words}")]


def release_data(
    release: dp.Release, sanitizer: dp.Sanitizer | dp.Pseudonyms, **own: Any
) -> dict[str, Any]:
    """Returns a release, its certificate and, with a ledger, what is left, JSON-ready."""
    account = account_of(sanitizer)
    charged = {"budget": account_data(str(sanitizer.subject), account)} if account else {}
    if isinstance(sanitizer, dp.Sanitizer):
        law = sanitizer.mechanism
        own["mechanism"] = {"name": law.name, **parameters(law)}
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
    """Returns an account, JSON-ready."""
    spent, left = json_number(account.spent), json_number(account.remaining)
    own = {"subject": subject, "charged": spent, "remaining": left, "metric": account.metric}
    return {**own, "events": account.events, "infinite_by": account.infinite_by}


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
    """Finds the user's data folder, which is made for them alone."""
    from platformdirs import user_data_path

    folder = user_data_path("dp-middleware")
    if create:
        with withheld("expected a data folder that can be written, got {}", OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder
