"""How certificates, releases and dry runs look: rich tables for people, dicts for machines."""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dp_middleware.cli import budget
from dp_middleware.privacy import Certificate, Guarantee, MetricDP, NoGuarantee, Witness

if TYPE_CHECKING:
    from dp_middleware.mechanisms import Mechanism
    from dp_middleware.privacy.ledger.ledger import Account
    from dp_middleware.privacy.releases import Release
    from dp_middleware.sanitizers.explanation import Explanation
    from dp_middleware.sanitizers.sanitizer import Sanitizer

_FEW_ENTRIES = 4


def data(value: object) -> None:
    """One JSON document on standard output."""
    line(json.dumps(value, indent=2))


def line(text: str) -> None:
    """A text and a line feed on standard output, UTF-8 whatever the locale."""
    typer.echo(f"{text}\n".encode(), nl=False)


def printable(text: str) -> str:
    """Without the control characters by which a remote model could drive a terminal."""
    return "".join(c for c in text if c.isprintable() or c in "\n\t")


def nats(epsilon: float) -> str:
    """Four decimals, rounded up: a loss is never understated."""
    return "infinite" if math.isinf(epsilon) else f"{math.ceil(epsilon * 1e4 - 1e-6) / 1e4:.10g}"


def percent(share: float | None) -> str:
    """A probability for a table."""
    return "not computed" if share is None else f"{100 * share:.3g} %"


def guarantee(found: Guarantee) -> str:
    """The true statement in a phrase."""
    if isinstance(found, NoGuarantee):
        return f"none: {found.reason}"
    if isinstance(found, MetricDP):
        return f"{nats(found.epsilon)} per unit of {found.distance} distance"
    return f"{nats(found.epsilon)}-DP per token"


def claimed(found: Certificate) -> str:
    """The paper's number with its unit."""
    return nats(found.claimed) + (" per unit of distance" if found.metric else "")


def witness(found: Witness | None) -> str:
    """Where the loss is attained."""
    if found is None:
        return "none"
    token, other = (
        "(unknown)" if each is None else repr(each) for each in (found.token, found.other)
    )
    return f"output {found.output!r} for {token} against {other}"


def described(mechanism: Mechanism) -> str:
    """Name and parameters."""
    parameters = (f"{k}={_short(v)}" for k, v in mechanism.parameters.items() if v is not None)
    return f"{mechanism.name}({', '.join(parameters)})"


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, tuple | frozenset) and len(value) > _FEW_ENTRIES:
        return f"({len(value)} entries)"
    return str(value)


def certificate_data(mechanism: Mechanism, found: Certificate) -> dict[str, Any]:
    """A mechanism and its certificate, JSON-ready."""
    nominal = None if mechanism.scale is None else mechanism.nominal
    return {"epsilon_nominal": nominal, "name": mechanism.name, **found.to_dict()}


def _parameters(mechanism: Mechanism) -> dict[str, Any]:
    """JSON-ready; sets sorted."""
    parameters = mechanism.parameters.items()
    return {name: sorted(v) if isinstance(v, frozenset) else v for name, v in parameters}


def summary(
    release: Release,
    sanitizer: Sanitizer,
    asked: str,
    details: Sequence[tuple[str, str]] = (),
) -> None:
    """What a release is worth and what it cost, on standard error; ``details`` after epsilon."""
    certificate = release.certificate
    kept = f"{release.tokens_verbatim} released unchanged by policy"
    attack = "not computed: the law is not enumerated"
    if certificate.recovery is not None:
        attack = (
            f"the best context-free attacker recovers {percent(certificate.recovery)} of tokens; "
            f"{percent(certificate.retention)} stay as they are"
        )
    table = Table.grid(padding=(0, 2))
    epsilon = f"{nats(certificate.epsilon)} per token ({certificate.method}); {asked}"
    for name, value in (
        ("epsilon", epsilon),
        *details,
        ("guarantee", f"{guarantee(certificate.guarantee)}; {certificate.adjacency}"),
        ("mechanism", f"{described(sanitizer.mechanism)}; claimed {claimed(certificate)}"),
        ("tokens", f"{release.tokens_total}, {kept}"),
        ("attack", attack),
        *_budget(sanitizer),
    ):
        table.add_row(Text(name, style="bold"), Text(value))
    Console(stderr=True).print(table)


def _budget(sanitizer: Sanitizer) -> list[tuple[str, str]]:
    found = budget.account_of(sanitizer)
    if found is None:
        return []
    also = f" and {metric(found)}" if found.metric else ""
    words = f"spent {nats(found.spent)} nats{also}, remaining {left(found)}"
    return [("budget", f"{sanitizer.subject}: {words}")]


