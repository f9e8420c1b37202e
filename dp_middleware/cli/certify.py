"""``dp-middleware certify`` and ``prepare``: what a mechanism guarantees, before any text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import dp_middleware as dp
from dp_middleware import _validate
from dp_middleware.cli import choices, options, show
from dp_middleware.cli.options import SpaceName
from dp_middleware.cli.progress import working
from dp_middleware.cli.settings import Settings, with_settings
from dp_middleware.privacy import Certificate, Witness

if TYPE_CHECKING:
    from dp_middleware.mechanisms import Mechanism

_MUCH = 1e9  # bytes


def certify(
    mechanism: Annotated[
        str | None, typer.Argument(help="See `dp-middleware mechanisms`.", show_default=False)
    ] = None,
    epsilon: Annotated[
        list[float] | None,
        typer.Option("--epsilon", "-e", help="Nats per token, certified exactly; repeatable."),
    ] = None,
    nominal: options.Nominal = False,
    space: options.SpaceOption = SpaceName.default,
    within_classes: options.WithinClasses = False,
    list_size: options.ListSize = None,
    length: Annotated[
        int | None,
        typer.Option("--length", help="Tokens of the text, where a token moves other positions."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """What a mechanism claims, and what it really guarantees on a space."""
    epsilons = epsilon or [10.0]
    kind, where = choices.mechanism_of(mechanism, *epsilons), choices.space_of(space)
    adjacency = None
    if within_classes:
        adjacency = choices.classes_of(kind.with_defaults(epsilons[0], where), where)
    rows = []
    for value in epsilons:
        law: Mechanism = choices.law_of(kind, value, where, list_size)
        if not nominal:
            with working(choices.calibrating(kind, value)):
                law = dp.calibrate(law, where, value, adjacency=adjacency, length=length)
        with working(f"certifying {show.description(law)}"):
            rows.append((law, dp.certify(law, where, adjacency=adjacency, length=length)))
    if as_json:
        show.data([_data(law, certificate) for law, certificate in rows])
        return
    _show([show.description(law) for law, _ in rows], [certificate for _, certificate in rows])


@with_settings
def prepare(
    settings: Settings,
    first: Annotated[
        int | None,
        typer.Option("--first", help="Only the first tokens of the vocabulary, this many."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Write many rows without being asked.")
    ] = False,
) -> None:
    """Compute certificate and rows before any text is there; keep them in the cache folder.

    For the image of a server: other processes with the same options draw from the file.
    """
    if first is not None:
        _validate.at_least(1, first=first)
    sanitizer = settings.uncharged().sanitizer()
    if not yes:
        _ask(sanitizer, first)
    with working("certifying, computing rows and writing them"):
        path = sanitizer.prepare(sanitizer.space.vocabulary.tokens[:first])
    files = path.iterdir() if path.is_dir() else [path]
    size = sum(file.stat().st_size for file in files)
    show.line(f"{path} ({size / 1e6:,.1f} MB)")


def _ask(sanitizer: dp.Sanitizer, first: int | None) -> None:
    """Say how much a folder of rows that is not there yet takes; ask if that is much."""
    import numpy as np

    from dp_middleware.mechanisms import ChannelMechanism, landmarks, near_lists, prepared

    mechanism, space = sanitizer.mechanism, sanitizer.space
    ids = np.arange(len(space))[:first]
    if not isinstance(mechanism, ChannelMechanism) or near_lists.near_rows(mechanism, space):
        return  # nothing to write, or little
    if landmarks.opened(mechanism, space) is not None:
        return
    found = prepared.opened(mechanism, space)
    if found is not None and found.holds(ids):
        return
    with working("computing some rows"):
        needed = landmarks.needs(mechanism, space)
        size, seconds = needed or prepared.needs(mechanism, space, ids)
    wanted = f"{size / 1e9:.2f} GB in {seconds:.0f} seconds for {len(ids):,} rows"
    typer.echo(wanted, err=True)
    if size > _MUCH:
        typer.confirm("Write them?", abort=True, err=True)


def _data(law: Mechanism, certificate: Certificate) -> dict[str, Any]:
    nominal = None if law.scale is None else law.nominal
    return {"epsilon_nominal": nominal, "name": law.name, **certificate.to_dict()}


def _show(names: list[str], certificates: list[Certificate]) -> None:
    """One column per certificate, then what all of them assume."""
    table = Table("", *names, header_style="bold")
    for label, values in (
        ("claimed", [show.claim(c) for c in certificates]),
        ("certified epsilon", [show.nats(c.epsilon) for c in certificates]),
        ("guarantee", [show.guarantee(c.guarantee) for c in certificates]),
        ("metric guarantee", [c.metric and show.guarantee(c.metric) for c in certificates]),
        ("adjacency", [str(c.adjacency) for c in certificates]),
        ("method", [c.method for c in certificates]),
        ("witness", [c.witness and _witness(c.witness) for c in certificates]),
        ("recovery", [show.percent(c.recovery) for c in certificates]),
        ("retention", [show.percent(c.retention) for c in certificates]),
        ("recovery in English", [show.percent(c.recovery_in_english) for c in certificates]),
        ("retention in English", [show.percent(c.retention_in_english) for c in certificates]),
    ):
        table.add_row(Text(label, style="bold"), *(Text(value or "none") for value in values))
    console = Console()
    console.print(table)
    console.print("Assumptions:", style="bold")
    for sentence in dict.fromkeys(sentence for c in certificates for sentence in c.assumptions):
        console.print(Text(f"- {sentence}"))


def _witness(witness: Witness) -> str:
    """Where the loss is attained."""
    pair = (witness.token, witness.other)
    token, other = ("(unknown)" if name is None else repr(name) for name in pair)
    return f"output {witness.output!r} for {token} against {other}"
