"""``dp-middleware certify`` and ``prepare``: what a mechanism guarantees, before any text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

import dp_middleware as dp
from dp_middleware.cli import choices, options, show
from dp_middleware.cli.options import SpaceName
from dp_middleware.cli.progress import working
from dp_middleware.cli.settings import PrivacyOptions, with_settings
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


def _data(law: Mechanism, certificate: Certificate) -> dict[str, Any]:
    nominal = None if law.scale is None else law.nominal
    return {"epsilon_nominal": nominal, "name": law.name, **certificate.to_dict()}


def _show(names: list[str], certificates: list[Certificate]) -> None:
    rows: dict[str, list[str]] = {
        "claimed": [show.claim(c) for c in certificates],
        "certified epsilon": [show.nats(c.epsilon) for c in certificates],
        "guarantee": [show.guarantee(c.guarantee) for c in certificates],
        "metric guarantee": [
            show.guarantee(c.metric) if c.metric else "none" for c in certificates
        ],
        "adjacency": [str(c.adjacency) for c in certificates],
        "method": [c.method for c in certificates],
        "witness": [_witness(c.witness) if c.witness else "none" for c in certificates],
        "recovery": [show.percent(c.recovery) for c in certificates],
        "retention": [show.percent(c.retention) for c in certificates],
        "recovery in English": [show.percent(c.recovery_in_english) for c in certificates],
        "retention in English": [show.percent(c.retention_in_english) for c in certificates],
    }
    console = Console()
    console.print(show.columns("", names, rows))
    console.print("Assumptions:", style="bold")
    for sentence in dict.fromkeys(sentence for c in certificates for sentence in c.assumptions):
        console.print(Text(f"- {sentence}"))


def _witness(witness: Witness) -> str:
    pair = (witness.token, witness.other)
    token, other = ("(unknown)" if name is None else repr(name) for name in pair)
    return f"output {witness.output!r} for {token} against {other}"