def account_data(subject: str, found: Account) -> dict[str, Any]:
    """An account, JSON-ready."""
    return {
        "subject": subject,
        "spent": plain(found.spent),
        "remaining": plain(found.remaining),
        "metric": found.metric,
        "events": found.events,
        "infinite_by": found.infinite_by,
    }


def left(found: Account) -> str:
    """What remains, in nats."""
    return "unlimited" if math.isinf(found.remaining) else f"{found.remaining:.10g}"


def metric(found: Account) -> str:
    """What was spent per unit of distance, by distance and space; empty if nothing was."""
    return ", ".join(f"{nats(value)} {scale}" for scale, value in found.metric.items())


def plain(value: float) -> float | str:
    """JSON has no infinity."""
    return "inf" if math.isinf(value) else value


def release_data(release: Release, sanitizer: Sanitizer, asked: dict[str, Any]) -> dict[str, Any]:
    """A release, its certificate and, with a ledger, what is left, JSON-ready."""
    account = budget.account_of(sanitizer)
    charged = account and {"budget": account_data(str(sanitizer.subject), account)}
    return {
        "text": release.text,
        "tokens_total": release.tokens_total,
        "tokens_verbatim": release.tokens_verbatim,
        "asked": asked,
        "mechanism": {"name": sanitizer.mechanism.name, **_parameters(sanitizer.mechanism)},
        "certificate": release.certificate.to_dict(),
        **(charged or {}),
    }


def certificates(found: Sequence[Certificate], names: Sequence[str]) -> None:
    """One column per certificate, then what all of them assume."""
    table = Table("", *names, header_style="bold")
    for label, values in (
        ("claimed", [claimed(c) for c in found]),
        ("certified epsilon", [nats(c.epsilon) for c in found]),
        ("guarantee", [guarantee(c.guarantee) for c in found]),
        ("metric guarantee", ["none" if c.metric is None else guarantee(c.metric) for c in found]),
        ("adjacency", [str(c.adjacency) for c in found]),
        ("method", [c.method for c in found]),
        ("witness", [witness(c.witness) for c in found]),
        ("recovery", [percent(c.recovery) for c in found]),
        ("retention", [percent(c.retention) for c in found]),
    ):
        table.add_row(Text(label, style="bold"), *(Text(value) for value in values))
    console = Console()
    console.print(table)
    console.print("Assumptions:", style="bold")
    for sentence in dict.fromkeys(each for c in found for each in c.assumptions):
        console.print(Text(f"- {sentence}"))


def explanation(found: Explanation) -> None:
    """A dry run. Private: it names tokens of the input."""
    table = Table("token", "count", "stays", "likeliest outputs", header_style="bold")
    for each in found.alternatives:
        likely = ", ".join(f"{token} {percent(share)}" for token, share in each.likely)
        stays = percent(each.retention)
        table.add_row(Text(printable(each.token)), str(each.count), stays, Text(printable(likely)))
    console = Console()
    console.print(table)
    console.print(
        f"{found.tokens_total} tokens: {found.tokens_verbatim} kept by policy, "
        f"{found.tokens_unknown} unknown; expected retention {percent(found.expected_retention)}. "
        "Local and private: nothing was drawn."
    )
    console.print(Text(found.warning, style="yellow"))


def explanation_data(found: Explanation) -> dict[str, Any]:
    """A dry run, JSON-ready. Private."""
    return asdict(found)


def mechanism_data(mechanism: type[Mechanism]) -> dict[str, str]:
    """What a mechanism's own documentation says of it."""
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


def mechanisms(rows: Sequence[dict[str, str]]) -> None:
    """One row per mechanism."""
    names = ("name", "claim", "summary", "reference")
    table = Table(*names, header_style="bold", show_lines=True)
    table.columns[0].no_wrap = True
    for row in rows:
        table.add_row(*(Text(row[name]) for name in names))
    Console().print(table)


def mechanism_table() -> str:
    """One Markdown table of all mechanisms, from their own documentation; no line feed at the end.

    One line per mechanism, which starts with its name in backticks. The reference is cut after
    its first year, or after its first sentence.
    """
    from dp_middleware.mechanisms import MECHANISMS

    lines = ["| name | what it does | claimed | guaranteed | reference |", "|---|---|---|---|---|"]
    for row in map(mechanism_data, MECHANISMS.values()):
        does = _first_sentence(row["summary"])
        year = re.match(r".*?\(\d{4}\)", row["reference"])
        source = year.group() if year else _first_sentence(row["reference"])
        cells = (f"`{row['name']}`", does, row["claim"], row["truth"], source)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def _first_sentence(text: str) -> str:
    """Up to the first full stop before a capital letter, which is left out."""
    return re.split(r"\.(?:\s+(?=[A-Z])|$)", text, maxsplit=1)[0]
