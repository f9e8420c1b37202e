"""``dp-middleware certify`` and ``prepare``: what a mechanism guarantees, before any text."""

from __future__ import annotations

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
from dp_middleware.privacy import Certificate, Witness

if TYPE_CHECKING:
    from dp_middleware.mechanisms import Mechanism


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
        int | None,
        typer.Option(help="Tokens of the text, where a token moves other positions."),
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
